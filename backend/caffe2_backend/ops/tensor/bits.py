"""Bitwise operators on integers, in int32 and int64."""

from __future__ import annotations

import numpy as np

from caffe2_backend.emit.selection import gather
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import INT32, INT64

family = Family("bits")


@family.converts("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(op: Op) -> Value:
    """``BitwiseAnd(A, B) -> C``, ``BitwiseOr``, ``BitwiseXor``: the operator of that name."""
    return op.emit(op.type, op.require(op.input(0), INT32, INT64), op.require(op.input(1), INT32, INT64))


@family.converts("BitwiseNot")
def bitwise_not(op: Op) -> Value:
    """``BitwiseNot(X) -> Y``: -1 - x, as two's complement has it."""
    return -1 - op.require(op.input(0), INT32, INT64)


@family.converts("BitShift")
def bit_shift(op: Op) -> Value:
    """``BitShift(X, Y; direction) -> Z``: Mul (LEFT) or Div (RIGHT) by a power of two from a table.

    A shift by at least the width of the type leaves 0 to the left, and the sign (0 or -1) to the right.
    """
    width = (op.operand(0).dtype or INT32).bitwidth  # of the type before it was widened
    x, by = op.require(op.input(0), INT32, INT64), op.require(op.input(1), INT32, INT64)
    if op.args.text("direction", default="") == "LEFT":
        return x * _power_of_two(op, by, width, x, otherwise=0)
    # The power of two of all bits but the sign's exceeds the type; what remains after that shift is the sign too.
    count = min(width, x.dtype.bitwidth - 1)
    sign = 0 - (x < 0).cast(x.dtype)
    is_inside = (by >= 0) & (by < count)
    return (x // _power_of_two(op, by, count, x, otherwise=1)).select(sign, is_inside)


def _power_of_two(op: Op, exponent: Value, count: int, like: Value, *, otherwise: int) -> Value:
    """2 to the exponent, in the type of ``like``; ``otherwise`` where the exponent is not in [0, count)."""
    powers = (1 << np.arange(count, dtype=np.uint64)).astype(like.dtype.numpy())
    is_inside = (exponent >= 0) & (exponent < count)
    table = op.const(np.append(powers, otherwise), like.dtype)
    return gather(op, table, 0, exponent.select(count, is_inside).cast(INT64))
