"""Binary search in sorted vectors, for all elements of a tensor at once."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.shapes import Size, size
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.lowering.op import Op, Value

Side = Literal["left", "right"]
SIDES: Final[tuple[Side, Side]] = ("left", "right")


def with_guard(op: Op, values: Value) -> Value:
    """A vector with a zero behind it, so that the place after its last element can be looked at."""
    return op.emit("Concat", values, op.const([0], values), axis=0)


def search(op: Op, values: Value, x: Value, side: Side, low: Value | None = None, high: Value | None = None) -> Value:
    """Where each element of ``x`` belongs among sorted values.

    Args:
        op: the operator under conversion.
        values: a vector that is sorted, or is so between the given bounds.
        x: a tensor of the same element type.
        side: ``left`` to count the values below an element, ``right`` for those that are not above it.
        low: the place that the search begins at, int64, broadcast to ``x``; 0 where it is not given.
        high: the place after the last one; the vector's length where it is not given.

    Returns:
        int64 of the shape of ``x``: the place of the first value that is not below the element (``left``), or that is
        above it (``right``).
    """
    count = size(op, values, 0)
    shape = op.emit("Shape", x)
    first = op.const([0], np.int64) if low is None else low
    behind = _vector(op, count) if high is None else high
    bounds = [op.emit("Expand", bound, shape, shape=op.shape(x)) for bound in (first, behind)]
    guarded = with_guard(op, values)
    compare = "Less" if side == "left" else "LessOrEqual"

    def halve(inside: Op, states: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        lo, hi = states
        middle = inside.emit("Div", inside.emit("Add", lo, hi), inside.const(2, np.int64))
        before = inside.emit(compare, inside.emit("Gather", guarded, middle), x)
        right = inside.emit("And", before, inside.emit("Less", lo, hi))
        after = inside.emit("Add", middle, inside.const(1, np.int64))
        return [inside.emit("Where", right, after, lo), inside.emit("Where", right, hi, middle)], []

    (place, _), _ = loop(op, _steps(op, count), None, bounds, halve)
    return place


def _vector(op: Op, count: Size) -> Value:
    return op.const([count], np.int64) if isinstance(count, int) else count


def _steps(op: Op, count: Size) -> Size:
    """How many halvings leave one place of ``count`` + 1: the bits of ``count``, or one more."""
    if isinstance(count, int):
        return count.bit_length()
    places = op.emit("Cast", op.emit("Add", count, op.const([1], np.int64)), to=int(ir.DataType.FLOAT))
    bits = op.emit("Div", op.emit("Log", places), op.const([np.log(2)], np.float32))
    return op.emit("Add", op.emit("Cast", bits, to=int(ir.DataType.INT64)), op.const([2], np.int64))
