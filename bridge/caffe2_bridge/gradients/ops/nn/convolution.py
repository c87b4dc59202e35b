"""Convolutions and locally connected layers, and their windows as columns."""

from __future__ import annotations

from collections.abc import Sequence

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("convolution")

family.pattern("dY0 X0 -> dX0", Im2Col="Col2Im")
family.pattern("dY0 -> dX0", "PadImage", Col2Im="Im2Col")


@family.differentiates("Conv", "Conv1D", "Conv2D", "Conv3D", "LC", "LC1D", "LC2D", "LC3D", "ConvTranspose")
def convolution(op: Forward) -> None:
    _convolution(op, [op.x(0), op.x(1), op.dy(0)])


@family.differentiates("DeformConv")
def deformable(op: Forward) -> None:
    """Inputs are the images, the offsets, the filter and perhaps a bias."""
    _convolution(op, [op.x(0), op.x(1), op.x(2), op.dy(0)])


def _convolution(op: Forward, inputs: Sequence[str]) -> None:
    """The images come first and their gradient last, where it is wanted; a bias there may be is behind the rest."""
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
