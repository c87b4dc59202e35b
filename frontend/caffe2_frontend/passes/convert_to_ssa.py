"""Convert the net to SSA form."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from caffe2_bridge.passes import FunctionalPass
from caffe2_bridge.ssa import rename_versions
from caffe2_frontend.state import Export


class ConvertToSsa(FunctionalPass[Export]):
    """Rewrite the net so that every blob is written once; its inputs keep their names.

    An output that overwrites an input gets a new name, and the graph output with it. An operator that reads a blob
    without a value is left unchanged: the lowering reports it, in net order with all other diagnostics.
    """

    ensures: ClassVar[frozenset[str]] = frozenset({"ssa"})

    def __call__(self, state: Export) -> Export:
        """Return the state with the net in SSA form."""
        predict = rename_versions(state.predict)
        outputs = tuple((name, name) for name in predict.external_output)
        return replace(state, predict=predict, outputs=outputs)
