"""Int8 operators as float operators between DequantizeLinear and QuantizeLinear, for ``int8="qdq"``.

onnxruntime and other runtimes fuse such groups into quantized kernels (QLinearConv, QGemm, QLinearAdd). A result may
differ by a step or two from Caffe2's, whose fixed point rounds otherwise. Images stay [N, C, H, W] from one operator to
the next. Operators that move bytes have no arithmetic, and work on uint8 as in the exact form; so do the functions of
one element. Signatures are those of the exact converters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from caffe2_frontend.emit.arithmetic import reshape_like
from caffe2_frontend.emit.channels_first import elementwise, from_planes, to_planes
from caffe2_frontend.emit.int8_values import (
    mark_quantized,
    preserved_quantization,
    quantization,
    relu_quantization,
    require_bytes,
)
from caffe2_frontend.emit.operand_checks import require_min_rank
from caffe2_frontend.emit.shapes import flatten
from caffe2_frontend.interop.types import Quantization
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.quantized import int8, int8_activation
from caffe2_frontend.ops.quantized.int8_operands import (
    Convolution,
    mean_quantization,
    padded_planes,
    pooling_window,
    product_quantization,
    read_convolution,
    read_layer,
    read_transposed_convolution,
)

family = Family("int8_qdq")

_SPATIAL: Final = [2, 3]
# The axis of [N, C, H, W] for each axis of [N, H, W, C].
_PLANES_AXIS: Final = [0, 2, 3, 1]


@family.converts("Int8Conv", "Int8ConvRelu")
def convolution(op: Op) -> Value:
    """Int8Conv | Int8ConvRelu(X, W, bias; <window>, group=1, order="NHWC") -> Y."""
    given: Convolution = read_convolution(op, to_planes)
    y = op.emit("Conv", *_reals_of_product(op, given.planes, given.weight, given.bias), **given.attributes)
    return from_planes(op, _quantized_product(op, y), when=given.channels_last)


@family.converts("Int8ConvTranspose")
def transposed_convolution(op: Op) -> Value:
    """Int8ConvTranspose(X, W, bias; <window> without dilation, adj=0 (adj_h, adj_w | adjs), order="NHWC") -> Y."""
    given = read_transposed_convolution(op)
    window = given.window
    operands = _reals_of_product(op, to_planes(op, given.image), to_planes(op, given.weight), given.bias)
    y = op.emit(
        "ConvTranspose",
        *operands,
        kernel_shape=list(window.kernel),
        strides=list(window.stride),
        pads=[*window.head, *window.tail],
        output_padding=given.adj if any(given.adj) else None,
    )
    return from_planes(op, _quantized_product(op, y))


@family.converts("Int8FC", "Int8FCRelu")
def fully_connected(op: Op) -> Value:
    """Int8FC | Int8FCRelu(X, W, bias; axis=1, axis_w=1) -> Y."""
    y = op.emit("Gemm", *_reals_of_product(op, *read_layer(op)), transB=1)
    return _quantized_product(op, y)


@family.converts("Int8Add", "Int8AddRelu", "Int8Sum", "Int8SumRelu")
def plus(op: Op) -> Value:
    """Int8Add | Int8AddRelu | Int8Sum | Int8SumRelu(A, B) -> C."""
    operands, how = int8_activation.read_sum(op)
    kinds = [quantization(op, x) for x in operands]
    relu = op.type.endswith("Relu")
    if relu and int8_activation.adds_as_dnnlowp(op):
        how = relu_quantization(how)

    def added(*bytes_: Value) -> Value:
        reals = [_real(op, x, kind) for x, kind in zip(bytes_, kinds, strict=True)]
        return _quantized(op, op.emit("Add", *reals), how, relu=relu)

    return elementwise(op, added, *operands)


@family.converts("Int8AveragePool", "Int8AveragePoolRelu")
def average_pool(op: Op) -> Value:
    """Int8AveragePool | Int8AveragePoolRelu(X; <window>, order="NHWC") -> Y, pads included in the mean."""
    x = require_bytes(op, op.input(0), "X")
    from_, to = mean_quantization(op, x)
    window = pooling_window(op, x)
    planes = to_planes(op, x)
    if window.kernel:
        planes, attributes = padded_planes(op, window, planes, from_.zero_point)
        y = op.emit("AveragePool", _real(op, planes, from_), count_include_pad=1, **attributes)
    else:
        y = op.emit("GlobalAveragePool", _real(op, planes, from_))
    return from_planes(op, _quantized(op, y, to, relu=op.type.endswith("Relu")))


@family.converts("Int8MaxPool", "Int8MaxPoolRelu")
def max_pool(op: Op) -> Value:
    """Int8MaxPool | Int8MaxPoolRelu(X; <window>, order="NHWC") -> Y, with the quantization of X."""
    x = require_bytes(op, op.input(0), "X")
    how = preserved_quantization(op, x)
    window = pooling_window(op, x)
    planes = to_planes(op, x)
    if window.kernel:
        planes, attributes = padded_planes(op, window, planes, 0)
        y = op.emit("MaxPool", planes, **attributes)
    else:
        y = op.emit("ReduceMax", planes, op.const(_SPATIAL, np.int64))
    if op.type.endswith("Relu"):
        y = op.emit("Clip", y, op.const(how.zero_point, np.uint8))
    return from_planes(op, mark_quantized(y, how))


@family.converts("Int8Softmax")
def softmax(op: Op) -> Value:
    """Int8Softmax(X; Y_scale=1/256, Y_zero_point=0) -> Y, over all dims but the first."""
    x = require_bytes(op, op.input(0), "X")
    require_min_rank(op, x, 1, "X")
    rows = flatten(op, x, 1)
    if op.static_dim(rows, 1) in (None, 1):
        # onnxruntime 1.31: it fuses the Softmax of rows of one element to zeros.
        return int8_activation.integer_softmax(op)
    how = int8_activation.unit_quantization(op)
    op.args.ignore("axis")
    rows = x if op.rank(x) == 2 else flatten(op, x, 1)
    y = _quantized(op, op.emit("Softmax", _real(op, rows, quantization(op, x)), axis=1), how)
    return mark_quantized(reshape_like(op, y, x), how)


# Functions of one element; those of a byte are exact. Int8Dequantize is arithmetic, see there.
_BY_ELEMENT: Final[dict[str, Callable[[Op, Value], Value]]] = {
    **int8_activation.BY_ELEMENT,
    "Int8Dequantize": int8.dequantize_value,
    "Int8Quantize": int8.quantize_value,
}


@family.converts(*_BY_ELEMENT)
def function_of_one_element(op: Op) -> Value:
    """Int8Dequantize | Int8LeakyRelu | Int8Quantize | Int8Relu | Int8Sigmoid(X) -> Y."""
    x = op.input(0)
    return elementwise(op, lambda operand: _BY_ELEMENT[op.type](op, operand), x)


@family.converts("Int8ResizeNearest")
def resize_nearest(op: Op) -> Value:
    """Int8ResizeNearest(X; width_scale=1.0, height_scale=1.0) -> Y."""
    x, scales, how = int8.read_resize(op)
    resized = int8.resize_by(op, to_planes(op, x), [1.0, 1.0, *scales])
    return from_planes(op, mark_quantized(resized, how))


@family.converts("Int8Concat")
def concat(op: Op) -> tuple[Value, None]:
    """Int8Concat(*inputs; axis, order) -> concat_result, split_info, which Caffe2 never writes."""
    parts, axis, how = int8.read_concat(op)

    def joined(*operands: Value) -> Value:
        joint = op.emit("Concat", *operands, axis=axis if operands[0] is parts[0] else _PLANES_AXIS[axis])
        return mark_quantized(joint, how)

    return elementwise(op, joined, *parts), None


@family.converts("NCHW2NHWC", "NHWC2NCHW")
def switch_order(op: Op) -> Value:
    """NCHW2NHWC | NHWC2NCHW(X) -> Y."""
    x = op.input(0)
    require_min_rank(op, x, 3, "the image")
    return from_planes(op, x) if op.type == "NCHW2NHWC" else to_planes(op, x)


def _reals_of_product(op: Op, x: Value, w: Value, bias: Value) -> tuple[Value, Value, Value]:
    """Return the operands of a product as reals; the bias is in steps of the product of the scales of X and W."""
    kinds = [quantization(op, value) for value in op.inputs[:2]]
    step = op.const(np.float32(kinds[0].scale) * np.float32(kinds[1].scale), np.float32)
    return _real(op, x, kinds[0]), _real(op, w, kinds[1]), op.emit("DequantizeLinear", bias, step)


def _quantized_product(op: Op, y: Value) -> Value:
    """Quantize a product as the operator's arguments state."""
    how, _ = product_quantization(op)
    return _quantized(op, y, how, relu=op.type.endswith("Relu"))


def _real(op: Op, x: Value, how: Quantization) -> Value:
    y: Value = op.emit("DequantizeLinear", x, op.const(how.scale, np.float32), op.const(how.zero_point, np.uint8))
    return y


def _quantized(op: Op, y: Value, how: Quantization, *, relu: bool = False) -> Value:
    """Quantize reals; with ``relu`` the result is at least the zero point.

    Bytes are clipped, not reals: a Relu before QuantizeLinear keeps onnxruntime from fusing the group. Where the zero
    point is 0, saturation does it.
    """
    q = op.emit("QuantizeLinear", y, op.const(how.scale, np.float32), op.const(how.zero_point, np.uint8))
    if relu and how.zero_point:
        q = op.emit("Clip", q, op.const(how.zero_point, np.uint8))
    return mark_quantized(q, how)
