"""One writer a name."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from caffe2_bridge.ssa import rename_versions
from caffe2_frontend.state import Export


class RenameToSsa:
    """Rewrite the net so that every blob is written once; its inputs keep their names.

    An output that overwrites an input gets a new name, and the graph output with it. What reads a blob without a value
    still does: the lowering reports it, with all else, in net order.
    """

    requires: ClassVar[frozenset[str]] = frozenset()
    ensures: ClassVar[frozenset[str]] = frozenset({"ssa"})

    def __call__(self, state: Export) -> Export:
        """Rewrite the net."""
        predict = rename_versions(state.predict)
        outputs = tuple((name, name) for name in predict.external_output)
        return replace(state, predict=predict, outputs=outputs)
