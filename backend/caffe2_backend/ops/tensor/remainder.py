"""Remainders of numbers that are not whole: exact, by doubling."""

from __future__ import annotations

import numpy as np

from caffe2_backend.emit.dynamic import repeated, zeros_like
from caffe2_backend.emit.shapes import scalar
from caffe2_backend.lowering.op import DOUBLE, FLOAT, INT32, Op


def any_of(op: Op, mask: str, rank: int) -> str:
    """Whether any of a blob's bools is true, bool of no dims."""
    if not rank:
        return mask
    count = op.emit("ReduceSum", op.cast(mask, INT32), axes=list(range(rank)), keepdims=0)
    return op.emit("GT", count, scalar(op, 0, INT32))


def remainder(op: Op, a: str, b: str, dtype: object, rank: int) -> str:
    """What is left of ``a`` when ``b`` is taken from it as often as it can be, with the sign of ``a``.

    ``b`` is doubled up to ``a``, and taken away on the way back: every one of these steps is exact. Both are of one
    shape, floats or doubles. Of infinity, and by zero, it is NaN; by infinity it is ``a``.
    """
    kind = DOUBLE if dtype == DOUBLE else FLOAT
    zero = scalar(op, 0, kind)
    x, y = (op.emit("Where", op.emit("LT", n, zero), op.emit("Negative", n), n) for n in (a, b))
    zeros = zeros_like(op, x, kind)
    ones, nans = op.emit("Add", zeros, scalar(op, 1, kind)), op.emit("Div", zeros, zeros)
    finite, bounded = (op.emit("GE", op.emit("Sub", n, n), zero) for n in (x, y))
    above = op.emit("GT", y, zero)
    proper = op.emit("And", finite, op.emit("And", above, bounded))
    start, divisor = op.emit("Where", proper, x, zeros), op.emit("Where", proper, y, ones)

    def double(inside: Op, step: str) -> tuple[str, str]:
        twice = inside.emit("Add", step, step)
        step = inside.emit("Where", inside.emit("LE", twice, start), twice, step)
        more = inside.emit("LE", inside.emit("Add", step, step), start)
        return any_of(inside, more, rank), step

    def back(inside: Op, rest: str, step: str) -> tuple[str, str, str]:
        rest = inside.emit("Where", inside.emit("GE", rest, step), inside.emit("Sub", rest, step), rest)
        more = inside.emit("GT", step, divisor)
        halved = inside.emit("Mul", step, scalar(inside, 0.5, kind))
        return any_of(inside, more, rank), rest, inside.emit("Where", more, halved, step)

    always = op.const(True, np.bool_)  # noqa: FBT003 - a value, no flag
    (largest,) = repeated(op, always, [divisor], double)
    rest, _ = repeated(op, always, [start, largest], back)
    rest = op.emit("Where", proper, rest, nans)
    rest = op.emit("Where", op.emit("And", finite, op.emit("And", above, op.emit("Not", bounded))), x, rest)
    return op.emit("Where", op.emit("LT", a, zero), op.emit("Negative", rest), rest)


def with_sign_of_divisor(op: Op, rest: str, b: str, dtype: object) -> str:
    """A remainder that is not zero and has not the divisor's sign has the divisor added; a zero takes that sign."""
    kind = DOUBLE if dtype == DOUBLE else FLOAT
    zero = scalar(op, 0, kind)
    none = op.emit("And", op.emit("LE", rest, zero), op.emit("GE", rest, zero))
    below = op.emit("LT", b, zero)
    opposite = op.emit("Xor", op.emit("LT", rest, zero), below)
    moved = op.emit("Where", opposite, op.emit("Add", rest, b), rest)
    nothing = op.emit("Sub", rest, rest)
    signed = op.emit("Where", below, op.emit("Negative", nothing), nothing)
    return op.emit("Where", none, signed, moved)
