"""Unsigned integers of 64 bits, which no type of Caffe2 holds: int64 has their bits.

Sums, products, shifts to the left and bitwise operators are the same of signed and of unsigned numbers. Comparisons are
those of the bits with the sign flipped, which moves the numbers from [0, 2^64) to [-2^63, 2^63) in their order.
Unsigned integers of 32 bits need none of this: int64 holds them (see ``WIDER``).
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_backend.lowering.emitter import CARRY_HINT
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import UNSIGNED
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import INT64

_SIGN: Final = -(1 << 63)


def bits_of(op: Op, value: Value) -> Value:
    """Return an unsigned operand as the signed integers of the same bits; any other operand unchanged."""
    dtype = op.dtype(value)
    if dtype not in UNSIGNED:
        return value
    if op.lowering.carries_nodes:
        op.unsupported(f"Caffe2 has no tensors of {dtype.name.lower()}", CARRY_HINT, "dtype")
    return op.blob(value.name, UNSIGNED[dtype], value.shape)


def flipped(bits: Value) -> Value:
    """Return the bits of unsigned numbers as signed ones of the same order, and back: the sum wraps around."""
    return bits + _SIGN


def quotient(a: Value, b: Value) -> Value:
    """Return the bits of the quotients of unsigned numbers.

    By a number below 2^63: twice the quotient of a / 2, which is right or one too small (Warren, "Hacker's Delight",
    9-3). By a larger number, whose bits are negative: 1 or 0.
    """
    is_small = b > 0
    divisor = b.select(1, is_small)
    estimate = _halved(a).quotient(divisor) * 2
    estimate = estimate + _is_at_least(a - estimate * divisor, divisor)
    return estimate.select(_is_at_least(a, b), is_small)


def shifted_right(x: Value, by: Value, power: Value) -> Value:
    """Return the bits of unsigned numbers shifted right; ``power`` is 2^(by - 1), or 1 if ``by`` is not in [1, 64)."""
    is_inside = ((by >= 1) & (by < 64)).cast(INT64)
    return _halved(x).quotient(power) * is_inside + x * by.equals(0).cast(INT64)


def limited(bits: Value, largest: int) -> Value:
    """Return the smaller of each unsigned number and an even one, or the one after that if it is larger and odd."""
    is_odd = bits % 2
    return bits.select(is_odd + largest, (bits >= 0) & (bits <= largest))


def number_of(op: Op, bits: Value, dtype: ir.DataType) -> Value:
    """Return the unsigned numbers of the bits, rounded to float or double.

    Those from 2^63 on are halved first; a last bit that is set stays set, so that the rounding is the same.
    """
    half = _halved(bits)
    large = op.emit("BitwiseOr", half, bits - half * 2).cast(dtype)
    number = op.emit("Where", bits < 0, large + large, bits.cast(dtype))
    number.shape = bits.shape
    return number


def bits_of_number(op: Op, value: Value) -> Value:
    """Return the bits of numbers as unsigned integers: floats are truncated, integers wrap around."""
    if not value.dtype.is_floating_point():
        return value.cast(INT64)
    is_large = value >= -float(_SIGN)
    below = op.emit("Where", is_large, value + float(_SIGN), value)
    return below.cast(INT64) + is_large.cast(INT64) * _SIGN


def _halved(bits: Value) -> Value:
    """Return the bits of unsigned numbers divided by 2: shifted right, with 0 in the place of the sign."""
    return bits // 2 - (bits < 0).cast(INT64) * _SIGN


def _is_at_least(a: Value, b: Value) -> Value:
    return (flipped(a) >= flipped(b)).cast(INT64)
