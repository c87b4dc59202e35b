"""Gradients of losses, distances and probabilities."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("loss")

family.pattern("X0 dY0 -> dX0", "AveragedLoss", "SumElements")
family.pattern(
    "X0 X1 dY0 -> dX0", "CosineEmbeddingCriterion", "CrossEntropy", "LabelCrossEntropy", "SigmoidCrossEntropyLoss"
)
family.pattern("X0 X1 X2 dY0 -> dX0 dX1", "MarginRankingCriterion")
family.pattern("X0 X1 dY0 X2? -> dX0", "PairWiseLoss")
family.pattern("X0 X1 X2 dY0 -> dX0", "SigmoidFocalLoss")
family.pattern("X0 X1 X2 Y1 dY0 -> dX0", "SoftmaxFocalLoss")
family.pattern("X0 X1 X2 X3 dY0 -> dX0", "SelectSmoothL1Loss", "SmoothL1Loss")
family.pattern("Y0 dY0 -> dX0", "GroupSpatialSoftmax")
family.pattern("X0 X2 Y1 dY0 -> dX0", "LambdaRankNdcg")
family.pattern("dY0 X0 X1 -> dX0", "BernoulliJSD", "SigmoidCrossEntropyWithLogits")
family.pattern("dY0 X0 X1 X2 -> dX0", "WeightedSigmoidCrossEntropyWithLogits")
family.pattern("X0 X1 X2? Y0 dY1 -> dX0", "SoftmaxWithLoss", "SpatialSoftmaxWithLoss")
family.pattern("X0 X1 X2 X3 Y1 dY0 -> dX0 dX1 dX2 dY1", "HSoftmax")
family.pattern("dY0 -> dX0", "MakeTwoClass")
family.pattern("X0 X1 dY0 -> dX0 dX1", "CosineSimilarity", "DotProduct", "L1Distance", "SquaredL2Distance")


@family.differentiates("DotProductWithPadding")
def dot_product_with_padding(op: Forward) -> None:
    """DotProductWithPaddingGradient(X, Y, dZ; pad_value, replicate) -> dX, dY.

    Like real Caffe2, this writes both arguments even if they are copied too.
    """
    op.emit(
        "DotProductWithPaddingGradient",
        [op.x(0), op.x(1), op.dy(0)],
        [op.dx(0), op.dx(1)],
        pad_value=op.args.number("pad_value", default=0.0),
        replicate=op.args.flag("replicate", default=False),
    )
