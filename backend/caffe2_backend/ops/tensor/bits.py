"""Bitwise operators on integers, in int32 and int64."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.conversion import wrapping
from caffe2_backend.emit.float_bits import FORMATS, bits_of_number, number_of_bits
from caffe2_backend.emit.selection import gather
from caffe2_backend.emit.unsigned import bits_of, shifted_right
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import NARROW, UNSIGNED
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import BOOL, DOUBLE, FLOAT, FLOAT16, INT32, INT64

family = Family("bits")


@family.converts("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(op: Op) -> Value:
    """``BitwiseAnd(A, B) -> C``, ``BitwiseOr``, ``BitwiseXor``: the operator of that name."""
    return op.emit(op.type, *(op.require(bits_of(op, op.input(i)), INT32, INT64) for i in (0, 1)))


@family.converts("BitwiseNot")
def bitwise_not(op: Op) -> Value:
    """``BitwiseNot(X) -> Y``: -1 - x, as two's complement has it."""
    return -1 - op.require(bits_of(op, op.input(0)), INT32, INT64)


@family.converts("BitShift")
def bit_shift(op: Op) -> Value:
    """``BitShift(X, Y; direction) -> Z``: Mul (LEFT) or Div (RIGHT) by a power of two from a table.

    A shift by at least the width of the type leaves 0 to the left, and the sign (0 or -1) to the right.
    """
    width = (op.operand(0).dtype or INT32).bitwidth  # of the type before it was widened
    x, by = (op.require(wrapping(op, op.input(i)), INT32, INT64) for i in (0, 1))
    if op.args.text("direction", default="") == "LEFT":
        return x * _power_of_two(op, by, width, x, otherwise=0)
    if op.dtype(op.input(0)) == ir.DataType.UINT64:
        return shifted_right(x, by, _power_of_two(op, by - 1, width - 1, x, otherwise=1))
    # The power of two of all bits but the sign's exceeds the type; what remains after that shift is the sign too.
    count = min(width, x.dtype.bitwidth - 1)
    sign = 0 - (x < 0).cast(x.dtype)
    is_inside = (by >= 0) & (by < count)
    return (x // _power_of_two(op, by, count, x, otherwise=1)).select(sign, is_inside)


@family.converts("BitCast")
def bit_cast(op: Op) -> Value:
    """``BitCast(X; to) -> Y``: the bits of numbers as another type: Cast of integers, arithmetic of floats.

    Of NaN the sign and the payload are lost.
    """
    op.args.ignore("to")
    x, target = op.input(0), op.output_dtype(0)
    source = op.dtype(x)
    for dtype in (source, target):
        if dtype not in (*NARROW, *UNSIGNED, BOOL, FLOAT16, FLOAT, DOUBLE, INT32, INT64):
            op.unsupported(f"Caffe2 has no tensors of {dtype.name.lower()}", code="dtype")
    x, source, target = bits_of(op, x), UNSIGNED.get(source, source), UNSIGNED.get(target, target)
    if source == target:
        return op.emit("Copy", x)
    if target == BOOL:
        return ~x.cast(INT32).equals(0)
    if target in FORMATS:
        return number_of_bits(op, x, target)
    if source not in FORMATS:
        return x.cast(target)
    bits = bits_of_number(op, x)
    return bits if target == INT64 else bits.cast(target)


def _power_of_two(op: Op, exponent: Value, count: int, like: Value, *, otherwise: int) -> Value:
    """Return 2 to the exponent, in the type of ``like``; ``otherwise`` where the exponent is not in [0, count)."""
    powers = (1 << np.arange(count, dtype=np.uint64)).astype(like.dtype.numpy())
    is_inside = (exponent >= 0) & (exponent < count)
    table = op.const(np.append(powers, otherwise), like.dtype)
    return gather(op, table, 0, exponent.select(count, is_inside).cast(INT64))
