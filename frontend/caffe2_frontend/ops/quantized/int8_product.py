"""Convolution, fully connected layers and pooling of Int8 tensors.

The products of ``x - zero_point_x`` and ``w - zero_point_w`` are summed in int32, the bias is added, and the sum is
scaled by ``scale_x * scale_w / Y_scale``. The arguments Y_scale (1.0) and Y_zero_point (0) of all operators are the
quantization of the output; <window> stands for the arguments that emit.window reads. A type that ends with Relu clips
the result at zero.
"""

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
    """Int8Conv | Int8ConvRelu(X, W, bias; <window>, group=1, order="NHWC") -> Y.

    W is [M, *kernel, C / group]. Engine DNNLOWP allows order NCHW, for X and W.
    """
    x, w, bias = _operands(op)
    require_rank(op, w, 4, "W")
    window = _window(op, x)
    last = window.channels_last
    x, w = (move_first(op, v, when=last) for v in (x, w))
    group = op.args.integer("group", default=1)
    _require_kernel(op, window, w, 2)
    filters, depth, channels = op.static_dim(w, 0), op.static_dim(w, 1), op.static_dim(x, 1)
    if group < 1 or (filters is not None and filters % group):
        op.unsupported(
            f"group must be positive and divide the number of filters ({filters}), not {group}", code="invalid-operands"
        )
    require_equal(op, channels, depth and depth * group, "channels of the image and of the weight")
    require_equal(op, filters, op.static_dim(bias, 0), "filters and biases")
    planes, attributes = _padded(op, window, x, quantization(op, op.input(0)).zero_point)
    return _image(op, _convolved(op, planes, w, group=group, **attributes), bias, last=last)


@family.converts("Int8ConvTranspose", expects=_CONVOLUTION)
def transposed_convolution(op: Op) -> Value:
    """Int8ConvTranspose(X, W, bias; <window> without dilation, adj=0 (adj_h, adj_w | adjs), order="NHWC") -> Y.

    W is [C, *kernel, M]. ONNX has no integer ConvTranspose: this is the convolution of the image with ``stride - 1``
    zeros after each pixel, by the kernel rotated by 180 degrees and padded by ``kernel - 1``; the pads are cut off.
    """
    op.args.ignore("no_gradient_to_input")
    x, w, bias = _operands(op)
    require_rank(op, w, 4, "W")
    adj = window_argument(op.args, "adj", 2) or [0, 0]
    window = _window(op, x, dilated=False)
    _require_kernel(op, window, w)
    if len(adj) != 2 or any(not 0 <= a < s for a, s in zip(adj, window.stride, strict=False)):
        op.unsupported(f"adj must be between 0 and the stride less 1, not {adj}", code="invalid-argument")
    if window.legacy is LegacyPad.CAFFE_LEGACY_POOLING or min(*window.head, *window.tail) < 0:
        op.unsupported("pads must not be negative, and legacy_pad must not be 3", code="invalid-argument")
    require_equal(op, op.static_dim(x, 3), op.static_dim(w, 0), "channels of the image and of the weight")
    require_equal(op, op.static_dim(w, 3), op.static_dim(bias, 0), "filters and biases")
    planes = _spread(op, move_first(op, x), window.stride, quantization(op, x).zero_point)
    last, step = np.iinfo(np.int64).min, op.const([-1, -1], np.int64)
    axes = op.const([2, 3], np.int64)
    rotated = op.emit("Transpose", w, perm=[3, 0, 1, 2])
    rotated = op.emit("Slice", rotated, op.const([-1, -1], np.int64), op.const([last, last], np.int64), axes, step)
    reach = [k - 1 for k in window.kernel]
    pads = [*reach, *(r + a for r, a in zip(reach, adj, strict=True))]
    total = _convolved(op, planes, rotated, kernel_shape=list(window.kernel), pads=pads)
    for axis, (head, tail) in enumerate(zip(window.head, window.tail, strict=True), 2):
        if head or tail:
            total = slice_axis(op, total, axis, head, -tail or np.iinfo(np.int64).max)
    return _image(op, total, bias)


@family.converts("Int8FC", "Int8FCRelu", expects=_LAYER)
def fully_connected(op: Op) -> Value:
    """Int8FC | Int8FCRelu(X, W, bias; axis=1, axis_w=1) -> Y, with X [N, ...] flattened to [N, K] and W [M, K].

    Int8FCRelu requires the engine DNNLOWP.
    """
    op.args.ignore("order")
    if op.type == "Int8FCRelu" and not uses_dnnlowp(op):
        op.unsupported(
            "Int8FCRelu must have engine DNNLOWP, the only one of Caffe2 that implements it",
            hint='set engine="DNNLOWP"',
        )
    if uses_dnnlowp(op) and (op.args.integer("axis", default=1), op.args.integer("axis_w", default=1)) != (1, 1):
        op.unsupported("axis and axis_w must be 1")
    x, w, bias = _operands(op)
    require_min_rank(op, x, 1, "X")
    require_rank(op, w, 2, "W")
    rows = op.emit("Flatten", x, axis=1) if op.rank(x) != 2 else x
    require_equal(op, op.static_dim(rows, 1), op.static_dim(w, 1), "columns of the input and of the weight")
    require_equal(op, op.static_dim(w, 0), op.static_dim(bias, 0), "rows of the weight and biases")
    columns = op.emit("Transpose", w, perm=[1, 0])
    total = op.emit("MatMulInteger", rows, columns, _zero(op, x), _zero(op, w))
    return _scale_products(op, total, bias)


@family.converts("Int8MaxPool", "Int8MaxPoolRelu", expects={0: IMAGE})
def max_pool(op: Op) -> Value:
    """Int8MaxPool | Int8MaxPoolRelu(X; <window>, order="NHWC") -> Y, with the quantization of X."""
    x = require_bytes(op, op.input(0), "X")
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
    """Int8AveragePool | Int8AveragePoolRelu(X; <window>, order="NHWC") -> Y.

    As in QNNPACK the sum over the window, pads included, is multiplied by a float32 scale and rounded half away from
    zero.
    """
    x = require_bytes(op, op.input(0), "X")
    from_, to = quantization(op, x), output_quantization(op)
    ratio = np.float32(from_.scale) / np.float32(to.scale)
    if not 2**-8 <= ratio < 2**8:
        op.unsupported(
            f"the scale of X over Y_scale must be in [2**-8, 2**8), not {ratio:.4g}", code="invalid-argument"
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
        # ONNX has no sum pooling. The mean is the integer sum divided and rounded once, so that its product with the
        # divisor rounds to the sum.
        total = op.emit("Round", mul(op, mean, float(area)))
        scale = op.const(np.float32(from_.scale) / (np.float32(to.scale) * np.float32(area)), np.float64)
    exact = mul(op, cast(op, total, ir.DataType.DOUBLE), scale)
    y = round_and_saturate(op, exact, to, minimum_byte(to, relu=op.type.endswith("Relu")))
    return mark_quantized(move_last(op, y), to)


def _operands(op: Op) -> tuple[Value, Value, Value]:
    """The operands X and W (uint8) and bias (int32)."""
    x, w, bias = op.input(0), op.input(1), op.input(2)
    require_bytes(op, x, "X")
    require_bytes(op, w, "W")
    require_dtype(op, bias, (INT32,), "bias")
    require_rank(op, bias, 1, "bias")
    return x, w, bias


def _window(op: Op, x: Value, *, dilated: bool = True, whole: bool = False) -> Window:
    require_rank(op, x, 4, "X")
    window = read_window(op, 4, dilated=dilated, exact=True, whole=whole)
    if not window.channels_last and not uses_dnnlowp(op):
        op.unsupported("order must be NHWC for Int8 tensors", hint='set order="NHWC"', code="invalid-argument")
    return window


def _pooling_window(op: Op, x: Value) -> Window:
    """Read the window of a pooling, within the limits of QNNPACK."""
    window = _window(op, x, whole=True)
    if set(window.dilation) - {1}:
        op.unsupported("dilation must be 1 for pooling", code="invalid-argument")
    if set(window.kernel) == {1}:
        op.unsupported("the pooling window must have more than one pixel", code="invalid-argument")
    for k, *pads in zip(window.kernel, window.head, window.tail, strict=True):
        if max(pads) >= k or min(pads) < 0:
            op.unsupported(
                f"pads must not be negative and must be smaller than the kernel ({k}), not {pads}",
                code="invalid-argument",
            )
    return window


def _padded(op: Op, window: Window, planes: Value, zero: int) -> tuple[Value, dict[str, Any]]:
    """Pad the image [N, C, H, W] where ONNX cannot (legacy pooling), and return the attributes of the window."""
    if window.legacy is LegacyPad.CAFFE_LEGACY_POOLING:
        return caffe_pads(op, window, planes, zero), window.attributes | {"pads": None}
    check_fits(op, window, planes)
    return crop_gaps(op, window, planes), window.attributes


def _require_kernel(op: Op, window: Window, w: Value, first: int = 1) -> None:
    """Refuse a weight whose dims from ``first`` on are known and not the kernel sizes."""
    for axis, k in enumerate(window.kernel, first):
        require_equal(op, op.static_dim(w, axis), k, "kernel sizes of the weight and the arguments")


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
    """The zero point of a value as a uint8 constant."""
    return op.const(quantization(op, value).zero_point, np.uint8)


def _scale_products(op: Op, total: Value, bias: Value) -> Value:
    """Add the bias to sums of products and scale them to bytes; QNNPACK requires a scale below 1."""
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
            f"the product of the scales of X and W must be less than Y_scale, but is {scale:.4g} times it",
            code="invalid-argument",
        )
    return requantize(op, total, scale, how, minimum_byte(how, relu=relu))


def _product_scale(x: Quantization, w: Quantization, y: Quantization) -> np.float32:
    """The factor from products to steps of the result, computed in float32."""
    return np.float32(np.float32(x.scale) * np.float32(w.scale) / np.float32(y.scale))
