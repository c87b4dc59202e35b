"""Slice and Pad: pieces of axes, and axes made longer, by numbers that may be computed at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from caffe2_backend.emit.dynamic import integers, named_axes, span, spread
from caffe2_backend.emit.shapes import Part, concat, cut, dim_of, dim_parts, greater, places_along, taken
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import INT64, Op
from caffe2_backend.ops.tensor.shape import full

family = Family("slicing")

_END: Final = np.iinfo(np.int64).max // 2


def _known_axes(op: Op, index: int, count_from: int) -> list[int] | None:
    """The axes that an optional operand names, all up to the length of another where it is left out.

    None where they are computed at run time.
    """
    rank = op.rank()
    if op.has_input(index):
        known = op.known(index)
        return None if known is None else [op.axis(int(axis), rank) for axis in known.reshape(-1)]
    return list(range((op.dim(0, count_from) or 0) if count_from == 1 else rank))


def _per_axis(op: Op, axes: list[int] | None, index: int, values: str, defaults: str) -> list[str]:
    """Of a list of numbers, one for each named axis, that of every axis, int64 [1]."""
    if axes is None:
        rank = op.rank()
        values, count = spread(op, defaults, named_axes(op, index, rank), values), rank
    else:
        count = len(axes)
    return [cut(op, values, 0, i, i + 1) for i in range(count)]


@family.converts("Slice")
def slicing(op: Op) -> str:
    """Caffe2 cuts one axis at a time, and counts an end from the back with one more."""
    axes = _known_axes(op, 3, 1)
    starts, ends = op.known(1), op.known(2)
    steps = op.known(4) if op.has_input(4) else np.ones(len(axes or ()), np.int64)
    if axes is None or starts is None or ends is None or steps is None:
        return _sliced_at_run_time(op, axes, None if steps is None else steps.tolist())
    blob = op.input(0)
    for axis, start, end, step in zip(axes, starts.tolist(), ends.tolist(), steps.tolist(), strict=True):
        blob = _sliced(op, blob, axis, start, end, step)
    return blob


def _sliced(op: Op, blob: str, axis: int, start: int, end: int, step: int) -> str:
    dim = op.dim(axis)
    if dim is not None:
        places = range(*slice(start, None if step < 0 and end < -dim else end, step).indices(dim))
        if step == 1:
            first = min(max(start + dim if start < 0 else start, 0), dim)
            return blob if len(places) == dim else cut(op, blob, axis, first, first + len(places))
        return taken(op, blob, places, axis)
    if step != 1:
        return _strided(op, blob, axis, *(op.const([number], np.int64) for number in (start, end, step)))
    if start == 0 and end >= _END:
        return blob
    return cut(op, blob, axis, start - 1 if start < 0 else start, -1 if end >= _END else end - 1 if end < 0 else end)


def _sliced_at_run_time(op: Op, axes: list[int] | None, steps: list[int] | None) -> str:
    rank = op.rank()
    whole = op.emit("Shape", op.input(0))
    zeros, ones = op.const([0] * rank, np.int64), op.const([1] * rank, np.int64)
    starts = _per_axis(op, axes, 3, integers(op, 1), zeros)
    ends = _per_axis(op, axes, 3, integers(op, 2), whole)
    strides = _per_axis(op, axes, 3, integers(op, 4), ones) if op.has_input(4) else []
    blob = op.input(0)
    for i, axis in enumerate(range(rank) if axes is None else axes):
        if not strides or (axes is not None and steps is not None and steps[i] == 1):
            size = dim_of(op, op.input(0), axis)
            start, end = _place(op, starts[i], size), _place(op, ends[i], size)
            blob = span(op, blob, start, greater(op, start, end), axis)
        else:
            blob = _strided(op, blob, axis, starts[i], ends[i], strides[i])
    return blob


def _place(op: Op, place: str, size: str) -> str:
    """A place counted from the front, cut off at the axis's ends."""
    zero = op.const([0], np.int64)
    return greater(op, greater(op, _counted(op, place, size), zero), size, least=True)


def _counted(op: Op, place: str, size: str) -> str:
    below = op.cast(op.emit("LT", place, op.const([0], np.int64)), INT64)
    return op.emit("Add", place, op.emit("Mul", below, size))


def _strided(op: Op, blob: str, axis: int, start: str, end: str, step: str) -> str:
    """Every ``step``-th entry: with a step below zero the ends of the axis are -1 and the last."""
    zero, one = op.const([0], np.int64), op.const([1], np.int64)
    size = dim_of(op, op.input(0), axis)
    back = op.cast(op.emit("LT", step, zero), INT64)
    low, high = op.emit("Negative", back), op.emit("Sub", size, back)
    first, last = (greater(op, greater(op, _counted(op, place, size), low), high, least=True) for place in (start, end))
    sign = op.emit("Sub", one, op.emit("Add", back, back))
    way = op.emit("Sub", op.emit("Add", op.emit("Sub", last, first), step), sign)
    count = greater(op, op.emit("Div", way, step), zero)
    places = op.emit("Add", op.emit("Mul", places_along(op, count), step), first)
    return op.emit("Gather", blob, places, axis=axis)


@family.converts("Pad")
def pad(op: Op) -> str:
    mode = op.text("mode", "constant")
    if mode not in ("constant", *_SOURCES):
        op.unsupported(f"mode {mode!r}", code="invalid-argument")
    axes, pads = _known_axes(op, 3, 0), op.known(1)
    if axes is None or pads is None:
        return _padded_at_run_time(op, axes, mode)
    half = pads.size // 2
    blob, parts = op.input(0), dim_parts(op, 0)
    for axis, low, high in zip(axes, pads[:half].tolist(), pads[half:].tolist(), strict=True):
        size = parts[axis]
        if low == high == 0:
            continue
        if mode == "constant":
            blob = _filled(op, blob, parts, axis, low, high)
        elif isinstance(size, int) and min(low, high) >= 0:
            places = np.pad(np.arange(size), (low, high), mode=mode)  # type: ignore[call-overload] # one of three
            blob = taken(op, blob, places.tolist(), axis)
        else:
            sides = op.const([low], np.int64), op.const([high], np.int64)
            blob = _mirrored(op, blob, axis, *sides, _SOURCES[mode])
        parts[axis] = (
            size + low + high if isinstance(size, int) else op.emit("Add", size, op.const([low + high], np.int64))
        )
    return blob


def _filled(op: Op, blob: str, parts: list[Part], axis: int, low: int, high: int) -> str:
    if low < 0 or high < 0:
        blob = cut(op, blob, axis, max(-low, 0), min(high, 0) - 1)
    sides = [_block(op, parts, axis, max(count, 0)) for count in (low, high)]
    return concat(op, [side for side in (sides[0], blob, sides[1]) if side], axis)


def _block(op: Op, parts: Sequence[Part], axis: int, count: Part) -> str:
    return full(op, [*parts[:axis], count, *parts[axis + 1 :]], op.dtype(), _pad_value(op)) if count else ""


def _pad_value(op: Op) -> float | str:
    if not op.has_input(2):
        return 0
    known = op.known(2)
    return op.input(2) if known is None else known.item()


def _padded_at_run_time(op: Op, axes: list[int] | None, mode: str) -> str:
    """First what is cut off, where pads are below zero, then what is put before and behind."""
    rank = op.rank()
    pads = integers(op, 1)
    count = op.dim(0, 3) if op.has_input(3) else rank
    if count is None:
        op.unsupported("an unknown number of axes", code="needs-shape")
    zeros = op.const([0] * rank, np.int64)
    lows, highs = (_per_axis(op, axes, 3, cut(op, pads, 0, k * count, (k + 1) * count), zeros) for k in range(2))
    blob = op.input(0)
    for axis, low, high in zip(range(rank) if axes is None else axes, lows, highs, strict=True):
        if mode != "constant":
            blob = _mirrored(op, blob, axis, low, high, _SOURCES[mode])
            continue
        start, size, before, behind = _kept(op, blob, axis, low, high)
        blob = span(op, blob, start, op.emit("Add", start, size), axis)
        dims = [dim_of(op, blob, i) for i in range(rank)]
        sides = [_block(op, dims, axis, side) for side in (before, behind)]
        blob = concat(op, [sides[0], blob, sides[1]], axis)
    return blob


def _kept(op: Op, blob: str, axis: int, low: str, high: str) -> tuple[str, str, str, str]:
    """Where what is kept of an axis starts, its size, and what is added before and behind it."""
    zero = op.const([0], np.int64)
    start, end = (greater(op, op.emit("Negative", side), zero) for side in (low, high))
    size = op.emit("Sub", op.emit("Sub", dim_of(op, blob, axis), start), end)
    return start, greater(op, size, zero), greater(op, low, zero), greater(op, high, zero)


Source = Callable[[Op, str, str], str]


def _mirrored(op: Op, blob: str, axis: int, low: str, high: str, source: Source) -> str:
    """The axis read at places beyond its ends too, each of which has a source within it."""
    start, size, before, behind = _kept(op, blob, axis, low, high)
    length = op.emit("Add", op.emit("Add", size, before), behind)
    places = source(op, op.emit("Sub", places_along(op, length), before), size)
    return op.emit("Gather", blob, op.emit("Add", places, start), axis=axis)


def _nearest(op: Op, places: str, size: str) -> str:
    last = op.emit("Sub", size, op.const([1], np.int64))
    return _between(op, places, op.const([0], np.int64), last)


def _between(op: Op, places: str, low: str, high: str) -> str:
    """Where has no broadcasting: the bounds are added to zeros."""
    zeros = op.emit("Sub", places, places)
    return greater(op, greater(op, places, op.emit("Add", zeros, low)), op.emit("Add", zeros, high), least=True)


def _around(op: Op, places: str, size: str) -> str:
    """The remainder of a division by ``size``, at least zero."""
    rest = op.emit("Sub", places, op.emit("Mul", op.emit("Div", places, size), size))
    return _counted(op, rest, size)


def _reflected(op: Op, places: str, size: str) -> str:
    """There and back again: of period 2 (size - 1)."""
    one = op.const([1], np.int64)
    last = op.emit("Sub", size, one)
    turn = op.emit("Add", last, last)
    forth = _around(op, places, greater(op, turn, one))
    return greater(op, forth, op.emit("Sub", turn, forth), least=True)


_SOURCES: Final[dict[str, Source]] = {"edge": _nearest, "wrap": _around, "reflect": _reflected}
