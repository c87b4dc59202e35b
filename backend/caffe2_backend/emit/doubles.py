"""Exponentials and logarithms of float64, of which Caffe2 has kernels of float only, by arithmetic of float64.

Results are within a few units in the last place. All constants are numbers of float: init nets store no others exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from caffe2_backend.emit.fill import zeros_like
from caffe2_backend.emit.selection import gather
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import DOUBLE, FLOAT, INT64

# The exponential of a number below is 0, that of one above is infinite.
_LOWEST: Final = -746.0
_HIGHEST: Final = 710.0
# ln 2 in three parts of 24 bits or less; a product of the first, of 13 bits, with an exponent is exact.
_LN2: Final = (float.fromhex("0x1.62ep-1"), float.fromhex("0x1.0bfbe8p-15"), float.fromhex("0x1.cf79acp-40"))
_TERMS: Final = 14  # of the exponential series: 0.35^15 / 15! is below 2^-63
_LOG_TERMS: Final = 6  # of the series of the logarithm: 0.03^12 / 13 is below 2^-63
_NEAR_ONE: Final = 0.0625
_LN2_INVERSE: Final = float(np.float32(1 / np.log(2)))
_HALF_LIMIT: Final = 65520.0  # from here on, numbers of float16 are infinite
_STEP: Final = 16  # 2^k is (2^(k / 16))^16 times the rest, so that a table of few numbers of float is enough
_REACH: Final = 70


def exponential(op: Op, x: Value) -> Value:
    """Return ``e^x`` of doubles: 2^k * e^r, where x = k ln 2 + r and the absolute value of r is at most 0.35."""
    zeros = zeros_like(op, x, DOUBLE)
    is_inside = (x >= _LOWEST) & (x <= _HIGHEST)
    k, rest = _reduced(op, op.emit("Where", is_inside, x, zeros))
    inside = scaled(op, _series(rest) + 1.0, k)
    outside = op.emit("Where", x > 0.0, zeros + np.inf, op.emit("Where", x < 0.0, zeros, x))
    return op.emit("Where", is_inside, inside, outside)


def exponential_minus_one(op: Op, x: Value) -> Value:
    """Return ``e^x - 1`` of doubles, precise also where it is close to 0."""
    is_small = (x < 0.34375) & (x > -0.34375)
    small = _series(op.emit("Where", is_small, x, zeros_like(op, x, DOUBLE)))
    return op.emit("Where", is_small, small, exponential(op, x) - 1.0)


def logarithm(op: Op, x: Value) -> Value:
    """Return the logarithm of doubles: an estimate y in float, and the logarithm of x / e^y, which is close to 1.

    The estimate is 0 where x is close to 1.
    """
    zeros = zeros_like(op, x, DOUBLE)
    ones = zeros + 1.0
    is_positive = (x > 0.0) & (x < np.inf)
    inside = op.emit("Where", is_positive, x, ones)
    estimate = estimated_logarithm(op, inside)
    is_near = (inside > 1.0 - _NEAR_ONE) & (inside < 1.0 + _NEAR_ONE)
    estimate = op.emit("Where", is_near, zeros, estimate)
    half = exponential(op, estimate * 0.5)  # of which even the smallest doubles have one that is precise
    made = estimate + _log_series(inside / half / half, ones)
    is_zero = (x <= 0.0) & (x >= 0.0)
    outside = op.emit("Where", x > 0.0, x, op.emit("Where", is_zero, zeros - np.inf, zeros / zeros))
    return op.emit("Where", is_positive, made, outside)


def estimated_logarithm(op: Op, x: Value) -> Value:
    """Return the natural logarithm of positive, finite doubles, to about 1e-4.

    It is computed of the 16th root, which float holds for every double.
    """
    for _ in range(4):
        x = op.emit("Sqrt", x)
    return op.emit("Log", x.cast(FLOAT)).cast(DOUBLE) * 16.0


def sigmoid(op: Op, x: Value) -> Value:
    """Return 1 / (1 + e^-x) of doubles."""
    return 1.0 / (exponential(op, -x) + 1.0)


def tangent(op: Op, x: Value) -> Value:
    """Return the hyperbolic tangent of doubles: e / (e + 2), e = e^(2 x) - 1; it is 1 beyond 20 and -1 below -20."""
    zeros = zeros_like(op, x, DOUBLE)
    limited = op.emit("Where", x > 20.0, zeros + 20.0, op.emit("Where", x < -20.0, zeros - 20.0, x))
    grown = exponential_minus_one(op, limited + limited)
    return grown / (grown + 2.0)


def floor(op: Op, x: Value) -> Value:
    """Return the largest integer that is not above each double; doubles from 2^53 on are integers."""
    is_inside = (x < 2.0**53) & (x > -(2.0**53))
    inside = op.emit("Where", is_inside, x, zeros_like(op, x, DOUBLE))
    truncated = inside.cast(INT64).cast(DOUBLE)
    floored = truncated - (inside < truncated).cast(DOUBLE)
    return op.emit("Where", is_inside, floored, x)


def _reduced(op: Op, x: Value) -> tuple[Value, Value]:
    """Return the integers k and the remainders r of x = k ln 2 + r."""
    turns = x * _LN2_INVERSE
    k = (turns + op.emit("Sign", turns) * 0.5).cast(INT64)
    exact = k.cast(DOUBLE)
    rest = x
    for part in _LN2:
        rest = rest - exact * part
    return k, rest


def _series(x: Value) -> Value:
    """Return ``e^x - 1`` of small numbers: x (1 + x / 2 (1 + x / 3 (1 + ...)))."""
    total = x / float(_TERMS)
    for n in range(_TERMS - 1, 0, -1):
        total = (total + 1.0) * x / float(n)
    return total


def binary_exponent(op: Op, x: Value) -> Value:
    """Return the integer k of 2^k <= x < 2^(k + 1), int64, of positive, finite doubles."""
    estimate = floor(op, estimated_logarithm(op, x) * _LN2_INVERSE).cast(INT64)
    # The estimate is off by one at most.
    power = scaled(op, op.const(1.0, DOUBLE), estimate)
    return estimate - (x < power).cast(INT64) + (x * 0.5 >= power).cast(INT64)


def scaled(op: Op, value: Value, k: Value) -> Value:
    """Return ``value * 2^k``, rounded once."""
    powers = op.const(np.exp2(np.arange(-_REACH, _REACH + 1)), DOUBLE)
    coarse = k.quotient(_STEP)
    rest = gather(op, powers, 0, k - coarse * _STEP + _REACH)
    power = gather(op, powers, 0, coarse + _REACH)
    for _ in range(3):
        power = power * power  # the 8th power in the end
    return value * rest * power * power


def _log_series(x: Value, ones: Value) -> Value:
    """Return the logarithm of numbers close to 1: 2 (z + z^3 / 3 + z^5 / 5 + ...) with z = (x - 1) / (x + 1)."""
    z = (x - 1.0) / (x + 1.0)
    square = z * z
    total = ones / float(2 * _LOG_TERMS + 1)
    for n in range(_LOG_TERMS - 1, -1, -1):
        total = ones / float(2 * n + 1) + square * total
    return (z + z) * total


def halves(op: Op, x: Value) -> Value:
    """Return doubles as float16, rounded once.

    Rounding to float first may end halfway between two numbers of float16. Hence the neighbors of that float are
    rounded too, and the closer one to the double is taken; equally close ones are the same, or the double is the float.
    """
    rounded = x.cast(FLOAT)
    plain, low, high = (
        op.emit("HalfToFloat", op.emit("FloatToHalf", value))
        for value in (rounded, rounded * (1.0 - 2.0**-23), rounded * (1.0 + 2.0**-23))
    )
    # Beyond the numbers of float16 a neighbor is infinite: only the plain one is right there.
    is_inside = (x < _HALF_LIMIT) & (x > -_HALF_LIMIT)
    to_low, to_high = (_distance(op, x, value) for value in (low, high))
    made = op.emit("Where", is_inside & (to_low < to_high), low, plain)
    made = op.emit("Where", is_inside & (to_high < to_low), high, made)
    return op.emit("FloatToHalf", made)


def _distance(op: Op, x: Value, value: Value) -> Value:
    difference = x - value.cast(DOUBLE)
    return op.emit("Where", difference < 0.0, -difference, difference)


# By the operator of Caffe2 that computes the function of float.
OF_DOUBLE: Final[dict[str, Callable[[Op, Value], Value]]] = {
    "Ceil": lambda op, x: -floor(op, -x),
    "Exp": exponential,
    "Floor": floor,
    "Log": logarithm,
    "Reciprocal": lambda _, x: 1.0 / x,
    "Sigmoid": sigmoid,
    "Sqr": lambda _, x: x * x,
    "Sqrt": lambda op, x: op.emit("Sqrt", x),
    "Tanh": tangent,
}


def elementwise(op: Op, op_type: str, x: Value) -> Value:
    """Return a function of elements of float or double: the operator of Caffe2, or what computes it of doubles."""
    return OF_DOUBLE[op_type](op, x) if x.dtype == DOUBLE else op.emit(op_type, x)
