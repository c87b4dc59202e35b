"""Sequences of different lengths in one batch: masks, and the reverse order of their steps."""

from __future__ import annotations

from caffe2_backend.emit.selection import gather, reverse
from caffe2_backend.emit.shapes import arange, dim_of
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import FLOAT, INT32, INT64


def length_mask(op: Op, sequence: Value, lengths: Value) -> Value:
    """Return which steps are within the length of their sequence, float [T, N, 1] of ones and zeros."""
    steps = arange(op, dim_of(op, sequence, 0)).cast(INT32).reshape([-1, 1])
    return op.emit("ExpandDims", (steps < lengths).cast(FLOAT), dims=[2])


def reversed_steps(op: Op, sequence: Value, lengths: Value | None) -> Value:
    """Return the steps of [T, N, D] in reverse order, of each sequence those within its length; the others stay.

    Step t of a sequence of length n comes from n - 1 - t if t < n, else from t. With [T, N] flattened that is row
    source * N + batch.
    """
    total = dim_of(op, sequence, 0)
    if lengths is None:
        return reverse(op, sequence, 0, total)
    steps = arange(op, total)
    rows, ends = steps.reshape([-1, 1]), op.emit("Cast", lengths, to=INT64)
    is_inside = (rows < ends).cast(INT64)
    mirrored = ends - op.const([1], INT64) - rows
    source = rows + is_inside * (mirrored - rows)
    count = dim_of(op, sequence, 1)
    indices = (source * count + arange(op, count)).reshape([-1])
    merged = op.emit("MergeDim", sequence)
    return op.emit("ResizeLike", gather(op, merged, 0, indices), sequence)
