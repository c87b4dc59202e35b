"""Signatures of operators on sequences, segments and states; time comes first, then the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.operators.signature import Shape, Text

# The operators whose lengths are those of the rows of sequences: they are not read where all rows are full.
OVER_SEQUENCES: Final = ("RecurrentNetwork", "RecurrentNetworkGradient", "ReversePackedSegs")


def _with_mask(op: OpView, _: Sequence[Shape | None]) -> str:
    rows = len(op.args.integers("mask", default=()))
    segments = "L, " if len(op.inputs) > 3 else ""
    return f"ids[Q], values[Q, *D:0], default[*D], lengths[L] -> Y[{segments}{rows}, *D]"


def _unit(states: str, gates: int, op: OpView) -> str:
    lengths = "lengths[N], " if op.args.flag("sequence_lengths", default=True) else ""
    inputs = ", ".join(f"{name}[1, N, D]" for name in states)
    return f"{inputs}, gates[1, N, {gates}*D], {lengths}step[1] -> {inputs}"


SIGNATURES: Final[Mapping[str, Text]] = {
    "LengthsSum LengthsMean LengthsMax": "X[R, *D:1], lengths[L] -> Y[L, *D]",
    "SparseLengthsSum SparseLengthsMean SparseLengthsMax": "X[R, *D:1], indices[Q], lengths[L] -> Y[L, *D]",
    "SparseLengthsWeightedSum SparseLengthsWeightedMean":
        "X[R, *D:1], weights[Q], indices[Q], lengths[L] -> Y[L, *D]",
    "SparseToDenseMask": _with_mask,
    "LengthsRangeFill LengthsToSegmentIds": "lengths[L] -> Y[R]",
    "LengthsToRanges": "lengths[L] -> Y[L, 2]",
    "SegmentIdsToLengths": "X -> Y[L]",
    "GatherRanges": "X[Q], ranges[L, R, 2] -> Y[P], lengths[L]",
    "OneHot": "X[N], size -> Y[N, D]",
    "BatchOneHot": "X[N, D], lengths[D], values[V] -> Y[N, V]",
    "ReversePackedSegs": "X[T, N, D], lengths[N] -> Y[T, N, D]",
    "RecurrentNetwork": "X -> all[T, N, D], last[L, N, D], A[U, N, E], B[V, N, E]",
    "InferenceLSTM": "X, hidden, cell; weights... -> Y",
    "LSTMUnit": lambda op, _: _unit("HC", 4, op),
    "GRUUnit": lambda op, _: _unit("H", 3, op),
}  # fmt: skip
