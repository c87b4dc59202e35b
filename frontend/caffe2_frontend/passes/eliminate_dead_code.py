"""Eliminate dead code."""

from __future__ import annotations

from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.operators.sequence import OVER_SEQUENCES
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
        if state.model is not None and state.options.full_lengths:
            _drop_lengths(state)


def _drop_lengths(state: Export) -> None:
    """Remove the inputs that only operators over sequences read, and no node does, as all rows are full."""
    others = {name for op in state.net.ops if op.type not in OVER_SEQUENCES for name in op.inputs}
    inputs = state.graph.inputs
    inputs[:] = [x for x in inputs if x.uses() or x.is_graph_output() or x.name in others or not _is_lengths(x)]


def _is_lengths(value: ir.Value) -> bool:
    return value.dtype in (ir.DataType.INT32, ir.DataType.INT64) and value.shape is not None and len(value.shape) == 1
