"""Reading and writing at indices, ranking, running sums."""

from __future__ import annotations

import math

import numpy as np

from caffe2_backend.family import Family
from caffe2_backend.op import FLOAT, INT64, Op
from caffe2_backend.shapes import (
    Part,
    along_last,
    cut,
    dim_of,
    dim_parts,
    moved,
    narrowed,
    product,
    reshaped,
    scalar,
    steps_to,
    taken,
    widened,
    written,
)

family = Family("indexing")


def _indices(op: Op, index: int, axis: int, of: int = 0) -> str:
    """Indices into an axis, int64, those below zero counted from its end."""
    known = op.known(index)
    size = op.dim(axis, of)
    if known is not None and size is not None:
        return op.const(np.where(known < 0, known + size, known), np.int64)
    if known is not None and (known >= 0).all():
        return op.input(index)
    whole = op.input(index) if op.dtype(index) == INT64 else op.cast(op.input(index), INT64)
    length = dim_of(op, op.input(of), axis) if size is None else op.const([size], np.int64)
    below = op.cast(op.emit("LT", whole, scalar(op, 0, INT64)), INT64)
    return op.emit(
        "Add",
        whole,
        op.emit("Mul", below, op.reshape(length, []))
        if size is not None or op.rank(index) == 0
        else op.emit("Mul", below, length),
    )


@family.converts("Gather")
def gather(op: Op) -> str:
    axis = op.axis(op.integer("axis", 0), op.rank())
    return op.emit("Gather", op.input(0), _indices(op, 1, axis), axis=axis)


def _static(op: Op, index: int) -> tuple[int, ...]:
    dims = op.dims(index)
    if dims is None:
        op.unsupported(f"the shape of input {index} is only known at run time", code="needs-shape")
    return dims


def _flat_places(op: Op, axis: int) -> str:
    """Where the entries at input 1 lie in the operand, counted through; int64 of the indices' shape."""
    data, where = dim_parts(op, 0), dim_parts(op, 1)
    places = op.emit("Mul", _indices(op, 1, axis), _number(op, product(op, data[axis + 1 :])))
    for i, size in enumerate(where):
        if i != axis and size != 1:
            steps = op.const(np.arange(size), np.int64) if isinstance(size, int) else steps_to(op, size)
            column = op.reshape(steps, [-1 if k == i else 1 for k in range(len(where))])
            places = op.emit("Add", places, op.emit("Mul", column, _number(op, product(op, data[i + 1 :]))))
    return places


def _number(op: Op, part: Part) -> str:
    return op.const([part], np.int64) if isinstance(part, int) else part


@family.converts("GatherElements")
def gather_elements(op: Op) -> str:
    places = _flat_places(op, op.axis(op.integer("axis", 0), op.rank()))
    return op.emit("Gather", op.reshape(op.input(0), [-1]), places)


@family.converts("ScatterElements", "Scatter")
def scatter_elements(op: Op) -> str:
    axis = op.axis(op.integer("axis", 0), op.rank())
    if op.text("reduction", "none") != "none":
        op.unsupported("entries that are combined with what was there")
    places = op.reshape(_flat_places(op, axis), [-1])
    return _assigned(op, [-1], places, [-1])


def _assigned(op: Op, rows: list[int], places: str, updates: list[int]) -> str:
    """The operand, as ``rows``, with the rows at ``places`` replaced."""
    parts = dim_parts(op, 0)
    flat = written(op, op.reshape(op.emit("Copy", op.input(0)), rows), places, op.reshape(op.input(2), updates))
    return reshaped(op, flat, parts)


def _row_places(op: Op) -> tuple[str, int]:
    """The rows that the last axis of input 1 names, and how many axes of the operand it runs through."""
    data, where = _static(op, 0), _static(op, 1)
    depth = where[-1]
    sizes = op.const(data[:depth], np.int64)
    strides = op.const([math.prod(data[i + 1 : depth]) for i in range(depth)], np.int64)
    below = op.cast(op.emit("LT", op.input(1), scalar(op, 0, INT64)), INT64)
    positive = op.emit("Add", op.input(1), op.emit("Mul", below, sizes))
    return op.emit("ReduceSum", op.emit("Mul", positive, strides), axes=[len(where) - 1], keepdims=0), depth


@family.converts("GatherND")
def gather_nd(op: Op) -> str:
    if op.integer("batch_dims", 0):
        op.unsupported("leading dims that go together")
    places, depth = _row_places(op)
    data = _static(op, 0)
    return op.emit("Gather", op.reshape(op.input(0), [math.prod(data[:depth]), *data[depth:]]), places)


@family.converts("ScatterND")
def scatter_nd(op: Op) -> str:
    if op.text("reduction", "none") != "none":
        op.unsupported("entries that are combined with what was there")
    places, depth = _row_places(op)
    data = _static(op, 0)
    rows = [math.prod(data[:depth]), math.prod(data[depth:])]
    return _assigned(op, rows, op.reshape(places, [-1]), [-1, rows[1]])


@family.converts("OneHot")
def one_hot(op: Op) -> str:
    """Off + hot * (on - off); an index outside of the depth is hot nowhere."""
    depth = op.cast(op.reshape(op.input(1), [1]), INT64)
    rank = op.rank() + 1
    axis = op.axis(op.integer("axis", -1), rank)
    parts = dim_parts(op, 0)
    values, kind = widened(op, 2)
    flat = op.cast(op.reshape(op.input(0), [-1, 1]), INT64)
    below = op.cast(op.emit("LT", flat, op.const([0], np.int64)), INT64)
    places = op.emit("Add", flat, op.emit("Mul", below, depth))
    steps = steps_to(op, depth)
    hot = op.cast(op.emit("EQ", places, op.reshape(steps, [1, -1])), kind)
    off, on = cut(op, values, 0, 0, 1), cut(op, values, 0, 1, 2)
    made = op.emit("Add", op.emit("Mul", hot, op.emit("Sub", on, off)), off)
    shaped = reshaped(op, made, [*parts, depth])
    order = list(range(rank - 1))
    order.insert(axis, rank - 1)
    result = moved(op, shaped, order)
    return result if kind == op.dtype(2) else op.cast(result, op.dtype(2))


@family.converts("ArgMax", "ArgMin")
def arg_extreme(op: Op) -> str:
    axis = op.axis(op.integer("axis", 0), op.rank())
    keep = op.integer("keepdims", 1)
    blob, _ = widened(op, 0)
    if not op.integer("select_last_index", 0):
        return op.emit(op.type, blob, axis=axis, keepdims=keep)
    size = op.dim(axis)
    if size is None:
        op.unsupported("the last index along an axis of unknown size", code="needs-shape")
    turned = taken(op, blob, range(size - 1, -1, -1), axis)
    return op.emit("Sub", scalar(op, size - 1, INT64), op.emit(op.type, turned, axis=axis, keepdims=keep))


@family.converts("TopK")
def top_k(op: Op) -> tuple[str, str]:
    """Caffe2 has it of float numbers, and of as many as an argument says; any other is found by ranks."""
    op.ignore("sorted")
    rank = op.rank()
    axis = op.axis(op.integer("axis", -1), rank)
    smallest = not op.integer("largest", 1)
    count = op.known(1)
    if op.dtype() != FLOAT or count is None:
        return _by_ranks(op, axis, smallest=smallest)
    blob = op.emit("Negative", op.input(0)) if smallest else op.input(0)
    values, places = op.emit("TopK", blob, outputs=2, k=int(count.item()), axis=axis)
    return (op.emit("Negative", values) if smallest else values), places


def _by_ranks(op: Op, axis: int, *, smallest: bool) -> tuple[str, str]:
    """The rank of an entry is the number of those before it: the greater ones, and of the equal ones those in front.

    Takes the square of the axis's size.
    """
    rank = op.rank()
    order = [i for i in range(rank) if i != axis] + [axis]
    back = [order.index(i) for i in range(rank)]
    parts = dim_parts(op, 0)
    blob, kind = widened(op, 0)
    size = _number(op, parts[axis])
    rows = reshaped(op, moved(op, blob, order), [-1, parts[axis]])
    mine, other = op.emit("ExpandDims", rows, dims=[2]), op.emit("ExpandDims", rows, dims=[1])
    steps = steps_to(op, size)
    ahead = op.emit("LT" if smallest else "GT", other, mine)
    same = op.emit("Not", op.emit("Or", ahead, op.emit("GT" if smallest else "LT", other, mine)))
    in_front = op.emit("LT", op.reshape(steps, [1, 1, -1]), op.reshape(steps, [1, -1, 1]))
    before = op.cast(op.emit("Or", ahead, op.emit("And", same, in_front)), INT64)
    ranks = op.emit("ExpandDims", op.emit("ReduceSum", before, axes=[2], keepdims=0), dims=[1])
    chosen = steps_to(op, op.reshape(op.input(1), [1]))
    hot = op.cast(op.emit("EQ", op.reshape(chosen, [1, -1, 1]), ranks), INT64)
    places = op.emit("ReduceSum", op.emit("Mul", hot, op.reshape(steps, [1, 1, -1])), axes=[2], keepdims=0)
    starts = op.emit("Mul", op.reshape(steps_to(op, dim_of(op, rows, 0)), [-1, 1]), size)
    values = op.emit("Gather", op.reshape(rows, [-1]), op.emit("Add", starts, places))
    shape: list[Part] = [*(parts[i] for i in order[:-1]), dim_of(op, places, 1)]
    found, where = (moved(op, reshaped(op, each, shape), back) for each in (values, places))
    return narrowed(op, found, op.dtype()) if kind != op.dtype() else found, where


@family.converts("CumSum")
def running_sum(op: Op) -> str:
    """Each entry is the sum of a masked copy of the whole axis."""
    axis = op.axis(int(op.constant(1, "the axis").item()), op.rank())
    reverse, exclusive = op.integer("reverse", 0), op.integer("exclusive", 0)
    size = op.dim(axis)
    dims = op.dims()
    if size is None or dims is None:
        op.unsupported("a running sum along an axis of unknown size", code="needs-shape")
    blob, kind = widened(op, 0)
    mask = np.tri(size, size, -1 if exclusive else 0, dtype=bool)
    mask = mask[::-1, ::-1] if reverse else mask

    def compute(last: str) -> str:
        lead = [dim for i, dim in enumerate(dims) if i != axis]
        wide = op.emit("Expand", op.reshape(last, [*lead, 1, size]), op.const([*lead, size, size], np.int64))
        chosen = op.const(np.broadcast_to(mask, [*lead, size, size]))
        zero = op.const(np.zeros([*lead, size, size]), kind)
        return op.emit("ReduceSum", op.emit("Where", chosen, wide, zero), axes=[len(lead) + 1], keepdims=0)

    return along_last(op, blob, axis, len(dims), compute)


@family.converts("Compress")
def compress(op: Op) -> str:
    rank = op.rank()
    axis = op.axis(op.integer("axis", 0), rank) if op.has("axis") else None
    blob, size = op.input(0), op.dim(axis) if axis is not None else None
    if axis is None:
        blob, size, rank, axis = op.reshape(blob, [-1]), math.prod(_static(op, 0)), 1, 0
    length = op.dim(0, 1)
    if size is None or length is None:
        op.unsupported("an axis of unknown size", code="needs-shape")
    mask = op.input(1)
    if length < size:
        mask = op.emit("Concat", mask, op.const(np.zeros(size - length, bool)), outputs=2, axis=0)[0]
    order = [axis, *(i for i in range(rank) if i != axis)]
    chosen = op.emit("BooleanMask", moved(op, blob, order), mask)
    return moved(op, chosen, [order.index(i) for i in range(rank)])


@family.converts("ReverseSequence")
def reverse_sequence(op: Op) -> str:
    """Row i of a sequence of length n comes from n - 1 - i where i is below n, else from i."""
    batch, time = op.integer("batch_axis", 1), op.integer("time_axis", 0)
    dims = _static(op, 0)
    steps, count = dims[time], dims[batch]
    lengths = op.reshape(op.input(1), [1, count])
    rows = op.const(np.broadcast_to(np.arange(steps)[:, None], (steps, count)), np.int64)
    inside = op.cast(op.emit("LT", rows, lengths), INT64)
    mirrored = op.emit("Sub", op.emit("Sub", lengths, op.const([1], np.int64)), rows)
    source = op.emit("Add", rows, op.emit("Mul", inside, op.emit("Sub", mirrored, rows)))
    places = op.emit("Add", op.emit("Mul", source, op.const([count], np.int64)), op.const(np.arange(count), np.int64))
    order = [time, batch, *(i for i in range(len(dims)) if i not in (time, batch))]
    flat = op.reshape(moved(op, op.input(0), order), [steps * count, *(dims[i] for i in order[2:])])
    shaped = op.reshape(op.emit("Gather", flat, op.reshape(places, [-1])), [dims[i] for i in order])
    return moved(op, shaped, [order.index(i) for i in range(len(dims))])
