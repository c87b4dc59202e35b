"""Slice and Pad, by numbers that are known or computed at run time.

Elements are gathered at indices where Caffe2's Slice does not do, and where pads repeat elements of the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from caffe2_backend.emit.broadcast import elementwise_max, elementwise_min
from caffe2_backend.emit.elements import distances_from_dim, elements_of
from caffe2_backend.emit.fill import full
from caffe2_backend.emit.masks import integer_list, non_negative_axes, scatter_over
from caffe2_backend.emit.selection import concat, gather, slice_axis
from caffe2_backend.emit.shapes import Size, arange, dim_of, dims_of
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import INT64

family = Family("slice_pad")

# Ends from here on mean the end of the axis; starts and ends up to its negative mean the start.
_END: Final = np.iinfo(np.int64).max // 2


def _known_axes(op: Op, index: int, default: int | None) -> list[int] | None:
    """Return the axes that an optional operand names, the first ``default`` ones where it is missing.

    None where they, or how many they are, are computed at run time.
    """
    operand = op.optional(index)
    if operand is None:
        return None if default is None else list(range(default))
    known = op.known(operand)
    rank = op.rank(op.input(0))
    return None if known is None else [op.axis(int(axis), rank) for axis in known.reshape(-1)]


def _per_axis(op: Op, axes: list[int] | None, index: int, values: Value, defaults: Value) -> list[Value]:
    """Return the elements of a list, int64 [1] each: one for each known axis, or one for every axis of the operand.

    A list whose axes are not given is one of the first axes.
    """
    count = op.rank(op.input(0)) if axes is None else len(axes)
    if axes is None:
        given = op.has_input(index)
        named = non_negative_axes(op, op.input(index), count) if given else arange(op, dim_of(op, values, 0))
        values = scatter_over(op, defaults, count, named, values)
    is_one = count == 1 and values.shape is not None and list(values.shape) == [1]
    return [values] if is_one else [slice_axis(op, values, 0, i, i + 1) for i in range(count)]


@family.converts("Slice")
def slice_(op: Op) -> Value:
    """``Slice(data, starts, ends, axes=None, steps=None) -> output``: Slice, or Gather where a step is not 1.

    Caffe2 counts a negative end from one behind the last element, and limits numbers to the size. An axis of unknown
    size that is too short for its end to be behind its start is refused at run time.
    """
    data = op.input(0)
    starts, ends = op.known_list(op.input(1)), op.known_list(op.input(2))
    lengths = {op.list_length(op.input(i)) for i in (1, 2, 3, 4) if op.has_input(i)} - {None}
    if len(lengths) > 1:
        op.unsupported(f"starts, ends, axes and steps must be of one length, not {lengths}", code="invalid-operands")
    axes = _known_axes(op, 3, next(iter(lengths), None))
    steps = op.known_list(op.input(4)) if op.has_input(4) else np.ones(len(axes or ()), np.int64)
    if axes is None or starts is None or ends is None or steps is None:
        return _slice_at_run_time(op, axes, None if steps is None else steps.tolist())
    y = data
    for axis, start, end, step in zip(axes, starts.tolist(), ends.tolist(), steps.tolist(), strict=True):
        y = _slice_known(op, y, axis, start, end, step)
    return y


def _slice_known(op: Op, value: Value, axis: int, start: int, end: int, step: int) -> Value:
    data = op.input(0)
    if not step:
        op.unsupported(f"the step along axis {axis} must not be 0", code="invalid-argument")
    dim = op.static_dim(data, axis)
    if dim is not None:
        chosen = range(*slice(start, None if step < 0 and end < -dim else end, step).indices(dim))
        if step == 1:
            first = min(max(start + dim if start < 0 else start, 0), dim)
            return value if len(chosen) == dim else slice_axis(op, value, axis, first, first + len(chosen))
        op.bounded(len(chosen))
        return gather(op, value, axis, op.const(list(chosen), INT64))
    start = 0 if start <= -_END else start
    return _slice_open(op, value, axis, start, end) if step == 1 else _stride_open(op, value, axis, start, end, step)


def _slice_open(op: Op, value: Value, axis: int, start: int, end: int) -> Value:
    """Slice between known numbers along an axis of unknown size."""
    if start == 0 and end >= _END:
        return value
    if end <= -_END or 0 <= end <= start or end <= start < 0:
        return slice_axis(op, value, axis, 0, 0)
    last = -1 if end >= _END else end - 1 if end < 0 else end
    if start < -1:  # all elements where there are fewer
        first = _position(op, axis, op.const([start], INT64))
        value = slice_axis(op, value, axis, first, -1 if end < 0 else end)
        return value if last == -1 or end >= 0 else slice_axis(op, value, axis, 0, last)
    return slice_axis(op, value, axis, -2 if start == -1 else start, last)


def _stride_open(op: Op, value: Value, axis: int, start: int, end: int, step: int) -> Value:
    """Return every ``step``-th element between known numbers along an axis of unknown size."""
    size = dim_of(op, op.input(0), axis)
    low, high = (op.const([0], INT64), size) if step > 0 else (op.const([-1], INT64), size - op.const([1], INT64))

    def position(index: int, *, is_limited: bool) -> Value:
        if abs(index) >= _END:
            return high if index > 0 else low
        number = op.const([index], INT64)
        if index < 0:
            return size + number if is_limited or index == -1 else elementwise_max(op, size + number, low)
        return elementwise_min(op, number, high) if is_limited and index else number

    first, last = position(start, is_limited=step < 0), position(end, is_limited=step > 0)
    if step >= -1:
        return gather(op, value, axis, op.emit("Range", first, last, op.const([step], INT64)))
    # Caffe2's Range omits the last number of a negative step that does not divide the distance.
    return gather(op, value, axis, -op.emit("Range", -first, -last, op.const([-step], INT64)))


def _slice_at_run_time(op: Op, axes: list[int] | None, steps: list[int] | None) -> Value:
    data = op.input(0)
    rank = op.rank(data)
    zeros, ones = op.const([0] * rank, INT64), op.const([1] * rank, INT64)
    starts = _bounds(op, axes, 1, zeros)
    ends = _bounds(op, axes, 2, op.emit("Shape", data) if axes is None else zeros)
    strides = _per_axis(op, axes, 3, _numbers(op, 4), ones) if op.has_input(4) else []
    y = data
    behind = [None] * rank if axes is None else distances_from_dim(op, 2, len(axes), axes)
    for i, axis in enumerate(range(rank) if axes is None else axes):
        start, distance = starts[i].integer, behind[i]
        if start is not None and distance is not None and distance <= 0 and steps is not None and steps[i] == 1:
            y = _slice_known(op, y, axis, start, distance or _END, 1)
        elif not strides or (axes is not None and steps is not None and steps[i] == 1):
            first, last = (_position(op, axis, index) for index in (starts[i], ends[i]))
            y = slice_axis(op, y, axis, first, last if first.integer == 0 else elementwise_max(op, first, last))
        else:
            y = _strided(op, y, axis, starts[i], ends[i], strides[i])
    return y


def _bounds(op: Op, axes: list[int] | None, index: int, defaults: Value) -> list[Value]:
    """Return the starts, or the ends, int64 [1] each: one for each known axis, or one for every axis of the operand."""
    found = None if axes is None else elements_of(op, index, len(axes))
    return _per_axis(op, axes, 3, _numbers(op, index), defaults) if found is None else found


def _position(op: Op, axis: int, index: Value) -> Value:
    """Return a start or end, int64 [1], counted from the front; Caffe2 limits it to the size."""
    if index.integer is not None and index.integer >= 0:
        return index
    size = dim_of(op, op.input(0), axis)
    position = size + index if index.integer is not None else _from_front(op, index, size)
    return elementwise_max(op, position, op.const([0], INT64))


def _numbers(op: Op, index: int) -> Value:
    known = op.known_list(op.input(index))
    return integer_list(op, op.input(index)) if known is None else op.const(known, INT64)


def _from_front(op: Op, index: Value, size: Value) -> Value:
    return index + (index < op.const([0], INT64)).cast(INT64) * size


def _strided(op: Op, value: Value, axis: int, start: Value, end: Value, step: Value) -> Value:
    """Return every ``step``-th element: start and end are limited to [0, size], for a negative step to [-1, size - 1].

    There are ceil((end - start) / step) elements: (end - start + step - sign(step)) / step, truncated.
    """
    zero, one = op.const([0], INT64), op.const([1], INT64)
    size = dim_of(op, op.input(0), axis)
    is_backward = (step < zero).cast(INT64)
    low, high = -is_backward, size - is_backward
    first, last = (
        elementwise_min(op, elementwise_max(op, _from_front(op, index, size), low), high) for index in (start, end)
    )
    sign = one - (is_backward + is_backward)
    count = elementwise_max(op, (last - first + step - sign).quotient(step), zero)
    return gather(op, value, axis, arange(op, count) * step + first)


@family.converts("Pad")
def pad(op: Op) -> Value:
    """``Pad(data, pads, constant_value=0, axes=None; mode="constant") -> output``: Concat with ConstantFill, or Gather.

    Negative pads crop the axis.
    """
    mode, data = op.args.text("mode", default="constant"), op.input(0)
    if mode not in ("constant", *_SOURCES):
        names = ", ".join(("constant", *_SOURCES))
        op.unsupported(f"mode must be one of {names}, not {mode!r}", code="invalid-argument")
    axes, pads = _known_axes(op, 3, op.rank(data)), op.known_list(op.input(1))
    if axes is None or pads is None:
        return _pad_at_run_time(op, axes, mode)
    if pads.size != 2 * len(axes):
        reason = f"pads must have {2 * len(axes)} elements, two for each axis, not {pads.size}"
        op.unsupported(reason, code="invalid-operands")
    y, dims = data, dims_of(op, data)
    for axis, (low, high) in zip(axes, pads.reshape(2, -1).T.tolist(), strict=True):
        y = _pad_known(op, y, dims, axis, low, high, mode)
        dims[axis] = dims[axis] + op.const([low + high], INT64)
    return y


def _pad_known(op: Op, value: Value, dims: Sequence[Value], axis: int, low: int, high: int, mode: str) -> Value:
    """Return a value with known pads of an axis; ``dims`` are those of the value."""
    size = dims[axis].integer
    if low == high == 0:
        return value
    if mode == "constant":
        return _pad_constant(op, value, dims, axis, low, high)
    if size == 0:
        op.unsupported(f"axis {axis} has no elements to pad with", code="invalid-operands")
    if min(low, high) < 0:
        return _pad_from_axis(op, value, axis, op.const([low], INT64), op.const([high], INT64), _SOURCES[mode])
    if size is None:
        return _pad_by(op, value, axis, low, high, _SOURCES[mode])
    op.bounded(size + low + high)
    indices = np.pad(np.arange(size), (low, high), mode=mode)  # type: ignore[call-overload] # one of three
    return gather(op, value, axis, op.const(indices, INT64))


def _pad_by(op: Op, value: Value, axis: int, low: int, high: int, source: Source) -> Value:
    """Return an axis of unknown size between known numbers of its elements, whose indices are computed at run time."""
    size = dim_of(op, value, axis)
    parts = [value]
    if low:
        before = op.const(np.arange(-op.bounded(low), 0), INT64)
        parts.insert(0, gather(op, value, axis, source(op, before, size)))
    if high:
        behind = op.const(np.arange(op.bounded(high)), INT64)
        parts.append(gather(op, value, axis, source(op, behind + size, size)))
    return concat(op, parts, axis)


def _pad_constant(op: Op, value: Value, dims: Sequence[Size], axis: int, low: int, high: int) -> Value:
    if low < 0 or high < 0:
        value = slice_axis(op, value, axis, max(-low, 0), min(high, 0) - 1)
    parts = [_block(op, dims, axis, low)] if low > 0 else []
    parts.append(value)
    if high > 0:
        parts.append(_block(op, dims, axis, high))
    return concat(op, parts, axis)


def _block(op: Op, dims: Sequence[Size], axis: int, count: Size) -> Value:
    """Return a constant tensor with ``count`` elements along an axis, and the sizes of the operand otherwise."""
    filler = op.optional(2)
    known = None if filler is None else op.known_number(filler)
    value = (0 if filler is None else filler) if known is None else known
    return full(op, [*dims[:axis], count, *dims[axis + 1 :]], op.dtype(op.input(0)), value)


def _pad_at_run_time(op: Op, axes: list[int] | None, mode: str) -> Value:
    """Crop where pads are negative, then add elements before and behind."""
    data = op.input(0)
    rank = op.rank(data)
    pads = integer_list(op, op.input(1))
    count = op.list_length(op.input(3)) if op.has_input(3) else rank
    if count is None:
        op.needs_shape("the number of axes is unknown")
    zeros = op.const([0] * rank, INT64)
    found = None if axes is None else elements_of(op, 1, 2 * count)
    if found is None:
        lists = [slice_axis(op, pads, 0, k * count, (k + 1) * count) for k in range(2)]
        found = [side for each in lists for side in _per_axis(op, axes, 3, each, zeros)]
    y = data
    half = len(found) // 2
    for axis, low, high in zip(range(rank) if axes is None else axes, found[:half], found[half:], strict=True):
        if low.integer is not None and high.integer is not None:
            y = _pad_known(op, y, [dim_of(op, y, i) for i in range(rank)], axis, low.integer, high.integer, mode)
            continue
        if mode != "constant":
            y = _pad_from_axis(op, y, axis, low, high, _SOURCES[mode])
            continue
        start, size, before, behind = _cropped(op, y, axis, low, high)
        y = slice_axis(op, y, axis, start, start + size)
        dims = [dim_of(op, y, i) for i in range(rank)]
        y = concat(op, [_block(op, dims, axis, before), y, _block(op, dims, axis, behind)], axis)
    return y


def _cropped(op: Op, value: Value, axis: int, low: Value, high: Value) -> tuple[Value, Value, Value, Value]:
    """Return where the kept part of an axis starts, its size, and the pads before and behind it; int64 [1] each."""
    zero = op.const([0], INT64)
    start, end = (elementwise_max(op, -side, zero) for side in (low, high))
    size = elementwise_max(op, dim_of(op, value, axis) - start - end, zero)
    return start, size, elementwise_max(op, low, zero), elementwise_max(op, high, zero)


# From indices [n] relative to the start of an axis and its size [1], the indices within it that they repeat.
Source = Callable[[Op, Value, Value], Value]


def _pad_from_axis(op: Op, value: Value, axis: int, low: Value, high: Value, source: Source) -> Value:
    """Return an axis gathered at indices that go beyond its ends, each replaced by its source within the axis."""
    start, size, before, behind = _cropped(op, value, axis, low, high)
    indices = source(op, arange(op, size + before + behind) - before, size)
    return gather(op, value, axis, indices + start)


def _edge(op: Op, indices: Value, size: Value) -> Value:
    """Return the nearest index, in [0, size - 1]. Where does not broadcast, so the bounds are added to zeros."""
    zeros = indices - indices
    limited = elementwise_max(op, indices, zeros + op.const([0], INT64))
    return elementwise_min(op, limited, zeros + (size - op.const([1], INT64)))


def _wrap(op: Op, indices: Value, size: Value) -> Value:
    """Return the index modulo the size."""
    return _from_front(op, indices - indices.quotient(size) * size, size)


def _reflect(op: Op, indices: Value, size: Value) -> Value:
    """Return the index reflected at both ends: a triangle wave of period 2 (size - 1)."""
    one = op.const([1], INT64)
    last = size - one
    period = last + last
    forth = _wrap(op, indices, elementwise_max(op, period, one))
    return elementwise_min(op, forth, period - forth)


_SOURCES: Final[dict[str, Source]] = {"edge": _edge, "wrap": _wrap, "reflect": _reflect}
