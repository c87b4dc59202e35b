"""Operators that must work in place: real Caffe2 requires one blob for an input and an output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from caffe2_bridge.ssa.objects import MUTATORS

_Pairs = Callable[[int, int], bool]


def _same(i: int, o: int) -> bool:
    return i == o


def _shifted(i: int, o: int) -> bool:
    return i == o + 1


def _only(*pairs: tuple[int, int]) -> _Pairs:
    return lambda i, o: (i, o) in pairs


# (input, output) operands that real Caffe2 holds to one blob: most by their schema, some (AsyncNetBarrier,
# EnsureClipped, the MomentumSGDUpdates, UnsafeCoalesce, VariableLengthSequencePadding, YellowFin) by a kernel that
# refuses two blobs or is wrong on them.
_IN_PLACE: Final[Mapping[str, _Pairs]] = {
    **dict.fromkeys(
        (
            "AsyncNetBarrier", "CollectTensor", "DataCouple", "Float16SparseNormalize", "Iter", "NCCLBroadcast",
            "RowWiseCounter",
            "RowWiseSparseAdagrad",
            "RowWiseSparseAdagradFusedWithSparseLengthsMeanGradient",
            "RowWiseSparseAdagradFusedWithSparseLengthsMeanGradientApprox",
            "RowWiseSparseAdagradFusedWithSparseLengthsSumGradient",
            "RowWiseSparseAdagradFusedWithSparseLengthsSumGradientApprox",
            "SparseAdadelta", "SparseAdagrad",
            "SparseAdagradFusedWithSparseLengthsMeanGradient", "SparseAdagradFusedWithSparseLengthsMeanGradientApprox",
            "SparseAdagradFusedWithSparseLengthsSumGradient", "SparseAdagradFusedWithSparseLengthsSumGradientApprox",
            "SparseLpRegularizer", "SparseNormalize", "SparseStorm", "SparseWngrad", "TrimDataset", "UnsafeCoalesce",
            "YellowFin",
        ),
        _same,
    ),
    **dict.fromkeys(("Allreduce", "Broadcast", "EnqueueBlobs", "ReduceScatter", "SafeEnqueueBlobs"), _shifted),
    **dict.fromkeys(
        ("Append", "CopyRowsToTensor", "EnsureClipped", "ScatterAssign", "ScatterWeightedSum",
         "VariableLengthSequencePadding"),
        _only((0, 0)),
    ),
    **dict.fromkeys(("FP16MomentumSGDUpdate", "FP32MomentumSGDUpdate", "MomentumSGDUpdate"), _only((3, 2))),
    **dict.fromkeys(
        (
            "RowWiseSparseAdagradFusedWithSparseLengthsWeightedSumGradient",
            "RowWiseSparseAdagradFusedWithSparseLengthsWeightedSumGradientApprox",
            "SparseAdagradFusedWithSparseLengthsWeightedSumGradient",
            "SparseAdagradFusedWithSparseLengthsWeightedSumGradientApprox",
            "SparseFtrl",
        ),
        _only((0, 0), (1, 1)),
    ),
    **dict.fromkeys(("RowWiseSparseAdam", "SparseAdam"), _only((0, 0), (1, 1), (2, 2))),
    "AtomicIter": _only((1, 0)),
    "LastNWindowCollector": _only((0, 0), (1, 1), (4, 2)),
    "ReceiveTensor": _only((1, 0)),
    "ReservoirSampling": _only((0, 0), (1, 1), (5, 2), (6, 3)),
    "SparseMomentumSGDUpdate": _only((1, 1), (3, 2)),
    "SpatialBN": _only((3, 1), (4, 2)),
    "rnn_internal_accumulate_gradient_input": _only((2, 0)),
    "rnn_internal_apply_link": _only((1, 1)),
}  # fmt: skip
# The types whose first output is read before it is written although it is not among the inputs.
_ACCUMULATES: Final = frozenset({"Accumulate"})
# Those that do so where they list no inputs: an Iter in its old form.
_COUNTS: Final = frozenset({"Iter"})


# The types whose operators may update a blob or change an object.
SPECIAL_TYPES: Final = MUTATORS.union(_IN_PLACE, _ACCUMULATES)


def updated(op_type: str, inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Return the names of the blobs whose value an operator must find under the name that it writes."""
    if op_type in _ACCUMULATES or (op_type in _COUNTS and not inputs):
        return list(outputs[:1])
    pairs = _IN_PLACE.get(op_type)
    if pairs is None:
        return []
    return [
        name for o, name in enumerate(outputs) if any(name == other and pairs(i, o) for i, other in enumerate(inputs))
    ]
