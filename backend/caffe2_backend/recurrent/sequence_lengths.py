"""Sequences of different lengths in one batch: masks, and the order of their steps."""

from __future__ import annotations

import numpy as np

from caffe2_backend.emit.shapes import dim_of, places_along
from caffe2_backend.lowering.op import FLOAT, INT32, INT64, Op


def in_time(op: Op, sequence: str, lengths: str) -> str:
    """Which rows are within their sequence's length, float [T, N, 1] of ones and zeros."""
    steps = op.reshape(op.cast(places_along(op, dim_of(op, sequence, 0)), INT32), [-1, 1])
    return op.emit("ExpandDims", op.cast(op.emit("LT", steps, lengths), FLOAT), dims=[2])


def backwards(op: Op, sequence: str, lengths: str | None) -> str:
    """The rows in reverse, [T, N, D]; of a sequence that is shorter those within its length, and the others as is."""
    total = dim_of(op, sequence, 0)
    steps = places_along(op, total)
    if lengths is None:
        last = op.emit("Sub", total, op.const([1], np.int64))
        return op.emit("Gather", sequence, op.emit("Sub", last, steps), axis=0)
    rows = op.reshape(steps, [-1, 1])
    ends = op.cast(lengths, INT64)
    inside = op.cast(op.emit("LT", rows, ends), INT64)
    mirrored = op.emit("Sub", op.emit("Sub", ends, op.const([1], np.int64)), rows)
    source = op.emit("Add", rows, op.emit("Mul", inside, op.emit("Sub", mirrored, rows)))
    count = dim_of(op, sequence, 1)
    batch = places_along(op, count)
    places = op.reshape(op.emit("Add", op.emit("Mul", source, count), batch), [-1])
    merged = op.emit("MergeDim", sequence)
    return op.emit("ResizeLike", op.emit("Gather", merged, places, axis=0), sequence)
