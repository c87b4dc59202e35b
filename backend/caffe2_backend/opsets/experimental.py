"""Operators of ONNX 1.2 and earlier that ONNX called experimental, and dropped: converters of that time wrote them.

onnxruntime still has them. They become operators that opset 7 has, and later ones.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.opsets.old_node import OldNode
from caffe2_backend.opsets.rules import Rules
from caffe2_backend.state import WORKING_OPSET

rules = Rules()

_END: Final = np.iinfo(np.int64).max


def _numbers(at: OldNode, array: Any) -> ir.Value:
    """Return a constant of floats, in the element type of operand 0 where it is known."""
    dtype = at.input(0).dtype or ir.DataType.FLOAT
    return at.const(array, dtype.numpy())


def _scaled(at: OldNode, x: ir.Value, name: str) -> ir.Value:
    """Return a value times an attribute."""
    factor = at.number(name, 1.0)
    return x if factor == 1 else at.emit("Mul", x, _numbers(at, factor))


@rules.before(WORKING_OPSET, "ImageScaler")
def scale_image(at: OldNode) -> ir.Value:
    """``ImageScaler(X; bias, scale=1) -> Y``: X * scale, and a bias for each channel."""
    bias = np.reshape(at.numbers("bias"), (-1, 1, 1))
    return at.emit("Add", _scaled(at, at.input(0), "scale"), _numbers(at, bias))


@rules.before(WORKING_OPSET, "Affine")
def scale_and_shift(at: OldNode) -> ir.Value:
    """``Affine(X; alpha=1, beta=0) -> Y``: alpha * X + beta."""
    return at.emit("Add", _scaled(at, at.input(0), "alpha"), _numbers(at, at.number("beta", 0.0)))


@rules.before(WORKING_OPSET, "Scale")
def scale(at: OldNode) -> ir.Value:
    """``Scale(X; scale=1) -> Y``: scale * X."""
    return _scaled(at, at.input(0), "scale")


@rules.before(WORKING_OPSET, "ScaledTanh")
def scaled_tanh(at: OldNode) -> ir.Value:
    """``ScaledTanh(X; alpha=1, beta=1) -> Y``: alpha * tanh(beta * X)."""
    return _scaled(at, at.emit("Tanh", _scaled(at, at.input(0), "beta")), "alpha")


@rules.before(WORKING_OPSET, "ParametricSoftplus")
def parametric_softplus(at: OldNode) -> ir.Value:
    """``ParametricSoftplus(X; alpha=1, beta=1) -> Y``: alpha * log(1 + exp(beta * X))."""
    return _scaled(at, at.emit("Softplus", _scaled(at, at.input(0), "beta")), "alpha")


@rules.before(10, "ThresholdedRelu")
def thresholded_relu(at: OldNode) -> ir.Value:
    """``ThresholdedRelu(X; alpha=1) -> Y``: X where it is above alpha, else 0."""
    x, alpha = at.input(0), at.number("alpha", 1.0)
    is_above = at.emit("Greater", x, _numbers(at, alpha))
    dtype = x.dtype or ir.DataType.FLOAT
    return at.emit("Mul", at.emit("Clip", x, min=alpha), at.emit("Cast", is_above, to=int(dtype)))


@rules.before(9, "MeanVarianceNormalization")
def normalize_image(at: OldNode) -> ir.Value:
    """``MeanVarianceNormalization(X; across_channels=0, normalize_variance=1) -> Y``, of images [N, C, H, W]."""
    axes = [1, 2, 3] if at.integer("across_channels", 0) else [2, 3]
    centered = at.emit("Sub", at.input(0), at.emit("ReduceMean", at.input(0), axes=axes, keepdims=1))
    if not at.integer("normalize_variance", 1):
        return centered
    variance = at.emit("ReduceMean", at.emit("Mul", centered, centered), axes=axes, keepdims=1)
    return at.emit("Div", centered, at.emit("Add", at.emit("Sqrt", variance), _numbers(at, 1e-9)))


@rules.before(10, "Crop")
def crop(at: OldNode) -> ir.Value:
    """``Crop(X; border, scale) -> Y``: an image without ``border`` (left, top, right, bottom), or ``scale`` of it."""
    starts, ends = _window(at)
    return at.emit("Slice", at.input(0), starts=starts, ends=ends, axes=[2, 3])


@rules.before(WORKING_OPSET, "Crop")
def crop_by_operands(at: OldNode) -> ir.Value:
    """Slice as :func:`crop` does, by the Slice of later opsets."""
    return at.emit("Slice", at.input(0), *(at.const(part, np.int64) for part in (*_window(at), [2, 3])))


def _window(at: OldNode) -> tuple[list[int], list[int]]:
    """Return the first row and column of a Crop, and those behind the last."""
    border, size = at.integers("border"), at.integers("scale")
    if len(border) != 4:
        at.refuse(f"attribute 'border' must have 4 elements, not {len(border)}")
    if size and len(size) != 2:
        at.refuse(f"attribute 'scale' must have 2 elements, not {len(size)}")
    left, top, right, bottom = border
    if size:
        return [top, left], [top + size[0], left + size[1]]
    return [top, left], [-bottom or _END, -right or _END]
