"""Gradients of segment reductions.

The gradient of a reduction of gathered rows (``Sparse...``) is sparse: its indices are those of the forward operator.
"""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("segment reduction")

family.pattern("dY0 X1 -> dX0", "SortedSegmentMean", "SortedSegmentSum", "UnsortedSegmentMean", "UnsortedSegmentSum")
family.pattern(
    "X0 Y0 dY0 X1 -> dX0",
    "SortedSegmentRangeLogMeanExp", "SortedSegmentRangeLogSumExp", "SortedSegmentRangeMax", "SortedSegmentRangeMean",
    "SortedSegmentRangeSum",
)  # fmt: skip
family.pattern(
    "dY0 X1 X0 -> dX0",
    LengthsMean="LengthsIndicesInGradientMeanGradient", LengthsSum="LengthsIndicesInGradientSumGradient",
)  # fmt: skip
family.pattern("Y0 dY0 X1 X0 -> dX0", LengthsMax="LengthsMaxWithMainInputAndForwardOutputGradient")
family.pattern("X0 X1 X2 X4 Y1 Y2 Y3 dY0 -> dX0 dX1 dX2", "TTSparseLengthsSum")


@family.differentiates(
    "SparseSortedSegmentMean", "SparseSortedSegmentSum", "SparseUnsortedSegmentMean", "SparseUnsortedSegmentSum"
)
def gathered(op: Forward) -> None:
    """<reduction>Gradient(dY, segment_ids) -> dvalues."""
    values = op.set_sparse(0, op.x(1), f"{op.x(0)}_grad_values")
    op.emit(f"{op.type.removeprefix('Sparse')}Gradient", [op.dy(0), op.x(2)], [values])


@family.differentiates("SortedSegmentWeightedSum", "UnsortedSegmentWeightedSum")
def weighted(op: Forward) -> None:
    """<reduction>Gradient(weights, dY, segment_ids) -> dX."""
    _refuse_gradient_of_weights(op)
    op.emit(f"{op.type}Gradient", [op.x(1), op.dy(0), op.x(2)], [op.dx(0)])


@family.differentiates("SparseSortedSegmentWeightedSum", "SparseUnsortedSegmentWeightedSum")
def gathered_weighted(op: Forward) -> None:
    """<reduction>Gradient(weights, dY, segment_ids) -> dvalues."""
    _refuse_gradient_of_weights(op)
    values = op.set_sparse(0, op.x(2), f"{op.x(0)}_grad_values")
    op.emit(f"{op.type.removeprefix('Sparse')}Gradient", [op.x(1), op.dy(0), op.x(3)], [values])


def _refuse_gradient_of_weights(op: Forward) -> None:
    if op.args.flag("grad_on_weights", default=False):
        raise op.error(
            "argument 'grad_on_weights' must be 0: real Caffe2 cannot differentiate segments by their weights"
        )


@family.differentiates("LengthsWeightedSum")
def lengths_weighted(op: Forward) -> None:
    """LengthsWeightedSumGradient(weights, dY, lengths) -> dX.

    With ``grad_on_weights``: LengthsWeightedSumWithMainInputGradient(weights, dY, lengths, X) -> dX, dweights.
    """
    if op.args.flag("grad_on_weights", default=False):
        inputs = [op.x(1), op.dy(0), op.x(2), op.x(0)]
        op.emit("LengthsWeightedSumWithMainInputGradient", inputs, [op.dx(0), op.dx(1)])
    else:
        op.emit("LengthsWeightedSumGradient", [op.x(1), op.dy(0), op.x(2)], [op.dx(0)])


@family.differentiates("SparseLengthsMean", "SparseLengthsSum")
def gathered_lengths(op: Forward) -> None:
    """SparseLengthsIndicesInGradient<reduction>Gradient(dY, lengths, indices) -> dvalues."""
    values = op.set_sparse(0, op.x(1), f"{op.x(0)}_grad_values")
    kind = op.type.removeprefix("SparseLengths")
    op.emit(f"SparseLengthsIndicesInGradient{kind}Gradient", [op.dy(0), op.x(2), op.x(1)], [values])


@family.differentiates("SparseLengthsWeightedSum")
def gathered_lengths_weighted(op: Forward) -> None:
    """SparseLengthsIndicesInGradientWeightedSumGradient(weights, dY, lengths, indices) -> dvalues.

    With ``grad_on_weights``: ...WithMainInputGradient(weights, dY, lengths, X, indices) -> dvalues, dweights.
    """
    values = op.set_sparse(0, op.x(2), f"{op.x(0)}_grad_values")
    kind = "SparseLengthsIndicesInGradientWeightedSum"
    weights, lengths, indices = op.x(1), op.x(3), op.x(2)
    if op.args.flag("grad_on_weights", default=False):
        inputs = [weights, op.dy(0), lengths, op.x(0), indices]
        op.emit(f"{kind}WithMainInputGradient", inputs, [values, op.dx(1)])
    else:
        op.emit(f"{kind}Gradient", [weights, op.dy(0), lengths, indices], [values])
