"""Gradients of activations, which read the input, the output, or both."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("activation")

family.pattern(
    "Y0 dY0 -> dX0",
    "Clip", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ReluN", "Selu", "Sigmoid", "Softmax", "Softplus", "Tanh",
    "ThresholdedRelu",
)  # fmt: skip
family.pattern("X0 dY0 -> dX0", "Logit")
family.pattern("X0 Y0 dY0 -> dX0", "Mish", "Swish")
family.pattern("dY0 X0 -> dX0", "Gelu")
family.pattern("Y0 dY0 X0 X1 -> dX0 dX1", "PRelu")


@family.differentiates("Softsign")
def softsign(op: Forward) -> None:
    """SoftsignGradient(X, dY) -> dX."""
    if op.in_place(0, 0):
        raise op.error("the operator must not work in place: its gradient needs the input")
    op.emit("SoftsignGradient", [op.x(0), op.dy(0)], [op.dx(0)])


@family.differentiates("Dropout")
def dropout(op: Forward) -> None:
    """DropoutGrad(dY, mask) -> dX; without the mask if ``is_test``."""
    mask = [] if op.args.flag("is_test", default=False) else [op.y(1)]
    op.emit("DropoutGrad", [op.dy(0), *mask], [op.dx(0)])
