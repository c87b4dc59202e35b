"""Gradients of reductions over axes, and of TopK."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("reduction")

family.pattern("dY0 X0 Y0 -> dX0", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum")
family.pattern("dY0 X0 X1? -> dX0", "ReduceBackMean", "ReduceBackSum", "ReduceFrontMean", "ReduceFrontSum")
family.pattern("dY0 X0 Y0 X1? -> dX0", "ReduceBackMax", "ReduceFrontMax")
family.pattern("X0 Y0 dY0 -> dX0", "ColwiseMax", "RowwiseMax")
family.pattern("dY0 dY1 X0 Y0 -> dX0", "Moments")
family.pattern("dY0 dY1 X0 -> dX0", "BatchMoments")
family.pattern("dY0 Y1 X0 -> dX0", "TopK")
family.pattern("X0 X1 dY0 Y1 -> dX0", "FlexibleTopK")
family.pattern("X1 Y1 dY0 -> dX0", "LengthsTopK")


@family.differentiates("ReduceFrontWeightedSum")
def reduce_front_weighted_sum(op: Forward) -> None:
    """ReduceFrontWeightedSumGradient(weights, dY, shape of X) -> dX."""
    dims = f"_{op.y(0)}_dims"
    op.emit("Shape", [op.x(0)], [dims])
    op.emit("ReduceFrontWeightedSumGradient", [op.x(1), op.dy(0), dims], [op.dx(0)])
