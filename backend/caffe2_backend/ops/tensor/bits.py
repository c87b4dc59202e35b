"""Bits of whole numbers: in int32 and int64, the narrower types in int32."""

from __future__ import annotations

import numpy as np

from caffe2_backend.emit.value import Number, gathered, known
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import INT32, INT64, Op

family = Family("bits")


@family.converts("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(op: Op) -> str:
    op.require(0, INT32, INT64)
    op.require(1, INT32, INT64)
    return op.emit(op.type, op.input(0), op.input(1))


@family.converts("BitwiseNot")
def complement(op: Op) -> str:
    """-1 - x."""
    op.require(0, INT32, INT64)
    return (-1 - Number(op, op.input(0), op.dtype())).blob


@family.converts("BitShift")
def shift(op: Op) -> str:
    """To the left a product, to the right a quotient, by a power of two; one by no number of bits of the type is all.

    All that is left of a number then is its sign to the right, nothing to the left.
    """
    own = op.value(0).dtype or op.dtype()  # what it was before it was widened
    width = own.bitwidth
    op.require(0, INT32, INT64)
    op.require(1, INT32, INT64)
    dtype = op.dtype()
    x, by = Number(op, op.input(0), dtype), Number(op, op.input(1), op.dtype(1))
    if op.text("direction", "") == "LEFT":
        powers = (1 << np.arange(width, dtype=np.uint64)).astype(dtype.numpy())
        return (x * _power(op, by, powers, rest=0)).blob
    # the power of all bits but the sign's is no number of the type: what it leaves is what any greater one does
    count = min(width, dtype.bitwidth - 1)
    powers = (1 << np.arange(count, dtype=np.uint64)).astype(dtype.numpy())
    sign = 0 - (x < 0).cast(dtype)
    inside = (by >= 0) & (by < count)
    return (x // _power(op, by, powers, rest=1)).chosen(sign, inside).blob


def _power(op: Op, by: Number, powers: np.ndarray[tuple[int], np.dtype[np.int64]], *, rest: int) -> Number:
    inside = (by >= 0) & (by < len(powers))
    table = known(op, np.append(powers, rest), op.dtype())
    return Number(op, gathered(op, table.blob, 0, by.chosen(len(powers), inside).cast(INT64)), op.dtype())
