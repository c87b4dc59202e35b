"""Binary search in sorted vectors, for all elements of a tensor at once.

ONNX has no such operator. The search is a Loop that halves the interval of every element in each iteration.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.shapes import Size, size, vector
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.lowering.op import Op, Value

Side = Literal["left", "right"]
SIDES: Final[tuple[Side, Side]] = ("left", "right")


def append_zero(op: Op, values: Value) -> Value:
    """Return ``values`` [n] with a zero appended, [n + 1], so that the index ``n`` may be gathered."""
    return op.emit("Concat", values, op.const([0], values), axis=0)


def search(op: Op, values: Value, x: Value, side: Side, low: Value | None = None, high: Value | None = None) -> Value:
    """Find the insertion index of each element of ``x`` in a sorted vector, as ``numpy.searchsorted`` does.

    Args:
        op: the operator under conversion.
        values: a vector [n], sorted in ascending order within the bounds.
        x: a tensor of the same element type, any shape.
        side: ``left`` for the first index whose value is not below the element, ``right`` for the first whose value is
            above it.
        low: the first index of the interval to search, int64, broadcast to the shape of ``x``; 0 by default.
        high: the index after the last of the interval, likewise; n by default.

    Returns:
        The insertion indices, int64 of the shape of ``x``; ``high`` where no value qualifies.
    """
    count = size(op, values, 0)
    shape = op.emit("Shape", x)
    first = op.const([0], np.int64) if low is None else low
    end = vector(op, [count]) if high is None else high
    bounds = [op.emit("Expand", bound, shape, shape=op.shape(x)) for bound in (first, end)]
    # An interval that is empty at the end of the vector has its middle at n.
    padded = append_zero(op, values)
    compare = "Less" if side == "left" else "LessOrEqual"

    def halve(inside: Op, states: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        lo, hi = states
        middle = inside.emit("Div", inside.emit("Add", lo, hi), inside.const(2, np.int64))
        before = inside.emit(compare, inside.emit("Gather", padded, middle), x)
        # An empty interval stays: its middle is both of its ends.
        right = inside.emit("And", before, inside.emit("Less", lo, hi))
        after = inside.emit("Add", middle, inside.const(1, np.int64))
        return [inside.emit("Where", right, after, lo), inside.emit("Where", right, hi, middle)], []

    (index, _), _ = loop(op, _iterations(op, count), None, bounds, halve)
    return index


def _iterations(op: Op, count: Size) -> Size:
    """Return how many halvings leave one of ``count`` + 1 indices: ``ceil(log2(count + 1))``, or up to two more.

    More do no harm; a logarithm in float32, computed at run time, may come out too low by one.
    """
    if isinstance(count, int):
        return count.bit_length()
    candidates = op.emit("Cast", op.emit("Add", count, op.const([1], np.int64)), to=int(ir.DataType.FLOAT))
    bits = op.emit("Div", op.emit("Log", candidates), op.const([np.log(2)], np.float32))
    return op.emit("Add", op.emit("Cast", bits, to=int(ir.DataType.INT64)), op.const([2], np.int64))
