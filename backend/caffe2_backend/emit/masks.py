"""Axes that are computed at run time where Caffe2 takes them as arguments: masks over the dims of an operand.

A mask is bool [rank], true for the named axes. Shapes made of it take the place of arguments: an axis is reduced as the
named axes of a tensor that has every axis twice, dropped or inserted by a reshape.
"""

from __future__ import annotations

import numpy as np

from caffe2_backend.emit.selection import concat, scatter_rows
from caffe2_backend.emit.shapes import product_of_list, reshape_exactly
from caffe2_backend.lowering.op import Op, index_type
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import INT32, INT64


def integer_list(op: Op, value: Value) -> Value:
    """Return an operand of integers as a list, int64 [k]."""
    integers = index_type(op, value)
    return integers.reshape([1]) if op.rank(value) == 0 else integers


def non_negative_axes(op: Op, axes: Value, rank: int) -> Value:
    """Return an operand of axes as int64 [k], each in [0, rank)."""
    axes = integer_list(op, axes)
    is_negative = (axes < op.const([0], INT64)).cast(INT64)
    return axes + is_negative * op.const([rank], INT64)


def axis_mask(op: Op, axes: Value, rank: int) -> Value:
    """Return the mask of non-negative axes [k]; ``rank`` is at least 1."""
    is_same = op.const(np.arange(rank)[:, None], INT64).equals(axes)
    count = op.emit("ReduceSum", is_same.cast(INT32), axes=[1], keepdims=0)
    return count > op.const([0], INT32)


def scatter_over(op: Op, defaults: Value, rank: int, axes: Value, values: Value) -> Value:
    """Return one number for each axis, int64 [rank]: ``values`` at ``axes``, and the defaults elsewhere."""
    return scatter_rows(op, op.emit("Copy", defaults), [rank], axes, values)


def masked_dims(op: Op, value: Value, mask: Value, rank: int) -> tuple[Value, Value]:
    """Return the dims of the axes inside the mask, with 1 for the others, and those outside, int64 [rank] each."""
    dims, ones = op.emit("Shape", value), op.const(np.ones(rank), INT64)
    outside = op.emit("Where", mask, ones, dims)
    return op.emit("Where", mask, dims, ones), outside


def split_axes(op: Op, value: Value, mask: Value, rank: int) -> Value:
    """Return a value with two axes for each one: the first has its elements if it is in the mask, else the second."""
    inside, outside = (dims.reshape([rank, 1]) for dims in masked_dims(op, value, mask, rank))
    return reshape_exactly(op, value, concat(op, [inside, outside], 1).reshape([2 * rank]))


def drop_axes(op: Op, value: Value, mask: Value) -> Value:
    """Return a value without the axes of the mask, each of which has one element.

    Operand 1 holds the axes, if the operator has it: how many they are is the rank of the result, which runtimes need.
    """
    left = op.emit("BooleanMask", op.emit("Shape", value), ~mask)
    axes = op.optional(1)
    count = None if axes is None else op.static_dim(axes, 0) if op.rank(axes) else 1
    return reshape_exactly(op, value, left if count is None else left.reshape([op.rank(op.input(0)) - count]))


def collapse_around_axis(op: Op, value: Value, axis: Value, rank: int) -> Value:
    """Return a value in three dims: the product of those before an axis, int64 [1], the axis, and that after it."""
    dims, ones = op.emit("Shape", value), op.const(np.ones(rank), INT64)
    axes = op.const(np.arange(rank), INT64)
    masks = (axes < axis, axes.equals(axis), axes > axis)
    sizes = [product_of_list(op, op.emit("Where", mask, dims, ones), rank) for mask in masks]
    return reshape_exactly(op, value, concat(op, sizes, 0))
