"""Eliminate dead code."""

from __future__ import annotations

from typing import ClassVar

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.cleanup.unused import remove_unused
from caffe2_frontend.state import Export


class EliminateDeadCode(InPlacePass[Export]):
    """Remove nodes and constants whose results are not used, in bodies too."""

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})
    ensures: ClassVar[frozenset[str]] = frozenset({"pruned"})

    def __call__(self, state: Export) -> None:
        """Prune the model."""
        if state.model is not None:
            remove_unused(state.model)
