"""Arithmetic, comparison and logic of two or more operands."""

from __future__ import annotations

import math
from functools import reduce
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit import unsigned
from caffe2_backend.emit.broadcast import broadcast, elementwise_max, elementwise_min
from caffe2_backend.emit.conversion import cast_back, computable, of_ordered, ordered, selectable, wrapping
from caffe2_backend.emit.strings import equal_strings
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import STRING
from caffe2_backend.lowering.value import Array, Value
from caffe2_backend.ops.tensor.remainder import remainder, with_sign_of_divisor
from caffe2_frontend.interop.types import BOOL, DOUBLE, FLOAT, INT32, INT64

family = Family("elementwise")

_UINT64: Final = ir.DataType.UINT64
_LARGEST_EXPONENT: Final = 62  # of powers of integers: larger exponents count as this one or the next
_COMPARISONS: Final = {"Less": "LT", "LessOrEqual": "LE", "Greater": "GT", "GreaterOrEqual": "GE"}


@family.converts("Add", "Sub", "Mul", "Div")
def arithmetic(op: Op) -> Value:
    """``Add(A, B) -> C``, ``Sub``, ``Mul``, ``Div``: the operator of that name; narrow integers in int32."""
    a, b = wrapping(op, op.input(0)), wrapping(op, op.input(1))
    if op.type == "Div" and op.dtype(op.input(0)) == _UINT64:
        return unsigned.quotient(a, b)
    return cast_back(op, op.emit(op.type, a, b), op.input(0))


@family.converts("Pow")
def power(op: Op) -> Value:
    """``Pow(X, Y) -> Z``: Pow of floats; integers to the power of integers with products of squares.

    Integers to a float power are that too where the power is an integer; else the power of floats, truncated.
    """
    x, y = computable(op, op.input(0)), wrapping(op, op.input(1))
    if op.dtype(op.input(1)) == _UINT64:
        integer = x.dtype in (INT32, INT64)
        y = unsigned.limited(y, _LARGEST_EXPONENT) if integer else unsigned.number_of(op, y, FLOAT)
    if x.dtype in (INT32, INT64) and y.dtype in (INT32, INT64):
        return cast_back(op, _integer_power(x, y), op.input(0))
    if x.dtype in (INT32, INT64) and y.dtype == FLOAT:
        return cast_back(op, _power_of_integers(op, *broadcast(op, [x, y])), op.input(0))
    if x.dtype != FLOAT:
        op.unsupported("Caffe2 raises float to any power, and integers to integer powers", code="dtype")
    known = op.known(y)
    if y.dtype == FLOAT and known is not None and known.size == 1 and op.rank(x) >= known.ndim:
        return cast_back(op, op.emit("Pow", x, exponent=float(known.reshape(-1)[0])), op.input(0))
    return cast_back(op, op.emit("Pow", *broadcast(op, [x, y.cast(FLOAT)])), op.input(0))


def _power_of_integers(op: Op, base: Value, exponent: Value) -> Value:
    """Return integers to the power of floats of the same shape, in the type of the integers."""
    op.note("fractional powers of integers are computed in float, and truncated")
    limited = op.emit("Clip", exponent, min=-64.0, max=64.0)  # beyond, Pow is exact of the bases 0, 1 and -1
    integer = limited.floor()
    is_integer = (exponent >= integer) & (exponent <= integer)
    exact = _integer_power(base, integer.cast(base.dtype))
    rounded = op.emit("Pow", base.cast(FLOAT), exponent).cast(base.dtype)
    return op.emit("Where", is_integer, exact, rounded)


def _integer_power(base: Value, exponent: Value) -> Value:
    """Return integers to the power of integers, by repeated squaring: a factor for each bit of the exponent.

    An exponent above 63 counts as 62 or 63, whichever has its parity: the result is exact for the bases 0, 1 and -1,
    and exceeds 64 bits for all others. To a negative exponent 1 and -1 give 1 or -1, other bases give 0.
    """
    is_odd = exponent % 2
    limited = exponent.select(is_odd + _LARGEST_EXPONENT, exponent <= 63)
    is_negative = exponent < 0
    left = is_odd.select(limited, is_negative)
    result, square = base.like(1), base
    for _ in range(6):  # the bits of 63
        bit = (left % 2).cast(base.dtype)
        result = result * (square * bit + (1 - bit))
        left, square = left // 2, square * square
    vanishes = is_negative & ~((base <= 1) & (base >= -1))
    return result * (~vanishes).cast(base.dtype)


@family.converts("Mod")
def mod(op: Op) -> Value:
    """``Mod(A, B; fmod=0) -> C``: the remainder with the sign of A (``fmod``), or that of B."""
    truncated = op.args.flag("fmod", default=False)
    a, b = wrapping(op, op.input(0)), wrapping(op, op.input(1))
    if op.dtype(op.input(0)) == _UINT64:
        return a - unsigned.quotient(a, b) * b
    if a.dtype in (FLOAT, DOUBLE):
        rank = max(op.rank(a), op.rank(b))
        a, b = broadcast(op, [a, b])
        rest = remainder(op, a, b, rank)
        return cast_back(op, rest if truncated else with_sign_of_divisor(op, rest, b), op.input(0))
    rest = a - op.emit("Div", a, b) * b
    if not truncated:  # one divisor more is on its side of zero, or zero
        rest = rest + b
        rest = rest - op.emit("Div", rest, b) * b
    return cast_back(op, rest, op.input(0))


@family.converts("And", "Or", "Xor")
def logical(op: Op) -> Value:
    """``And(A, B) -> C``, ``Or``, ``Xor``: the operator of that name."""
    return op.emit(op.type, op.input(0), op.input(1))


@family.converts(*_COMPARISONS)
def compare(op: Op) -> Value:
    """``Less(A, B) -> C``, ``LessOrEqual``, ``Greater``, ``GreaterOrEqual``: LT, LE, GT, GE."""
    return op.emit(_COMPARISONS[op.type], ordered(op, op.input(0)), ordered(op, op.input(1)))


@family.converts("Equal")
def equal(op: Op) -> Value:
    """``Equal(A, B) -> C``: EQ of integers and bools; floats are equal that are LE and GE, so that no NaN is.

    Strings are compared by StringEquals, or by their numbers in a string index.
    """
    if op.dtype(op.input(0)) == STRING:
        return equal_strings(op, op.input(0), op.input(1))
    if op.dtype(op.input(0)) == BOOL:
        return op.input(0).equals(op.input(1))
    a, b = wrapping(op, op.input(0)), wrapping(op, op.input(1))
    return a.equals(b)


@family.converts("Sum")
def sum_(op: Op) -> Value:
    """``Sum(*data) -> sum``: Sum of operands of one shape, else Add."""
    values = [wrapping(op, value) for value in op.inputs]
    if len(values) == 1:
        return cast_back(op, values[0], op.input(0))
    shapes = {op.static_shape(value) for value in op.inputs}
    if len(shapes) == 1 and None not in shapes:
        return cast_back(op, op.emit("Sum", *values), op.input(0))
    return cast_back(op, reduce(lambda a, b: a + b, values), op.input(0))


@family.converts("Mean")
def mean(op: Op) -> Value:
    """``Mean(*data) -> mean``: Add and Div."""
    values = [computable(op, value, (FLOAT, DOUBLE)) for value in op.inputs]
    total = reduce(lambda a, b: a + b, values)
    return cast_back(op, total / op.input_count if len(values) > 1 else total, op.input(0))


@family.converts("Max", "Min")
def extreme(op: Op) -> Value:
    """``Max(*data) -> max``, ``Min(*data) -> min``: Clip by a known number, else the same of floats, else Where."""
    limited = _limited(op)
    if limited is not None:
        return limited
    values = [_with_shape(ordered(op, value), value) for value in op.inputs]
    values = broadcast(op, values)
    if len(values) > 1 and values[0].dtype == FLOAT:
        return cast_back(op, op.emit(op.type, *values), op.input(0))
    choose = elementwise_max if op.type == "Max" else elementwise_min
    return of_ordered(op, reduce(lambda a, b: choose(op, a, b), values), op.input(0))


def _limited(op: Op) -> Value | None:
    """Return a float and a known number as Clip; None for other operands."""
    if op.input_count != 2 or op.dtype(op.input(0)) != FLOAT:
        return None
    for x, number in (op.inputs, op.inputs[::-1]):
        known = op.known(number)
        if known is not None and known.size == 1 and known.ndim <= op.rank(x) and not np.isnan(known.item()):
            limit = float(known.item())
            return op.emit("Clip", x, min=limit) if op.type == "Max" else op.emit("Clip", x, max=limit)
    return None


@family.converts("ai.onnx.ml::Binarizer")
def binarizer(op: Op) -> Value:
    """``Binarizer(X; threshold=0) -> Y``: GT and Cast; integers are compared with the threshold rounded down."""
    threshold = op.args.number("threshold", default=0.0)
    x = computable(op, op.input(0))
    bound = math.floor(threshold) if x.dtype in (INT32, INT64) else threshold
    return cast_back(op, (x > bound).cast(x.dtype), op.input(0))


@family.converts("Where")
def where(op: Op) -> Value:
    """``Where(condition, X, Y) -> output``: Where, of operands expanded to one shape."""
    return op.emit("Where", *broadcast(op, [op.input(0), selectable(op, op.input(1)), selectable(op, op.input(2))]))


@family.converts("PRelu")
def prelu(op: Op) -> Value:
    """``PRelu(X, slope) -> Y``: PRelu with one slope or one a channel, else max(0, x) + slope * min(0, x)."""
    x, slope = op.require(op.input(0), FLOAT), op.input(1)
    sizes, shape = op.static_shape(slope), op.shape(x)
    if sizes is not None and (len(sizes) == 0 or set(sizes) == {1}) and len(sizes) <= len(shape):
        return op.emit("PRelu", x, slope.reshape([1]))
    if sizes is not None and len(sizes) == 1 and len(shape) > 1 and sizes[0] == shape[1] != shape[-1]:
        return op.emit("PRelu", x, slope)  # opset 6: one slope a channel
    negative = -op.emit("Relu", -x)
    return op.emit("Relu", x) + slope * negative


@family.converts("Clip")
def clip(op: Op) -> Value:
    """``Clip(X, min=None, max=None) -> Y``: Clip of floats by known bounds, else Max and Min or Where."""
    x, bounds = op.input(0), [op.optional(1), op.optional(2)]
    known = [None if bound is None else op.known(bound) for bound in bounds]
    are_known = all(bound is None or array is not None for bound, array in zip(bounds, known, strict=True))
    if op.dtype(x) == FLOAT and are_known:
        low, high = (None if array is None else _bound(op, array) for array in known)
        return op.emit("Clip", x, min=low, max=high)
    y = _with_shape(ordered(op, x), x)
    for bound, op_type, choose in zip(bounds, ("Max", "Min"), (elementwise_max, elementwise_min), strict=True):
        if bound is not None:
            limit = bound if op.dtype(bound) == y.dtype else _with_shape(ordered(op, bound), bound)
            if op.rank(x) < op.rank(limit):
                limit = op.emit("Squeeze", limit, dims=list(range(op.rank(limit))))
                limit.shape = ir.Shape(())
            pair = broadcast(op, [y, limit])
            is_float, shape = y.dtype == FLOAT, y.shape
            y = op.emit(op_type, *pair) if is_float else choose(op, *pair)
            y.shape = shape  # a bound is a scalar
    return of_ordered(op, y, x)


def _with_shape(value: Value, operand: Value) -> Value:
    """Return a value computed of an operand element by element, with its shape."""
    value.shape = operand.shape
    return value


def _bound(op: Op, array: Array) -> float:
    """Return a bound, which exporters write with a dim of one, too."""
    if array.size != 1:
        op.unsupported(f"a bound has {array.size} elements instead of one", code="invalid-operands")
    return float(array.item())
