"""Sums of products of Int8 tensors: convolutions and the fully connected layer; averages, and maxima beside them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.window import window_argument
from caffe2_frontend.emit.arithmetic import div, mul, sub
from caffe2_frontend.emit.int8_values import (
    BYTE,
    IMAGE,
    mark_quantized,
    minimum_byte,
    output_quantization,
    preserved_quantization,
    quantization,
    relu_quantization,
    requantize,
    require_bytes,
    round_and_saturate,
    saturate,
    uses_dnnlowp,
)
from caffe2_frontend.emit.layout import move_first, move_last
from caffe2_frontend.emit.operand_checks import require_dtype, require_equal, require_min_rank, require_rank
from caffe2_frontend.emit.shapes import cast, product, reshape, sizes, slice_axis, vector
from caffe2_frontend.emit.window import (
    LegacyPad,
    Window,
    caffe_pads,
    check_fits,
    crop_gaps,
    read_window,
)
from caffe2_frontend.interop.types import INT32, Quantization, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("int8_product")

_BIAS: Final = TensorInfo(INT32, (None,))
_CONVOLUTION: Final = {0: IMAGE, 1: IMAGE, 2: _BIAS}
_LAYER: Final = {0: TensorInfo(BYTE), 1: TensorInfo(BYTE, (None, None)), 2: _BIAS}


@family.converts("Int8Conv", "Int8ConvRelu", expects=_CONVOLUTION)
def convolution(op: Op) -> Value:
    """The weight is [M, *kernel, C / group]; with DNNLOWP images and weights may have the channels first."""
    x, w, bias = _operands(op)
    require_rank(op, w, 4, "the weight")
    window = _window(op, x)
    last = window.channels_last
    x, w = (move_first(op, v, when=last) for v in (x, w))
    group = op.args.integer("group", default=1)
    _require_kernel(op, window, w, 2)
    filters, depth, channels = op.static_dim(w, 0), op.static_dim(w, 1), op.static_dim(x, 1)
    if group < 1 or (filters is not None and filters % group):
        op.unsupported(f"{filters} filters do not divide into {group} groups", code="invalid-operands")
    require_equal(op, channels, depth and depth * group, "channels of the image and of the weight")
    require_equal(op, filters, op.static_dim(bias, 0), "filters and biases")
    planes, attributes = _padded(op, window, x, quantization(op, op.input(0)).zero_point)
    return _image(op, _convolved(op, planes, w, group=group, **attributes), bias, last=last)


@family.converts("Int8ConvTranspose", expects=_CONVOLUTION)
def transposed_convolution(op: Op) -> Value:
    """The weight is [C, *kernel, M].

    A convolution, with the kernel turned round, of the image with ``stride - 1`` zeros after each pixel.
    """
    op.args.ignore("no_gradient_to_input")
    x, w, bias = _operands(op)
    require_rank(op, w, 4, "the weight")
    adj = window_argument(op.args, "adj", 2) or [0, 0]
    window = _window(op, x, dilated=False)
    _require_kernel(op, window, w)
    if len(adj) != 2 or any(not 0 <= a < s for a, s in zip(adj, window.stride, strict=False)):
        op.unsupported(f"adj {adj} does not lie between 0 and the stride", code="invalid-argument")
    if window.legacy is LegacyPad.CAFFE_LEGACY_POOLING or min(*window.head, *window.tail) < 0:
        op.unsupported("negative or Caffe's legacy pads are not defined", code="invalid-argument")
    require_equal(op, op.static_dim(x, 3), op.static_dim(w, 0), "channels of the image and of the weight")
    require_equal(op, op.static_dim(w, 3), op.static_dim(bias, 0), "filters and biases")
    planes = _spread(op, move_first(op, x), window.stride, quantization(op, x).zero_point)
    last, step = np.iinfo(np.int64).min, op.const([-1, -1], np.int64)
    axes = op.const([2, 3], np.int64)
    turned = op.emit("Transpose", w, perm=[3, 0, 1, 2])
    turned = op.emit("Slice", turned, op.const([-1, -1], np.int64), op.const([last, last], np.int64), axes, step)
    reach = [k - 1 for k in window.kernel]
    pads = [*reach, *(r + a for r, a in zip(reach, adj, strict=True))]
    total = _convolved(op, planes, turned, kernel_shape=list(window.kernel), pads=pads)
    for axis, (head, tail) in enumerate(zip(window.head, window.tail, strict=True), 2):
        if head or tail:
            total = slice_axis(op, total, axis, head, -tail or np.iinfo(np.int64).max)
    return _image(op, total, bias)


@family.converts("Int8FC", "Int8FCRelu", expects=_LAYER)
def fully_connected(op: Op) -> Value:
    """The weight is [M, K], where K is the product of all dims but the first."""
    op.args.ignore("order")
    if op.type == "Int8FCRelu" and not uses_dnnlowp(op):
        op.unsupported("real Caffe2 has it for the engine DNNLOWP alone")
    if uses_dnnlowp(op) and (op.args.integer("axis", default=1), op.args.integer("axis_w", default=1)) != (1, 1):
        op.unsupported("only products over all dims but the first are defined")
    x, w, bias = _operands(op)
    require_min_rank(op, x, 1, "the input")
    require_rank(op, w, 2, "the weight")
    rows = op.emit("Flatten", x, axis=1) if op.rank(x) != 2 else x
    require_equal(op, op.static_dim(rows, 1), op.static_dim(w, 1), "columns of the input and of the weight")
    require_equal(op, op.static_dim(w, 0), op.static_dim(bias, 0), "rows of the weight and biases")
    columns = op.emit("Transpose", w, perm=[1, 0])
    total = op.emit("MatMulInteger", rows, columns, _zero(op, x), _zero(op, w))
    return _scaled(op, total, bias)


@family.converts("Int8MaxPool", "Int8MaxPoolRelu", expects={0: IMAGE})
def max_pool(op: Op) -> Value:
    x = require_bytes(op, op.input(0), "the image")
    how = preserved_quantization(op, x)
    window = _pooling_window(op, x)
    planes = move_first(op, x)
    if not window.kernel:
        y = op.emit("ReduceMax", planes, op.const([2, 3], np.int64))
    else:
        planes, attributes = _padded(op, window, planes, 0)
        y = op.emit("MaxPool", planes, **attributes)
    if op.type.endswith("Relu"):
        y = op.emit("Clip", y, op.const(how.zero_point, np.uint8))
    return mark_quantized(move_last(op, y), how)


@family.converts("Int8AveragePool", "Int8AveragePoolRelu", expects={0: IMAGE})
def average_pool(op: Op) -> Value:
    """The sum of the window's steps, pads among them, times one float32 number, halves rounded away from zero."""
    x = require_bytes(op, op.input(0), "the image")
    from_, to = quantization(op, x), output_quantization(op)
    ratio = np.float32(from_.scale) / np.float32(to.scale)
    if not 2**-8 <= ratio < 2**8:
        op.unsupported(
            f"the operand's scale over that of the result is {ratio:.4g}, not in [2**-8, 2**8)", code="invalid-argument"
        )
    window = _pooling_window(op, x)
    steps = sub(op, cast(op, move_first(op, x), INT32), from_.zero_point)
    if not window.kernel:
        total = op.emit("ReduceSum", steps, op.const([2, 3], np.int64))
        count = cast(op, vector(op, [product(op, sizes(op, x, 1, 3))]), ir.DataType.FLOAT)
        scale = cast(op, div(op, from_.scale, mul(op, count, to.scale)), ir.DataType.DOUBLE)
    else:
        planes, attributes = _padded(op, window, cast(op, steps, ir.DataType.FLOAT), 0)
        area = int(np.prod(window.kernel))
        mean = op.emit("AveragePool", planes, count_include_pad=1, **attributes)
        # The mean is the sum divided once: times the divisor it is next to the whole number that the sum is.
        total = op.emit("Round", mul(op, mean, float(area)))
        scale = op.const(np.float32(from_.scale) / (np.float32(to.scale) * np.float32(area)), np.float64)
    exact = mul(op, cast(op, total, ir.DataType.DOUBLE), scale)
    y = round_and_saturate(op, exact, to, minimum_byte(to, relu=op.type.endswith("Relu")))
    return mark_quantized(move_last(op, y), to)


def _operands(op: Op) -> tuple[Value, Value, Value]:
    """The bytes of the input and of the weight, and the int32 of the bias."""
    x, w, bias = op.input(0), op.input(1), op.input(2)
    require_bytes(op, x, "the input")
    require_bytes(op, w, "the weight")
    require_dtype(op, bias, (INT32,), "the bias")
    require_rank(op, bias, 1, "the bias")
    return x, w, bias


def _window(op: Op, x: Value, *, dilated: bool = True, whole: bool = False) -> Window:
    require_rank(op, x, 4, "the image")
    window = read_window(op, 4, dilated=dilated, exact=True, whole=whole)
    if not window.channels_last and not uses_dnnlowp(op):
        op.unsupported("Int8 tensors are computed in the order NHWC alone", code="invalid-argument")
    return window


def _pooling_window(op: Op, x: Value) -> Window:
    window = _window(op, x, whole=True)
    if set(window.dilation) - {1}:
        op.unsupported("pooling has no dilation", code="invalid-argument")
    if set(window.kernel) == {1}:
        op.unsupported("a window of one pixel is no pooling", code="invalid-argument")
    for k, *pads in zip(window.kernel, window.head, window.tail, strict=True):
        if max(pads) >= k or min(pads) < 0:
            op.unsupported(f"pads {pads} are not smaller than the kernel, {k}", code="invalid-argument")
    return window


def _padded(op: Op, window: Window, planes: Value, zero: int) -> tuple[Value, dict[str, Any]]:
    """The image [N, C, H, W] with the pads of Caffe's legacy pooling, and the attributes for the other pads."""
    if window.legacy is LegacyPad.CAFFE_LEGACY_POOLING:
        return caffe_pads(op, window, planes, zero), window.attributes | {"pads": None}
    check_fits(op, window, planes)
    return crop_gaps(op, window, planes), window.attributes


def _require_kernel(op: Op, window: Window, w: Value, first: int = 1) -> None:
    for axis, k in enumerate(window.kernel, first):
        require_equal(op, op.static_dim(w, axis), k, "sizes of the window and of the weight")


def _convolved(op: Op, planes: Value, w: Value, **attributes: Any) -> Value:
    """The sums of products of an image [N, C, H, W] and a weight [M, C, *kernel], in int32."""
    total: Value = op.emit("ConvInteger", planes, w, _zero(op, op.input(0)), _zero(op, op.input(1)), **attributes)
    return total


def _spread(op: Op, planes: Value, stride: tuple[int, ...], zero: int) -> Value:
    """An image [N, C, H, W] with ``stride - 1`` pixels of ``zero`` between those that were next to each other."""
    if set(stride) == {1}:
        return planes
    n, c, h, w = sizes(op, planes)
    apart = reshape(op, planes, [n, c, h, 1, w, 1])
    pads = op.const([0] * 9 + [stride[0] - 1, 0, stride[1] - 1], np.int64)
    shape = [*op.shape(apart)[:3], stride[0], op.shape(apart)[4], stride[1]]
    apart = op.emit("Pad", apart, pads, op.const(zero, np.uint8), shape=shape)
    joined = reshape(op, apart, [n, c, product(op, [h, stride[0]]), product(op, [w, stride[1]])])
    for axis, step in enumerate(stride, 2):
        if step > 1:
            joined = slice_axis(op, joined, axis, 0, 1 - step)
    return joined


def _image(op: Op, total: Value, bias: Value, *, last: bool = True) -> Value:
    """Sums of products [N, M, H, W] and the biases [M] as the bytes of an image, channels ``last`` or first."""
    y = _scaled(op, total, reshape(op, bias, [1, -1, 1, 1]))
    return mark_quantized(move_last(op, y, when=last), quantization(op, y))


def _zero(op: Op, value: Value) -> Value:
    return op.const(quantization(op, value).zero_point, np.uint8)


def _scaled(op: Op, total: Value, bias: Value) -> Value:
    """Sums of products and the bias as the bytes of the result. QNNPACK computes them: it takes fractions alone."""
    relu = op.type.endswith("Relu")
    total = op.emit("Add", total, bias)
    x, w = (quantization(op, value) for value in op.inputs[:2])
    how = output_quantization(op, dnnlowp=op.type != "Int8ConvTranspose")
    if uses_dnnlowp(op):
        how = relu_quantization(how) if relu else how
        scaled = mul(op, cast(op, total, ir.DataType.FLOAT), float(_product_scale(x, w, how)))
        return saturate(op, op.emit("Round", scaled), how, 0)
    scale = _product_scale(x, w, how)
    if not 0 < scale < 1:
        op.unsupported(
            f"the operands' scales over that of the result are {scale:.4g}, not less than 1", code="invalid-argument"
        )
    return requantize(op, total, scale, how, minimum_byte(how, relu=relu))


def _product_scale(x: Quantization, w: Quantization, y: Quantization) -> np.float32:
    return np.float32(np.float32(x.scale) * np.float32(w.scale) / np.float32(y.scale))
