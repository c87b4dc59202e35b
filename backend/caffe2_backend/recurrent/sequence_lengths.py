"""Sequences of different lengths in one batch: masks, and the reverse order of their steps."""

from __future__ import annotations

from collections.abc import Callable

from caffe2_backend.emit.selection import reverser
from caffe2_backend.emit.shapes import arange, dim_of, dims_of
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import FLOAT, INT32


def length_mask(op: Op, sequence: Value, lengths: Value) -> Value:
    """Return which steps are within the length of their sequence, float [T, N, 1] of ones and zeros."""
    steps = arange(op, dim_of(op, sequence, 0)).cast(INT32).reshape([-1, 1])
    return op.emit("ExpandDims", (steps < lengths).cast(FLOAT), dims=[2])


def reversal(op: Op, sequence: Value, lengths: Value | None = None) -> Callable[[Value], Value]:
    """Return what reverses the steps of sequences [T, N, D] of as many steps as the given one.

    With ``lengths`` those within the length of each sequence; the others stay.
    """
    if lengths is not None:
        return lambda value: op.emit("ReversePackedSegs", value, lengths)
    return reverser(op, 0, dim_of(op, sequence, 0) if sequence.shape is None else dims_of(op, sequence)[0])
