"""Gradients of convolutions, locally connected layers and Im2Col."""

from __future__ import annotations

from collections.abc import Sequence

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("convolution")

family.pattern("dY0 X0 -> dX0", Im2Col="Col2Im")
family.pattern("dY0 -> dX0", "PadImage", Col2Im="Im2Col")


@family.differentiates("Conv", "Conv1D", "Conv2D", "Conv3D", "LC", "LC1D", "LC2D", "LC3D", "ConvTranspose")
def convolution(op: Forward) -> None:
    """ConvGradient(X, filter, dY; no_bias, no_gradient_to_input) -> dfilter, [dbias], [dX]."""
    _convolution(op, [op.x(0), op.x(1), op.dy(0)])


@family.differentiates("DeformConv")
def deformable(op: Forward) -> None:
    """DeformConvGradient(X, offset, filter, dY; no_bias, no_gradient_to_input) -> doffset, dfilter, [dbias], [dX]."""
    _convolution(op, [op.x(0), op.x(1), op.x(2), op.dy(0)])


def _convolution(op: Forward, inputs: Sequence[str]) -> None:
    """Emit the gradient; ``inputs`` are all inputs but the bias, then the gradient of the output."""
    bias = len(inputs) - 1
    gradients = [op.dx(index) for index in range(1, bias)]
    extra = {}
    if len(op.inputs) > bias:
        gradients.append(op.dx(bias))
    else:
        extra["no_bias"] = 1
    if not op.args.flag("no_gradient_to_input", default=False):
        gradients.append(op.dx(0))
    op.emit(f"{op.type}Gradient", inputs, gradients, **extra)
