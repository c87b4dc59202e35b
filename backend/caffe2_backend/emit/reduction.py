"""Reductions over axes that are known, or given by a mask at run time."""

from __future__ import annotations

from math import prod

import numpy as np

from caffe2_backend.emit.masks import drop_axes, split_axes
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import DOUBLE, FLOAT, INT64

# Known axes, or, where they are computed at run time, a mask over all axes.
Axes = list[int] | Value


def reduce_axes(op: Op, op_type: str, value: Value, axes: Axes, *, keep: bool) -> Value:
    """Return a reduction of a value of the shape of input 0 over axes; without any axis a copy."""
    if op_type == "ReduceMean" and value.dtype == DOUBLE:
        return _mean_of_doubles(op, value, axes, keep=keep)
    if isinstance(axes, Value):
        rank = op.rank(op.input(0))
        split = split_axes(op, value, axes, rank)
        made = op.emit(op_type, split, axes=list(range(0, 2 * rank, 2)), keepdims=0)
        made = _with_empty(op, op_type, made, list(range(rank)))
        return made if keep else drop_axes(op, made, axes)
    if not axes:
        return op.emit("Copy", value)
    return _with_empty(op, op_type, op.emit(op_type, value, axes=axes, keepdims=int(keep)), axes)


def norm(op: Op, op_type: str, value: Value, axes: Axes, *, keep: bool) -> Value:
    """Return ReduceL1 or ReduceL2 of a value of the shape of input 0: of other numbers than floats by arithmetic."""
    if value.dtype == FLOAT:
        return value.absolute() if not axes else reduce_axes(op, op_type, value, axes, keep=keep)
    if op_type == "ReduceL1":
        return reduce_axes(op, "ReduceSum", op.emit("Where", value < 0, -value, value), axes, keep=keep)
    return op.emit("Sqrt", reduce_axes(op, "ReduceSum", value * value, axes, keep=keep))


def _mean_of_doubles(op: Op, value: Value, axes: Axes, *, keep: bool) -> Value:
    """Return the sum divided by the number of elements in each: Caffe2's ReduceMean is for floats only."""
    total = reduce_axes(op, "ReduceSum", value, axes, keep=keep)
    sizes = [op.static_dim(op.input(0), axis) for axis in axes] if isinstance(axes, list) else [None]
    known = [size for size in sizes if size is not None]
    if len(known) == len(sizes):
        return total / float(prod(known))
    return total / (op.emit("Size", value).cast(DOUBLE) / op.emit("Size", total).cast(DOUBLE))


def _with_empty(op: Op, op_type: str, made: Value, axes: list[int]) -> Value:
    """Make the extreme of no floats infinite, as in ONNX; Caffe2 gives the lowest or highest finite number."""
    operand = op.input(0)
    dtype, sizes = op.dtype(operand), [op.static_dim(operand, axis) for axis in axes]
    if op_type not in ("ReduceMax", "ReduceMin") or all(sizes) or dtype not in (FLOAT, DOUBLE):
        return made
    is_empty = op.emit("Size", operand).equals(op.const(0, INT64))
    infinity = op.const(-np.inf if op_type == "ReduceMax" else np.inf, dtype)
    return made + op.emit("Where", is_empty, infinity, op.const(0, dtype))


def drop_reduced(op: Op, value: Value, axes: Axes) -> Value:
    """Return a value without the axes of a reduction, which are of size 1."""
    if isinstance(axes, Value):
        return drop_axes(op, value, axes)
    return op.emit("Squeeze", value, dims=axes) if axes else value
