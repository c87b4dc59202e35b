"""Activations, sums and softmax of Int8 tensors.

A function of one element is a table of the 256 bytes. The arguments Y_scale (1.0) and Y_zero_point (0) of all operators
are the quantization of the output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.emit.arithmetic import add, binary, div, mul, reshape_like, sub
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
from caffe2_frontend.interop.types import DOUBLE, FLOAT, INT32, Quantization, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("int8_activation")

_BYTES: Final = {0: TensorInfo(BYTE), 1: TensorInfo(BYTE)}
# The quantization that Caffe2 requires of results between 0 and 1.
_UNIT: Final = Quantization(1 / 256, 0)
# The larger factor of a sum is at least 2**21, and below 2**22.
_SUM_BITS: Final = 21
# The maximum of an exponential of Int8Softmax (2**23 - 1), and of their sum (2**32 - 1).
_MAX_EXPONENTIAL: Final = 8388607.0
_MAX_SUM: Final = 4294967295.0


def relu(op: Op, x: Value) -> Value:
    """Int8Relu(X) -> Y, with the quantization of X."""
    how = preserved_quantization(op, x)
    return mark_quantized(op.emit("Clip", x, op.const(how.zero_point, np.uint8)), how)


def sigmoid(op: Op, x: Value) -> Value:
    """Int8Sigmoid(X; Y_scale=1/256, Y_zero_point=0) -> Y."""
    unit_quantization(op)
    reals = _reals(quantization(op, x))
    values = np.float32(256) / (np.float32(1) + np.exp(-reals))
    return mark_quantized(look_up_bytes(op, x, np.clip(np.rint(values), 0, 255)), _UNIT)


def leaky_relu(op: Op, x: Value) -> Value:
    """Int8LeakyRelu(X; alpha=0.01) -> Y."""
    alpha = np.float32(op.args.number("alpha", default=0.01))
    if not 0 < alpha < 1:
        op.unsupported(f"alpha must be between 0 and 1, not {alpha}", code="invalid-argument")
    from_, to = quantization(op, x), output_quantization(op)
    steps = np.float32(from_.scale) / np.float32(to.scale) * (np.arange(256) - from_.zero_point).astype(np.float32)
    steps = np.where(steps < 0, steps * alpha, steps)
    return mark_quantized(look_up_bytes(op, x, np.clip(np.rint(steps) + to.zero_point, 0, 255)), to)


# Functions of one element; the operand is given apart from the operator, since its dims may be in another order.
BY_ELEMENT: Final[dict[str, Callable[[Op, Value], Value]]] = {
    "Int8LeakyRelu": leaky_relu,
    "Int8Relu": relu,
    "Int8Sigmoid": sigmoid,
}


@family.converts(*BY_ELEMENT, expects=_BYTES)
def activation(op: Op) -> Value:
    """Int8LeakyRelu | Int8Relu | Int8Sigmoid(X) -> Y."""
    return BY_ELEMENT[op.type](op, require_bytes(op, op.input(0), "X"))


@family.converts("Int8Softmax", expects=_BYTES)
def softmax(op: Op) -> Value:
    """Int8Softmax(X; Y_scale=1/256, Y_zero_point=0) -> Y, over all dims but the first; Caffe2 ignores ``axis``."""
    return integer_softmax(op)


def integer_softmax(op: Op) -> Value:
    """Emit Int8Softmax in integers.

    As in QNNPACK the exponentials are integers from a table, and their quotients by the sum are rounded integers of
    1/256. The sum of many equal exponentials exceeds 32 bits, and loses the bit beyond them.
    """
    x = require_bytes(op, op.input(0), "X")
    require_min_rank(op, x, 1, "X")
    unit_quantization(op)
    op.args.ignore("axis")
    rows = cast(op, flatten(op, x, 1), INT32)
    below = sub(op, rows, op.emit("ReduceMax", rows, op.const([1], np.int64), keepdims=1))
    exponentials = op.emit("Gather", _exponentials(op, x), add(op, below, 255), axis=0)
    total = op.emit("ReduceSum", exponentials, op.const([1], np.int64), keepdims=1)
    channels = product(op, sizes(op, x, 1))
    if not isinstance(channels, int) or channels * np.rint(_largest_exponential(channels)) >= 2**32:
        total = binary(op, "Max", binary(op, "Mod", total, 2**32), 1)
    shares = div(op, add(op, mul(op, exponentials, 256), div(op, total, 2)), total)
    y = op.emit("Min", shares, op.const(255, np.int64))
    return mark_quantized(reshape_like(op, cast(op, y, BYTE), x), _UNIT)


def _exponentials(op: Op, x: Value) -> Value:
    """Return the table of ``exp(-scale * (255 - i))``, int64 [256], scaled so that a row's sum fits into 32 bits."""
    powers = np.exp((np.arange(256) - 255) * np.float64(np.float32(quantization(op, x).scale)))
    channels = product(op, sizes(op, x, 1))
    if isinstance(channels, int):
        return op.const(np.rint(_largest_exponential(channels) * powers), np.int64)
    count = cast(op, squeeze(op, vector(op, [channels]), [0]), ir.DataType.DOUBLE)
    largest = op.emit("Min", div(op, _MAX_SUM, count), op.const(_MAX_EXPONENTIAL, np.float64))
    return cast(op, op.emit("Round", mul(op, op.const(powers, np.float64), largest)), ir.DataType.INT64)


def _largest_exponential(channels: int) -> float:
    """Return the exponential of the maximum of a row of so many elements, before it is rounded to an integer."""
    return min(_MAX_SUM / max(channels, 1), _MAX_EXPONENTIAL)


@family.converts("Int8Add", "Int8AddRelu", "Int8Sum", "Int8SumRelu", expects=_BYTES)
def plus(op: Op) -> Value:
    """Int8Add | Int8AddRelu | Int8Sum | Int8SumRelu(A, B) -> C.

    As in QNNPACK each operand is multiplied by its relative scale, as an integer of 22 bits, and the sum is divided by
    a power of two, rounded half away from zero. With engine DNNLOWP the reals are added in float32.
    """
    operands, how = read_sum(op)
    kinds = [quantization(op, x) for x in operands]
    if adds_as_dnnlowp(op):
        return _added(op, operands, kinds, how)
    scales = [np.float32(kind.scale) / np.float32(how.scale) for kind in kinds]
    shift = _SUM_BITS - (int(np.frexp(max(scales))[1]) - 1)
    factors = [float(np.rint(scale * np.float32(2.0**shift))) / 2.0**shift for scale in scales]
    zero = -sum(factor * kind.zero_point for factor, kind in zip(factors, kinds, strict=True))
    products = [mul(op, cast(op, x, ir.DataType.DOUBLE), factor) for x, factor in zip(operands, factors, strict=True)]
    return round_and_saturate(op, add(op, *products, zero), how, minimum_byte(how, relu=op.type.endswith("Relu")))


def adds_as_dnnlowp(op: Op) -> bool:
    """Whether a sum is that of DNNLOWP; Int8AddRelu has no DNNLOWP implementation."""
    return uses_dnnlowp(op) and op.type != "Int8AddRelu"


def read_sum(op: Op) -> tuple[list[Value], Quantization]:
    """Return the two operands of a sum, and the quantization of its result, within the limits of QNNPACK."""
    op.args.ignore("order")
    if len(op.view.inputs) != 2:
        op.unsupported(f"{op.type} must have two operands, not {len(op.view.inputs)}", code="invalid-operands")
    operands = [require_bytes(op, x, f"input {i}") for i, x in enumerate(op.inputs)]
    require_same_shape(op, operands)
    how = output_quantization(op, dnnlowp=True)
    scales = [np.float32(quantization(op, x).scale) / np.float32(how.scale) for x in operands]
    if not adds_as_dnnlowp(op) and (min(scales) < 2**-14 or not 2**-10 <= max(scales) < 2**8):
        op.unsupported(
            "the operands' scales must be between 2**-14 and 2**8 times Y_scale, one of them at least 2**-10 times, "
            f"not {scales[0]:.4g} and {scales[1]:.4g} times",
            code="invalid-argument",
        )
    return operands, how


def _added(op: Op, operands: list[Value], kinds: list[Quantization], how: Quantization) -> Value:
    """Add the operands' reals in float32, as DNNLOWP's vector instructions do, and quantize the sum.

    The products of scales and zero points are summed first; each product of a byte and its scale is added to them with
    one rounding, and so computed in float64 here. Caffe2 computes the last elements, fewer than a vector holds, without
    such instructions: a sum halfway between two bytes may be rounded to the other one there, and so may sums of one or
    three operands.
    """
    if op.type.endswith("Relu"):
        how = relu_quantization(how)
    offset = np.float32(0)
    for kind in kinds:
        offset -= np.float32(kind.scale) * np.float32(kind.zero_point)
    first, *others = (np.arange(256) * np.float64(np.float32(kind.scale)) for kind in kinds)
    reals = look_up_bytes(op, operands[0], (first + offset).astype(np.float32), FLOAT)
    for x, scaled in zip(operands[1:], others, strict=True):
        reals = cast(op, add(op, cast(op, reals, DOUBLE), look_up_bytes(op, x, scaled, DOUBLE)), FLOAT)
    return quantize_dnnlowp(op, reals, how)


def _reals(how: Quantization) -> Array:
    """Return the reals of the 256 bytes, float32."""
    reals: Array = np.float32(how.scale) * (np.arange(256) - how.zero_point).astype(np.float32)
    return reals


def unit_quantization(op: Op) -> Quantization:
    """Return the quantization of results between 0 and 1, the only one that Caffe2 accepts for them."""
    if stated_quantization(op) != _UNIT:
        op.unsupported(
            "Y_scale must be 1/256 and Y_zero_point 0",
            hint="set Y_scale=0.00390625 and Y_zero_point=0",
            code="invalid-argument",
        )
    op.args.ignore("order")
    return _UNIT
