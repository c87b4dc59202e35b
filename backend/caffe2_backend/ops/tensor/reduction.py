"""Reductions over axes, and normalization of axes."""

from __future__ import annotations

from functools import reduce as fold
from typing import Final

import numpy as np

from caffe2_backend.emit.conversion import cast_back, computable
from caffe2_backend.emit.doubles import elementwise
from caffe2_backend.emit.fill import full, zeros_like
from caffe2_backend.emit.loops import reduce_rows
from caffe2_backend.emit.masks import axis_mask, masked_dims, non_negative_axes, split_axes
from caffe2_backend.emit.reduction import Axes, drop_reduced, norm, reduce_axes
from caffe2_backend.emit.selection import concat, transpose
from caffe2_backend.emit.shapes import product_of_list, reshape_exactly, size_list
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import NUMBERS
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import BOOL, DOUBLE, FLOAT, INT32, INT64

family = Family("reduction")

_LARGEST: Final = float(np.finfo(np.float32).max)
# A product of known axes of at most this size is one of slices.
_MOST_SLICES: Final = 64


def _keep(op: Op) -> bool:
    return op.args.flag("keepdims", default=True)


def _axes(op: Op) -> Axes | None:
    """Return the axes to reduce: the operand, or the attribute of older operators; None for no reduction at all."""
    idle = op.args.flag("noop_with_empty_axes", default=False)
    rank, operand = op.rank(op.input(0)), op.optional(1)
    attribute = op.args.integers("axes", default=())
    known = None if operand is None else op.known(operand)
    count = 0 if operand is None else op.static_dim(operand, 0)
    if operand is not None and rank and known is None and count != 0:
        mask = axis_mask(op, non_negative_axes(op, operand, rank), rank)
        if count is not None or idle:
            return mask
        return mask | op.emit("Shape", operand).equals(op.const([0], INT64))
    named = attribute if known is None else [int(axis) for axis in known.reshape(-1)]
    if not named:
        return None if idle else list(range(rank))
    return sorted(op.axis(axis, rank) for axis in named)


@family.converts("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2")
def reduce(op: Op) -> Value:
    """``ReduceSum(data, axes=None; keepdims=1, noop_with_empty_axes=0) -> reduced`` and others: the same names."""
    keep, axes, data = _keep(op), _axes(op), op.input(0)
    is_norm = op.type in ("ReduceL1", "ReduceL2")
    if op.dtype(data) == BOOL:
        return _reduce_bools(op, data, axes, keep=keep)
    if axes is None and not is_norm:
        return data
    value = computable(op, data, (FLOAT, DOUBLE) if op.type in ("ReduceMean", "ReduceL2") else NUMBERS)
    return cast_back(op, (norm if is_norm else reduce_axes)(op, op.type, value, axes or [], keep=keep), data)


def _reduce_bools(op: Op, data: Value, axes: Axes | None, *, keep: bool) -> Value:
    """ReduceMax: whether any is true; ReduceMin: whether none is false. Caffe2 reduces no bools: they are counted."""
    if op.type not in ("ReduceMax", "ReduceMin"):
        op.require(data, *NUMBERS)
    if axes is None:
        return data
    is_min = op.type == "ReduceMin"
    counted = (~data if is_min else data).cast(INT32)
    found = reduce_axes(op, "ReduceSum", counted, axes, keep=keep) > 0
    return ~found if is_min else found


@family.converts("ReduceSumSquare")
def reduce_sum_square(op: Op) -> Value:
    """``ReduceSumSquare(data, axes=None; keepdims=1, ...) -> reduced``: Mul and ReduceSum."""
    keep, axes = _keep(op), _axes(op)
    value = computable(op, op.input(0))
    square = value * value
    made = square if axes is None else reduce_axes(op, "ReduceSum", square, axes, keep=keep)
    return cast_back(op, made, op.input(0))


@family.converts("ReduceLogSum")
def reduce_log_sum(op: Op) -> Value:
    """``ReduceLogSum(data, axes=None; keepdims=1, ...) -> reduced``: ReduceSum and Log."""
    keep, axes, data = _keep(op), _axes(op), op.require(op.input(0), FLOAT, DOUBLE)
    return elementwise(op, "Log", data if axes is None else reduce_axes(op, "ReduceSum", data, axes, keep=keep))


@family.converts("ReduceLogSumExp")
def reduce_log_sum_exp(op: Op) -> Value:
    """``ReduceLogSumExp(data, axes=None; keepdims=1, ...) -> reduced``: max + log(sum(exp(x - max))).

    The maximum, limited to finite numbers, is subtracted so that no exponential overflows.
    """
    keep, axes, data = _keep(op), _axes(op), op.require(op.input(0), FLOAT, DOUBLE)
    if axes is None:
        return data
    top = reduce_axes(op, "ReduceMax", data, axes, keep=True)
    if data.dtype == FLOAT:
        top = op.emit("Clip", top, min=-_LARGEST, max=_LARGEST)
    else:  # of no elements, or infinite ones
        top = op.emit("Where", (top < np.inf) & (top > -np.inf), top, zeros_like(op, top, DOUBLE))
    total = reduce_axes(op, "ReduceSum", elementwise(op, "Exp", data - top), axes, keep=True)
    made = elementwise(op, "Log", total) + top
    return made if keep else drop_reduced(op, made, axes)


@family.converts("ReduceProd")
def reduce_prod(op: Op) -> Value:
    """``ReduceProd(data, axes=None; keepdims=1, ...) -> reduced``: Mul of the slices of each axis, or a loop."""
    keep, axes, data = _keep(op), _axes(op), op.input(0)
    value = computable(op, data)
    if isinstance(axes, list) and all(0 < (op.static_dim(data, axis) or 0) <= _MOST_SLICES for axis in axes):
        for axis in axes:
            size = op.static_dim(data, axis) or 0
            if size > 1:
                value = fold(lambda a, b: a * b, op.emit("Split", value, outputs=size, axis=axis))
    elif axes:
        value = _product_of_any(op, value, axes)
    return cast_back(op, value if keep or not axes else drop_reduced(op, value, axes), data)


def _product_of_any(op: Op, value: Value, axes: Axes) -> Value:
    """Return the product over axes of unknown sizes, which are kept: rows of the reduced axes, multiplied in a loop."""
    rank = op.rank(op.input(0))
    mask = axes if isinstance(axes, Value) else op.const(np.isin(np.arange(rank), axes), BOOL)
    split = split_axes(op, value, mask, rank)
    inside, outside = masked_dims(op, value, mask, rank)
    first = transpose(op, split, [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)])
    rows = reshape_exactly(op, first, concat(op, [product_of_list(op, inside, rank), outside], 0))
    ones = reshape_exactly(op, full(op, [outside], value.dtype, 1), size_list(op, [1, outside]))
    return reshape_exactly(op, reduce_rows(op, "Mul", rows, ones), outside)
