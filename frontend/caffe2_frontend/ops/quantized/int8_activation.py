"""Functions of Int8 tensors, element by element: tables of what each byte becomes; sums, and softmax."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.emit.arithmetic import add, div, mul, reshape_like, sub
from caffe2_frontend.emit.broadcast import require_same_shape
from caffe2_frontend.emit.int8_values import (
    BYTE,
    look_up_bytes,
    mark_quantized,
    minimum_byte,
    output_quantization,
    preserved_quantization,
    quantization,
    quantize_dnnlowp,
    relu_quantization,
    require_bytes,
    round_and_saturate,
    stated_quantization,
    uses_dnnlowp,
)
from caffe2_frontend.emit.operand_checks import require_min_rank
from caffe2_frontend.emit.shapes import cast, flatten, product, sizes, squeeze, vector
from caffe2_frontend.interop.types import INT32, Quantization, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("int8_activation")

_BYTES: Final = {0: TensorInfo(BYTE), 1: TensorInfo(BYTE)}
# The one quantization that Caffe2 gives results between 0 and 1.
_UNIT: Final = Quantization(1 / 256, 0)
# The bits of the larger factor of a sum, less one.
_SUM_BITS: Final = 21
# The largest exponential, and the largest sum of them.
_LARGEST: Final = 8388607.0
_LARGEST_SUM: Final = 4294967295.0


@family.converts("Int8Relu", expects=_BYTES)
def relu(op: Op) -> Value:
    x = require_bytes(op, op.input(0), "the input")
    how = preserved_quantization(op, x)
    return mark_quantized(op.emit("Clip", x, op.const(how.zero_point, np.uint8)), how)


@family.converts("Int8Sigmoid", expects=_BYTES)
def sigmoid(op: Op) -> Value:
    x = require_bytes(op, op.input(0), "the input")
    _require_unit(op)
    reals = _reals(quantization(op, x))
    values = np.float32(256) / (np.float32(1) + np.exp(-reals))
    return mark_quantized(look_up_bytes(op, x, np.clip(np.rint(values), 0, 255)), _UNIT)


@family.converts("Int8LeakyRelu", expects=_BYTES)
def leaky_relu(op: Op) -> Value:
    x = require_bytes(op, op.input(0), "the input")
    alpha = np.float32(op.args.number("alpha", default=0.01))
    if not 0 < alpha < 1:
        op.unsupported(f"alpha is {alpha}, not between 0 and 1", code="invalid-argument")
    from_, to = quantization(op, x), output_quantization(op)
    steps = np.float32(from_.scale) / np.float32(to.scale) * (np.arange(256) - from_.zero_point).astype(np.float32)
    steps = np.where(steps < 0, steps * alpha, steps)
    return mark_quantized(look_up_bytes(op, x, np.clip(np.rint(steps) + to.zero_point, 0, 255)), to)


@family.converts("Int8Softmax", expects=_BYTES)
def softmax(op: Op) -> Value:
    """Over all dims but the first together. Exponentials are whole numbers, and so are the quotients by their sum."""
    x = require_bytes(op, op.input(0), "the input")
    require_min_rank(op, x, 1, "the input")
    _require_unit(op)
    op.args.ignore("axis")
    rows = cast(op, flatten(op, x, 1), INT32)
    below = sub(op, rows, op.emit("ReduceMax", rows, op.const([1], np.int64), keepdims=1))
    exponentials = op.emit("Gather", _exponentials(op, x), add(op, below, 255), axis=0)
    total = op.emit("ReduceSum", exponentials, op.const([1], np.int64), keepdims=1)
    shares = div(op, add(op, mul(op, exponentials, 256), div(op, total, 2)), total)
    y = op.emit("Min", shares, op.const(255, np.int64))
    return mark_quantized(reshape_like(op, cast(op, y, BYTE), x), _UNIT)


def _exponentials(op: Op, x: Value) -> Value:
    """Of the 256 steps up to the largest byte of a row, scaled so that the sum of a row fits 32 bits."""
    powers = np.exp((np.arange(256) - 255) * np.float64(np.float32(quantization(op, x).scale)))
    channels = product(op, sizes(op, x, 1))
    if isinstance(channels, int):
        return op.const(np.rint(min(_LARGEST_SUM / max(channels, 1), _LARGEST) * powers), np.int64)
    count = cast(op, squeeze(op, vector(op, [channels]), [0]), ir.DataType.DOUBLE)
    most = op.emit("Min", div(op, _LARGEST_SUM, count), op.const(_LARGEST, np.float64))
    return cast(op, op.emit("Round", mul(op, op.const(powers, np.float64), most)), ir.DataType.INT64)


@family.converts("Int8Add", "Int8AddRelu", "Int8Sum", "Int8SumRelu", expects=_BYTES)
def plus(op: Op) -> Value:
    """Each operand times a whole number, and their sum divided by a power of two, halves rounded away from zero."""
    op.args.ignore("order")
    if len(op.view.inputs) != 2:
        op.unsupported(f"two operands are summed, not {len(op.view.inputs)}", code="invalid-operands")
    operands = [require_bytes(op, x, f"input {i}") for i, x in enumerate(op.inputs)]
    require_same_shape(op, operands)
    # Of an AddRelu there is no other implementation.
    server = uses_dnnlowp(op) and op.type != "Int8AddRelu"
    how = output_quantization(op, dnnlowp=True)
    kinds = [quantization(op, x) for x in operands]
    if server:
        return _added(op, operands, kinds, how)
    scales = [np.float32(kind.scale) / np.float32(how.scale) for kind in kinds]
    if min(scales) < 2**-14 or not 2**-10 <= max(scales) < 2**8:
        op.unsupported(
            f"the operands' scales are {scales[0]:.4g} and {scales[1]:.4g} times that of the result: "
            "between 2**-14 and 2**8, one of them at least 2**-10, is computed",
            code="invalid-argument",
        )
    shift = _SUM_BITS - (int(np.frexp(max(scales))[1]) - 1)
    factors = [float(np.rint(scale * np.float32(2.0**shift))) / 2.0**shift for scale in scales]
    zero = -sum(factor * kind.zero_point for factor, kind in zip(factors, kinds, strict=True))
    products = [mul(op, cast(op, x, ir.DataType.DOUBLE), factor) for x, factor in zip(operands, factors, strict=True)]
    return round_and_saturate(op, add(op, *products, zero), how, minimum_byte(how, relu=op.type.endswith("Relu")))


def _added(op: Op, operands: list[Value], kinds: list[Quantization], how: Quantization) -> Value:
    """The sum of reals, in float32, in steps of the result."""
    if op.type.endswith("Relu"):
        how = relu_quantization(how)
    # Each real is rounded once, its zero point before that.
    reals = []
    for x, kind in zip(operands, kinds, strict=True):
        scale = np.float32(kind.scale)
        exact = np.arange(256) * np.float64(scale) - np.float64(scale * np.float32(kind.zero_point))
        reals.append(look_up_bytes(op, x, exact.astype(np.float32), ir.DataType.FLOAT))
    return quantize_dnnlowp(op, add(op, *reals), how)


def _reals(how: Quantization) -> Array:
    """What the 256 bytes stand for, in float32."""
    reals: Array = np.float32(how.scale) * (np.arange(256) - how.zero_point).astype(np.float32)
    return reals


def _require_unit(op: Op) -> None:
    if stated_quantization(op) != _UNIT:
        op.unsupported("the result has scale 1/256 and zero point 0, and no other", code="invalid-argument")
    op.args.ignore("order")
