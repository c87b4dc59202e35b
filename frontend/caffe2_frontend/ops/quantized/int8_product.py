"""Convolution, fully connected layers and pooling of Int8 tensors.

The products of ``x - zero_point_x`` and ``w - zero_point_w`` are summed in int32, the bias is added, and the sum is
scaled by ``scale_x * scale_w / Y_scale``. The arguments Y_scale (1.0) and Y_zero_point (0) of all operators are the
quantization of the output; <window> stands for the arguments that emit.windows reads. A type that ends with Relu clips
the result at zero.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul, sub
from caffe2_frontend.emit.int8_values import (
    BYTE,
    IMAGE,
    mark_quantized,
    minimum_byte,
    preserved_quantization,
    quantization,
    requantize,
    require_bytes,
    round_and_saturate,
    saturate_reals,
    uses_dnnlowp,
)
from caffe2_frontend.emit.layout import move_first, move_last
from caffe2_frontend.emit.shapes import cast, product, reshape, sizes, slice_axis, vector
from caffe2_frontend.interop.types import INT32, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.quantized.int8_operands import (
    mean_quantization,
    padded_planes,
    pooling_window,
    product_quantization,
    read_convolution,
    read_layer,
    read_transposed_convolution,
)

family = Family("int8_product")

_BIAS: Final = TensorInfo(INT32, (None,))
_CONVOLUTION: Final = {0: IMAGE, 1: IMAGE, 2: _BIAS}
_LAYER: Final = {0: TensorInfo(BYTE), 1: TensorInfo(BYTE, (None, None)), 2: _BIAS}


@family.converts("Int8Conv", "Int8ConvRelu", expects=_CONVOLUTION)
def convolution(op: Op) -> Value:
    """Int8Conv | Int8ConvRelu(X, W, bias; <window>, group=1, order="NHWC") -> Y.

    W is [M, *kernel, C / group]. Engine DNNLOWP allows order NCHW, for X and W.
    """
    given = read_convolution(op)
    total = _convolved(op, given.planes, given.weight, **given.attributes)
    return _image(op, total, given.bias, last=given.channels_last)


@family.converts("Int8ConvTranspose", expects=_CONVOLUTION)
def transposed_convolution(op: Op) -> Value:
    """Int8ConvTranspose(X, W, bias; <window> without dilation, adj=0 (adj_h, adj_w | adjs), order="NHWC") -> Y.

    W is [C, *kernel, M]. ONNX has no integer ConvTranspose: this is the convolution of the image with ``stride - 1``
    zeros after each pixel, by the kernel rotated by 180 degrees and padded by ``kernel - 1``; the pads are cut off.
    """
    given = read_transposed_convolution(op)
    x, window = given.image, given.window
    planes = _spread(op, move_first(op, x), window.stride, quantization(op, x).zero_point)
    last, step = np.iinfo(np.int64).min, op.const([-1, -1], np.int64)
    axes = op.const([2, 3], np.int64)
    rotated = op.emit("Transpose", given.weight, perm=[3, 0, 1, 2])
    rotated = op.emit("Slice", rotated, op.const([-1, -1], np.int64), op.const([last, last], np.int64), axes, step)
    reach = [k - 1 for k in window.kernel]
    pads = [*reach, *(r + a for r, a in zip(reach, given.adj, strict=True))]
    total = _convolved(op, planes, rotated, kernel_shape=list(window.kernel), pads=pads)
    for axis, (head, tail) in enumerate(zip(window.head, window.tail, strict=True), 2):
        if head or tail:
            total = slice_axis(op, total, axis, head, -tail or np.iinfo(np.int64).max)
    return _image(op, total, given.bias)


@family.converts("Int8FC", "Int8FCRelu", expects=_LAYER)
def fully_connected(op: Op) -> Value:
    """Int8FC | Int8FCRelu(X, W, bias; axis=1, axis_w=1) -> Y, with X [N, ...] flattened to [N, K] and W [M, K].

    Int8FCRelu requires the engine DNNLOWP.
    """
    rows, w, bias = read_layer(op)
    columns = op.emit("Transpose", w, perm=[1, 0])
    total = op.emit("MatMulInteger", rows, columns, _zero(op, op.input(0)), _zero(op, op.input(1)))
    return _scale_products(op, total, bias)


@family.converts("Int8MaxPool", "Int8MaxPoolRelu", expects={0: IMAGE})
def max_pool(op: Op) -> Value:
    """Int8MaxPool | Int8MaxPoolRelu(X; <window>, order="NHWC") -> Y, with the quantization of X."""
    x = require_bytes(op, op.input(0), "X")
    how = preserved_quantization(op, x)
    window = pooling_window(op, x)
    planes = move_first(op, x)
    if not window.kernel:
        y = op.emit("ReduceMax", planes, op.const([2, 3], np.int64))
    else:
        planes, attributes = padded_planes(op, window, planes, 0)
        y = op.emit("MaxPool", planes, **attributes)
    if op.type.endswith("Relu"):
        y = op.emit("Clip", y, op.const(how.zero_point, np.uint8))
    return mark_quantized(move_last(op, y), how)


@family.converts("Int8AveragePool", "Int8AveragePoolRelu", expects={0: IMAGE})
def average_pool(op: Op) -> Value:
    """Int8AveragePool | Int8AveragePoolRelu(X; <window>, order="NHWC") -> Y.

    As in QNNPACK the sum over the window, pads included, is multiplied by a float32 scale and rounded half away from
    zero.
    """
    x = require_bytes(op, op.input(0), "X")
    from_, to = mean_quantization(op, x)
    window = pooling_window(op, x)
    steps = sub(op, cast(op, move_first(op, x), INT32), from_.zero_point)
    if not window.kernel:
        total = op.emit("ReduceSum", steps, op.const([2, 3], np.int64))
        count = cast(op, vector(op, [product(op, sizes(op, x, 1, 3))]), ir.DataType.FLOAT)
        scale = cast(op, div(op, from_.scale, mul(op, count, to.scale)), ir.DataType.DOUBLE)
    else:
        planes, attributes = padded_planes(op, window, cast(op, steps, ir.DataType.FLOAT), 0)
        area = math.prod(window.kernel)
        mean = op.emit("AveragePool", planes, count_include_pad=1, **attributes)
        # ONNX has no sum pooling. The mean is the integer sum divided and rounded once, so that its product with the
        # divisor rounds to the sum.
        total = op.emit("Round", mul(op, mean, float(area)))
        scale = op.const(np.float32(from_.scale) / (np.float32(to.scale) * np.float32(area)), np.float64)
    exact = mul(op, cast(op, total, ir.DataType.DOUBLE), scale)
    y = round_and_saturate(op, exact, to, minimum_byte(to, relu=op.type.endswith("Relu")))
    return mark_quantized(move_last(op, y), to)


def _convolved(op: Op, planes: Value, w: Value, **attributes: Any) -> Value:
    """Convolve an image [N, C, H, W] with a weight [M, C, *kernel] in int32."""
    total: Value = op.emit("ConvInteger", planes, w, _zero(op, op.input(0)), _zero(op, op.input(1)), **attributes)
    return total


def _spread(op: Op, planes: Value, stride: tuple[int, ...], zero: int) -> Value:
    """Insert ``stride - 1`` pixels of ``zero`` between the pixels of an image [N, C, H, W].

    Each pixel becomes a dim of its own, [N, C, H, 1, W, 1], which is padded and merged; the pad of the last is cut off.
    """
    if set(stride) == {1}:
        return planes
    n, c, h, w = sizes(op, planes)
    expanded = reshape(op, planes, [n, c, h, 1, w, 1])
    pads = op.const([0] * 9 + [stride[0] - 1, 0, stride[1] - 1], np.int64)
    shape = [*op.shape(expanded)[:3], stride[0], op.shape(expanded)[4], stride[1]]
    expanded = op.emit("Pad", expanded, pads, op.const(zero, np.uint8), shape=shape)
    joined = reshape(op, expanded, [n, c, product(op, [h, stride[0]]), product(op, [w, stride[1]])])
    for axis, step in enumerate(stride, 2):
        if step > 1:
            joined = slice_axis(op, joined, axis, 0, 1 - step)
    return joined


def _image(op: Op, total: Value, bias: Value, *, last: bool = True) -> Value:
    """Add biases [M] to sums of products [N, M, H, W], and scale to bytes, with the channels ``last`` or first."""
    y = _scale_products(op, total, reshape(op, bias, [1, -1, 1, 1]))
    return mark_quantized(move_last(op, y, when=last), quantization(op, y))


def _zero(op: Op, value: Value) -> Value:
    """Return the zero point of a value as a uint8 constant."""
    return op.const(quantization(op, value).zero_point, np.uint8)


def _scale_products(op: Op, total: Value, bias: Value) -> Value:
    """Add the bias to sums of products and scale them to bytes."""
    relu = op.type.endswith("Relu")
    total = op.emit("Add", total, bias)
    how, scale = product_quantization(op)
    if uses_dnnlowp(op):
        scaled = mul(op, cast(op, total, ir.DataType.FLOAT), float(scale))
        return saturate_reals(op, add(op, op.emit("Round", scaled), how.zero_point), how)
    return requantize(op, total, scale, how, minimum_byte(how, relu=relu))
