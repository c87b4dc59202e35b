"""Parts of tensors: slices, gathered and scattered rows, joined tensors, and axes in another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from caffe2_backend.emit.conversion import as_float, from_float
from caffe2_backend.emit.fill import full
from caffe2_backend.emit.shapes import Size, arange, as_value, known_size, size_list
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import HELD_BY_FLOAT, STRING
from caffe2_backend.lowering.value import Value
from caffe2_bridge.bounds import MAX_FOLDED
from caffe2_frontend.interop.types import DOUBLE, FLOAT, INT64


def concat(op: Op, values: Sequence[Value], axis: int) -> Value:
    """Return values of one element type, joined along an axis."""
    if len(values) == 1:
        return values[0]
    arrays = [value.array for value in values if value.array is not None]
    if len(arrays) == len(values):
        return op.const(np.concatenate(arrays, axis), values[0].dtype)
    return op.emit("Concat", *values, outputs=2, axis=axis)[0]


def slice_axis(op: Op, value: Value, axis: int, start: Size, end: Size) -> Value:
    """Return the elements ``start`` to ``end`` of an axis; -1 as a known end is the end of the axis.

    Sizes that are computed at run time must not be negative.
    """
    first, last = known_size(start), known_size(end)
    if first is not None and last is not None:
        if value.array is not None and last >= -1 and first >= 0:
            part = slice(first, None if last == -1 else last)
            return op.const(value.array[(slice(None),) * axis + (part,)], value.dtype)
        return op.emit("Slice", value, starts=[0] * axis + [first], ends=[-1] * axis + [last])
    starts = size_list(op, [*[0] * axis, start])
    return op.emit("Slice", value, starts, size_list(op, [*[-1] * axis, end]))


def element(op: Op, values: Value, index: int) -> Value:
    """Return one element of a list: without dims where the list is known, else [1]."""
    known = op.known(values)
    if known is not None:
        if index >= known.size:
            op.unsupported(f"{values.name!r} has {known.size} elements; more are read", code="invalid-operands")
        return op.const(known.reshape(-1)[index], values.dtype)
    return slice_axis(op, values.reshape([-1]), 0, index, index + 1)


def gather(op: Op, value: Value, axis: int, indices: Value) -> Value:
    """Return the elements of an axis at indices, whose dims replace the axis."""
    return op.emit("Gather", value, indices, axis=axis)


def reverse(op: Op, value: Value, axis: int, size: Size) -> Value:
    """Return a value whose axis, of the given size, runs from its end to its start."""
    return reverser(op, axis, size)(value)


def reverser(op: Op, axis: int, size: Size) -> Callable[[Value], Value]:
    """Return what reverses an axis, of the given size, of values."""
    known = known_size(size)
    if known is not None and known <= MAX_FOLDED:
        order = op.const(np.arange(known - 1, -1, -1), INT64)
    else:
        end = op.const([-1], INT64)
        order = op.emit("Range", as_value(op, size) + end, end, end)
    return lambda value: gather(op, value, axis, order)


def append_element(op: Op, value: Value, axis: int, filler: float) -> Value:
    """Return a value with one element more, a constant, at the end of an axis; float, double, int32 or int64."""
    filled = FLOAT if value.dtype == DOUBLE else value.dtype
    number: float = float(filler) if filled == FLOAT else int(filler)
    more = op.emit("ConstantFill", slice_axis(op, value, axis, 0, 1), dtype=filled, value=number)
    return concat(op, [value, more.cast(value.dtype)], axis)


def gather_padded(op: Op, value: Value, axis: int, size: Value, indices: Value, filler: float = 0) -> Value:
    """Return the elements of an axis of ``size`` at indices; those at indices outside of it hold a constant."""
    is_inside = (indices >= 0) & (indices < size)
    return gather(op, append_element(op, value, axis, filler), axis, indices.select(size, is_inside))


def scatter_rows(op: Op, value: Value, dims: Sequence[Size], indices: Value, rows: Value) -> Value:
    """Write rows at indices [n] into a blob of the given dims that nothing else reads: ScatterAssign works in place.

    Caffe2 divides by the number of rows, so where that may be zero, there is one row more, which is cut off afterwards.
    """
    if known_size(dims[0]):
        return op.emit_in_place("ScatterAssign", value, indices, rows)
    longer = concat(op, [value, full(op, [1, *dims[1:]], value.dtype, 0)], 0)
    return slice_axis(op, op.emit_in_place("ScatterAssign", longer, indices, rows), 0, 0, dims[0])


def transpose(op: Op, value: Value, order: Sequence[int]) -> Value:
    """Return a value with its axes in another order; other types than numbers are converted to float and back.

    Strings, which Caffe2's Transpose does not take, are gathered by their places.
    """
    if list(order) == list(range(len(order))):
        return value
    if value.dtype == STRING:
        places = arange(op, op.emit("Size", value).reshape([1]))
        places = op.emit("Reshape", places, op.emit("Shape", value), outputs=2)[0]
        return gather(op, value.reshape([-1]), 0, transpose(op, places, order))
    if value.dtype in HELD_BY_FLOAT:
        return from_float(op, op.emit("Transpose", as_float(op, value), axes=list(order)), value.dtype)
    return op.emit("Transpose", value, axes=list(order))


def along_last(op: Op, value: Value, axis: int, rank: int, compute: Callable[[Value], Value]) -> Value:
    """Return what ``compute`` makes of the value with ``axis`` as its last, with the axes in their order again."""
    order = [i for i in range(rank) if i != axis] + [axis]
    return transpose(op, compute(transpose(op, value, order)), inverse(order))


def inverse(order: Sequence[int]) -> list[int]:
    """Return the order of axes that undoes another."""
    return [order.index(i) for i in range(len(order))]
