"""Functions of one operand, element by element."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, binary, div, mul, sqrt, square, sub
from caffe2_frontend.emit.operand_checks import (
    FLOATS,
    NUMBERS,
    REALS,
    require_dtype,
    require_equal,
    require_min_rank,
    require_rank,
)
from caffe2_frontend.emit.selection import sign
from caffe2_frontend.emit.shapes import broadcast_over_rows, cast, reshape, sizes, slice_axis, unsqueeze, vector
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("math")

_FLOAT: Final = {0: TensorInfo(ir.DataType.FLOAT)}


@family.converts(
    "Abs", "Acos", "Asin", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log", "Reciprocal", "Sin", "Sinh",
    "Tan", expects=_FLOAT,
)  # fmt: skip
@family.converts("Sqrt", uniform=True)
def same_name_reals(op: Op) -> Value:
    """Abs | Acos | Asin | Atan | Ceil | Cos | Cosh | Erf | Exp | Floor | Log(X) -> Y.

    Likewise Reciprocal, Sin, Sinh, Sqrt and Tan.
    """
    return op.emit(op.type, _real(op))


@family.converts("Negative", "Sign", uniform=True)
def same_name_numbers(op: Op) -> Value:
    """Negative | Sign(X) -> Y."""
    return op.emit("Neg", _number(op)) if op.type == "Negative" else sign(op, _number(op))


@family.converts("Sqr", expects=_FLOAT, uniform=True)
def squared(op: Op) -> Value:
    """Sqr(X) -> Y."""
    return square(op, _real(op))


@family.converts("Cube")
def cube(op: Op) -> Value:
    """Cube(X) -> Y."""
    x = _number(op)
    return mul(op, x, x, x)


@family.converts("Cbrt", expects=_FLOAT)
def cube_root(op: Op) -> Value:
    """Cbrt(X) -> Y. The root of a negative number is negative."""
    x = _real(op)
    return mul(op, op.emit("Sign", x), binary(op, "Pow", op.emit("Abs", x), 1 / 3))


@family.converts("Rsqrt", expects=_FLOAT)
def reciprocal_root(op: Op) -> Value:
    """Rsqrt(X) -> Y."""
    return op.emit("Reciprocal", sqrt(op, _real(op)))


@family.converts("Log1p", expects=_FLOAT)
def log1p(op: Op) -> Value:
    """Log1p(X) -> Y.

    Computed in float64, so that ``1 + x`` keeps the digits of a small x.
    """
    x = _real(op)
    return cast(op, op.emit("Log", add(op, cast(op, x, ir.DataType.DOUBLE), 1.0)), op.dtype(x))


@family.converts("ReplaceNaN")
def replace_nan(op: Op) -> Value:
    """ReplaceNaN(X; value=0.0) -> Y."""
    x = op.input(0)
    require_dtype(op, x, FLOATS, "the input")
    return op.emit("Where", op.emit("IsNaN", x), op.const(op.args.number("value", default=0.0), x), x)


@family.converts("IsNaN")
def is_nan(op: Op) -> Value:
    """IsNaN(X) -> Y: 0 or 1, as uint8."""
    return op.emit("Cast", op.emit("IsNaN", _real(op)), to=int(ir.DataType.UINT8))


@family.converts("NanCheck", expects=_FLOAT)
def nan_check(op: Op) -> Value:
    """NanCheck(X, ...) -> X.

    Caffe2 stops if X is not finite, and prints the other operands; the exported model continues.
    """
    return op.input(0)


@family.converts("EnforceFinite")
def enforce_finite(op: Op) -> tuple[Value, ...]:
    """EnforceFinite(X) -> ().

    Caffe2 stops if X is not finite; the exported model continues.
    """
    require_dtype(op, op.input(0), FLOATS, "the input")
    return ()


@family.converts("StumpFunc", expects=_FLOAT)
def stump(op: Op) -> Value:
    """StumpFunc(X; threshold=0.0, low_value=0.0, high_value=0.0) -> Y.

    ``low_value`` for elements up to the threshold, ``high_value`` for others, NaN among them.
    """
    low, high = (op.const(op.args.number(name, default=0.0), np.float32) for name in ("low_value", "high_value"))
    return op.emit("Where", _is_low(op), low, high)


@family.converts("StumpFuncIndex", expects=_FLOAT)
def stump_indices(op: Op) -> tuple[Value, Value]:
    """StumpFuncIndex(X; threshold=0.0) -> indices_low, indices_high.

    The indices, in the flattened operand, of the elements up to the threshold, and of the others.
    """
    is_low = reshape(op, _is_low(op), [-1])
    low, high = (reshape(op, op.emit("NonZero", v), [-1]) for v in (is_low, op.emit("Not", is_low)))
    return low, high


def _real(op: Op) -> Value:
    """Return the first operand, which must be of a floating-point type."""
    require_dtype(op, op.input(0), REALS, "the input")
    return op.input(0)


def _number(op: Op) -> Value:
    """Return the first operand, which must be of a numeric type."""
    require_dtype(op, op.input(0), NUMBERS, "the input")
    return op.input(0)


def _is_low(op: Op) -> Value:
    """Return which elements are at most the argument ``threshold``."""
    return binary(op, "LessOrEqual", _real(op), op.args.number("threshold", default=0.0))


@family.converts("SquareRootDivide", expects=_FLOAT)
def square_root_divide(op: Op) -> Value:
    """SquareRootDivide(data, scale) -> Y.

    Each row is divided by the square root of its scale; a row with the scale 0 is returned unchanged.
    """
    x, scale = op.input(0), op.input(1)
    require_min_rank(op, x, 1, "the data")
    require_rank(op, scale, 1, "the scale")
    require_equal(op, op.static_dim(x, 0), op.static_dim(scale, 0), "rows and scales")
    scale = cast(op, scale, ir.DataType.FLOAT)
    scale = op.emit("Where", binary(op, "Equal", scale, 0), op.const(1.0, scale), scale)
    return div(op, x, broadcast_over_rows(op, sqrt(op, scale), x))


@family.converts("SinusoidPositionEncoding", expects={0: TensorInfo(shape=(None, None))})
def sinusoid_position_encoding(op: Op) -> Value:
    """SinusoidPositionEncoding(positions; embedding_size=100, alpha=10000.0, amplitude=1.0) -> Y.

    ``sin(position / alpha ** (k / size))`` for even k, the cosine for odd k. Positions are [length, N]; as in Caffe2,
    all examples have the encoding of the first.
    """
    positions = op.input(0)
    require_rank(op, positions, 2, "the positions")
    count = op.args.integer("embedding_size", default=100)
    alpha, amplitude = op.args.number("alpha", default=10000.0), op.args.number("amplitude", default=1.0)
    if count < 0:
        op.unsupported(f"embedding_size must not be negative, but is {count}", code="invalid-argument")
    shape = vector(op, [*sizes(op, positions), count])
    if count == 0:
        return op.emit("Expand", op.const(0.0, np.float32), shape)
    op.bounded(count)
    # [length, 1, 1], or [length, 0, 1] where there are no examples.
    first = unsqueeze(op, slice_axis(op, cast(op, positions, ir.DataType.FLOAT), 1, 0, 1), [2])
    # A range in the logarithmic domain, whose step is computed from its ends as in Caffe2: for position 0, whose
    # logarithm is -inf, all elements but the last are NaN there too.
    low = op.emit("Log", first)
    with np.errstate(all="ignore"):  # alpha may be 0 or negative
        high = sub(op, low, float(np.log(alpha)) * (count - 1) / count)
    step = div(op, sub(op, high, low), float(max(count - 1, 1)))
    inner = add(op, low, mul(op, step, op.const(np.arange(count - 1), np.float32)))
    angle = op.emit("Exp", op.emit("Concat", inner, high, axis=2))
    # cos(x) = sin(x + pi / 2).
    phase = (np.arange(count) % 2) * (np.pi / 2)
    row = mul(op, op.emit("Sin", add(op, angle, op.const(phase, np.float32))), amplitude)
    return op.emit("Expand", row, shape)
