"""What is greatest, what is different, and running sums and products."""

from __future__ import annotations

import numpy as np

from caffe2_backend.emit.dynamic import accumulated, around, integers, named_axes, resized, span
from caffe2_backend.emit.shapes import (
    Part,
    concat,
    dim_of,
    dim_parts,
    joined,
    moved,
    narrowed,
    places_along,
    product,
    reshaped,
    scalar,
    taken,
    widened,
    written,
)
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import BOOL, DOUBLE, FLOAT, INT32, INT64, Op
from caffe2_backend.ops.tensor.shape import full

family = Family("ranking")


@family.converts("ArgMax", "ArgMin")
def arg_extreme(op: Op) -> str:
    axis = op.axis(op.integer("axis", 0), op.rank())
    keep = op.integer("keepdims", 1)
    blob, _ = widened(op, 0)
    if not op.integer("select_last_index", 0):
        return op.emit(op.type, blob, axis=axis, keepdims=keep)
    size = dim_parts(op, 0)[axis]
    last = scalar(op, size - 1, INT64) if isinstance(size, int) else op.emit("Sub", size, op.const([1], np.int64))
    turned = _turned(op, blob, axis, size)
    places = op.emit(op.type, turned, axis=axis, keepdims=1)
    made = op.emit("Sub", last, places)
    return made if keep else op.emit("Squeeze", made, dims=[axis])


def _turned(op: Op, blob: str, axis: int, size: Part) -> str:
    """An axis from its end to its start."""
    if isinstance(size, int):
        return taken(op, blob, range(size - 1, -1, -1), axis)
    last = op.emit("Sub", size, op.const([1], np.int64))
    return op.emit("Gather", blob, op.emit("Sub", last, places_along(op, size)), axis=axis)


@family.converts("TopK")
def top_k(op: Op) -> tuple[str, str]:
    """Caffe2's own where it has it: for floats and a known k. Else each entry's place among all is counted."""
    op.ignore("sorted")
    rank = op.rank()
    axis = op.axis(op.integer("axis", -1), rank)
    smallest = not op.integer("largest", 1)
    known = op.known(1)
    if op.dtype() != FLOAT or known is None:
        return _counted_top(op, axis, smallest=smallest)
    blob = op.emit("Negative", op.input(0)) if smallest else op.input(0)
    values, places = op.emit("TopK", blob, outputs=2, k=int(known.item()), axis=axis)
    return (op.emit("Negative", values) if smallest else values), places


def _counted_top(op: Op, axis: int, *, smallest: bool) -> tuple[str, str]:
    """An entry stands behind all that are greater, and behind the equal ones that come first."""
    parts, rank = dim_parts(op, 0), op.rank()
    order = [i for i in range(rank) if i != axis] + [axis]
    size = parts[axis]
    blob, dtype = widened(op, 0)
    rows = product(op, [parts[i] for i in order[:-1]])
    table = moved(op, blob, order)
    one, other = reshaped(op, table, [rows, size, 1]), reshaped(op, table, [rows, 1, size])
    places = places_along(op, size)
    earlier = op.emit("GT", reshaped(op, places, [size, 1]), places)
    ahead = op.emit("LT" if smallest else "GT", other, one)
    behind = op.emit("Or", ahead, op.emit("And", _equal(op, one, other, dtype), earlier))
    rank_of = op.emit("ReduceSum", op.cast(behind, INT64), axes=[2], keepdims=0)
    step = joined(op, [size])
    starts = op.emit("Mul", reshaped(op, places_along(op, rows), [rows, 1]), step)
    inverse = op.reshape(op.emit("Add", rank_of, starts), [-1])
    each = op.reshape(op.emit("Add", op.emit("Sub", rank_of, rank_of), places), [-1])
    best = reshaped(op, written(op, op.emit("Copy", each), inverse, each), [rows, size])
    count = integers(op, 1)
    best = span(op, best, 0, count, 1)
    found = op.emit("Gather", op.reshape(table, [-1]), op.emit("Add", best, starts))
    shape = [*(parts[i] for i in order[:-1]), count]
    back = [order.index(i) for i in range(rank)]
    values, chosen = (moved(op, reshaped(op, made, shape), back) for made in (found, best))
    return narrowed(op, values, op.dtype()), chosen


def _equal(op: Op, a: str, b: str, dtype: object) -> str:
    if dtype in (FLOAT, DOUBLE):
        return op.emit("And", op.emit("LE", a, b), op.emit("GE", a, b))
    return op.emit("EQ", a, b)


@family.converts("Unique")
def unique(op: Op) -> tuple[str, str, str, str]:
    """Every entry, or row, is compared with every other: Caffe2's own Unique knows whole numbers alone."""
    if op.has("axis"):
        axis = op.axis(op.integer("axis", 0), op.rank())
        parts = dim_parts(op, 0)
        order = [axis, *(i for i in range(op.rank()) if i != axis)]
        size: Part = parts[axis]
        width = product(op, [parts[i] for i in order[1:]])
    else:
        axis, order = 0, []
        size, width = product(op, dim_parts(op, 0)), 1
    blob, dtype = (op.cast(op.input(0), INT32), INT32) if op.dtype() == BOOL else widened(op, 0)
    table = reshaped(op, moved(op, blob, order) if order else blob, [size, width])
    same, less = _compared(op, table, size, width, dtype)
    places = places_along(op, size)
    column = reshaped(op, places, [size, 1])
    earlier = op.emit("And", same, op.emit("GT", column, places))
    first = op.emit("EQ", _count(op, earlier), op.const([0], np.int64))
    if not op.integer("sorted", 1):
        less = op.emit("GT", op.emit("ArgMax", op.cast(same, INT32), axis=1, keepdims=1), places)
    inverse = _count(op, op.emit("And", less, first))
    found = op.emit("BooleanMask", places, first)
    chosen = written(op, op.emit("Copy", found), op.emit("Gather", inverse, found), found)
    counts = op.emit("Gather", _count(op, same), chosen)
    source = op.input(0) if order else op.reshape(op.input(0), [-1])
    return op.emit("Gather", source, chosen, axis=axis), chosen, inverse, counts


def _count(op: Op, table: str) -> str:
    """How many of each row are true, int64."""
    return op.emit("ReduceSum", op.cast(table, INT64), axes=[1], keepdims=0)


def _compared(op: Op, table: str, size: Part, width: Part, dtype: object) -> tuple[str, str]:
    """Which rows are equal, and which other rows are less, by the first entry in which they differ."""
    one, other = reshaped(op, table, [size, 1, width]), reshaped(op, table, [1, size, width])
    zero = scalar(op, 0, INT32)
    different = op.cast(op.emit("Not", _equal(op, one, other, dtype)), INT32)
    same = op.emit("EQ", op.emit("ReduceSum", different, axes=[2], keepdims=0), zero)
    leading = op.emit("EQ", op.emit("ArgMax", different, axis=2, keepdims=1), places_along(op, width))
    below = op.cast(op.emit("And", op.emit("LT", other, one), leading), INT32)
    return same, op.emit("GT", op.emit("ReduceSum", below, axes=[2], keepdims=0), zero)


@family.converts("CumSum", "CumProd")
def running(op: Op) -> str:
    """Where the axis is computed at run time the operand becomes three dims, of which it is the second."""
    kind, neutral = ("Add", 0) if op.type == "CumSum" else ("Mul", 1)
    reverse, exclusive = op.integer("reverse", 0), op.integer("exclusive", 0)
    blob, dtype = widened(op, 0)
    known = op.known(1)
    if known is not None:
        axis, parts = op.axis(int(known.item()), op.rank()), dim_parts(op, 0)
        source = blob
    else:
        source = around(op, blob, named_axes(op, 1, op.rank()), op.rank())
        axis, parts = 1, [dim_of(op, source, i) for i in range(3)]
    size = parts[axis]
    made = _turned(op, source, axis, size) if reverse else source
    if exclusive:
        before = full(op, [*parts[:axis], 1, *parts[axis + 1 :]], dtype, neutral)
        made = span(op, concat(op, [before, made], axis), 0, size, axis)
    made = accumulated(op, kind, made, axis, size)
    made = _turned(op, made, axis, size) if reverse else made
    return narrowed(op, made if known is not None else resized(op, made, op.emit("Shape", blob)), op.dtype())
