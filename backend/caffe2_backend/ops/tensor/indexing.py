"""Reading at indices, and the indices of what is chosen."""

from __future__ import annotations

import numpy as np

from caffe2_backend.emit.indices import flat_places, indices, row_places
from caffe2_backend.emit.shapes import concat, cut, dim_parts, joined, moved, places_along, product, reshaped, widened
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import BOOL, INT64, Op

family = Family("indexing")


@family.converts("Gather")
def gather(op: Op) -> str:
    axis = op.axis(op.integer("axis", 0), op.rank())
    return op.emit("Gather", op.input(0), indices(op, 1, axis), axis=axis)


@family.converts("ai.onnx.ml::ArrayFeatureExtractor")
def array_features(op: Op) -> str:
    """Columns; of a list they are those of one row."""
    rank = op.rank()
    table = op.input(0) if rank > 1 else op.reshape(op.input(0), [1, -1])
    return op.emit("Gather", table, op.reshape(indices(op, 1, rank - 1), [-1]), axis=max(rank, 2) - 1)


@family.converts("GatherElements")
def gather_elements(op: Op) -> str:
    places = flat_places(op, op.axis(op.integer("axis", 0), op.rank()))
    return op.emit("Gather", op.reshape(op.input(0), [-1]), places)


@family.converts("GatherND")
def gather_nd(op: Op) -> str:
    places, axes = row_places(op, op.integer("batch_dims", 0))
    parts = dim_parts(op, 0)
    return op.emit("Gather", reshaped(op, op.input(0), [product(op, parts[:axes]), *parts[axes:]]), places)


@family.converts("NonZero")
def non_zero(op: Op) -> str:
    """Where the entries that are not zero lie, counted through, and from that along each axis."""
    parts = dim_parts(op, 0) or [1]
    flat = op.reshape(op.input(0), [-1])
    found = op.emit("BooleanMask", flat, flat if op.dtype() == BOOL else op.cast(flat, BOOL), outputs=2)[1]
    rows = []
    for axis, size in enumerate(parts):
        stride = product(op, parts[axis + 1 :])
        through = op.emit("Div", found, joined(op, [stride]))
        whole = op.emit("Mul", op.emit("Div", through, joined(op, [size])), joined(op, [size]))
        rows.append(op.emit("ExpandDims", op.emit("Sub", through, whole), dims=[0]))
    return concat(op, rows, 0)


@family.converts("Compress")
def compress(op: Op) -> str:
    """The list of what to take may be shorter than the axis."""
    chosen = op.emit("BooleanMask", op.input(1), op.input(1), outputs=2)[1]
    if not op.has("axis"):
        return op.emit("Gather", op.reshape(op.input(0), [-1]), chosen, axis=0)
    return op.emit("Gather", op.input(0), chosen, axis=op.axis(op.integer("axis", 0), op.rank()))


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
    steps = op.emit("Range", op.const([0], np.int64), depth, op.const([1], np.int64))
    hot = op.cast(op.emit("EQ", places, op.reshape(steps, [1, -1])), kind)
    off, on = cut(op, values, 0, 0, 1), cut(op, values, 0, 1, 2)
    made = op.emit("Add", op.emit("Mul", hot, op.emit("Sub", on, off)), off)
    shaped = reshaped(op, made, [*parts, depth])
    order = list(range(rank - 1))
    order.insert(axis, rank - 1)
    result = moved(op, shaped, order)
    return result if kind == op.dtype(2) else op.cast(result, op.dtype(2))


@family.converts("ReverseSequence")
def reverse_sequence(op: Op) -> str:
    """Row i of a sequence of length n comes from n - 1 - i where i is below n, else from i."""
    batch, time = op.integer("batch_axis", 1), op.integer("time_axis", 0)
    parts = dim_parts(op, 0)
    steps, count = parts[time], parts[batch]
    lengths = reshaped(op, op.input(1), [1, count])
    rows = reshaped(op, places_along(op, steps), [steps, 1])
    inside = op.cast(op.emit("LT", rows, lengths), INT64)
    mirrored = op.emit("Sub", op.emit("Sub", lengths, op.const([1], np.int64)), rows)
    source = op.emit("Add", rows, op.emit("Mul", inside, op.emit("Sub", mirrored, rows)))
    places = op.emit("Add", op.emit("Mul", source, joined(op, [count])), places_along(op, count))
    order = [time, batch, *(i for i in range(len(parts)) if i not in (time, batch))]
    turned = [parts[i] for i in order]
    flat = reshaped(op, moved(op, op.input(0), order), [product(op, turned[:2]), *turned[2:]])
    shaped = reshaped(op, op.emit("Gather", flat, op.reshape(places, [-1])), turned)
    return moved(op, shaped, [order.index(i) for i in range(len(parts))])
