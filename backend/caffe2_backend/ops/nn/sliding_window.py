"""Windows that run over an image, as gathers along one axis after the other: what Caffe2's pools lack."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from caffe2_backend.emit.shapes import Part, dim_parts, extended, product, reshaped
from caffe2_backend.emit.value import Number, as_part, count, gathered, known, steps
from caffe2_backend.emit.window import Window
from caffe2_backend.lowering.op import DOUBLE, FLOAT, INT64, Op


@dataclass(frozen=True)
class Reach:
    """Where the windows of one axis lie.

    Attributes:
        axis: the axis, counted with batch and channels.
        size: how long it is.
        windows: how many windows there are.
        places: the entries of each, [windows, each], also those before and behind the image.
        each: how many entries a window has.
        end: where the pads behind the image end.
        inside: whether it is certain that all entries lie in the image.
    """

    axis: int
    size: Number
    windows: Number
    places: Number
    each: int
    end: Number
    inside: bool


def reaches(op: Op, window: Window, *, ceil: bool) -> list[Reach]:
    """The windows of each axis; with ``ceil`` also one that begins in the image or its first pads and runs over."""
    parts = dim_parts(op, 0)
    return [_reach(op, window, axis, count(op, parts[axis + 2]), ceil=ceil) for axis in range(window.rank)]


def _reach(op: Op, window: Window, axis: int, size: Number, *, ceil: bool) -> Reach:
    low, high = window.pads[axis], window.pads[window.rank + axis]
    k, stride, dilation = window.kernel[axis], window.strides[axis], window.dilations[axis]
    free = size + low + high - (dilation * (k - 1) + 1)
    windows = free // stride + 1
    if ceil:
        windows = (free + (stride - 1)) // stride + 1
        behind = (windows - 1) * stride >= size + low
        windows = windows - behind.cast(INT64)
    starts = steps(op, windows) * stride - low
    places = starts.reshape(-1, 1) + known(op, [[i * dilation for i in range(k)]])
    inside = isinstance(low, int) and isinstance(high, int) and low <= 0 and high <= 0 and not ceil
    return Reach(axis + 2, size, windows, places, k, size + high, inside)


def _spread(op: Op, blob: str, reach: Reach, value: float) -> str:
    """The entries of the windows, [.., windows, each, ..]; those outside of the image have a value of their own."""
    if reach.inside:
        return gathered(op, blob, reach.axis, reach.places)
    valid = (reach.places >= 0) & (reach.places < reach.size)
    places = reach.places.chosen(reach.size, valid)
    return gathered(op, extended(op, blob, op.dtype(), reach.axis, value), reach.axis, places)


def greatest(op: Op, blob: str, axes: list[Reach]) -> str:
    """The greatest entry of each window."""
    for reach in axes:
        spread = _spread(op, blob, reach, _lowest(op))
        blob = op.emit("ReduceMax", spread, axes=[reach.axis + 1], keepdims=0)
    return blob


def totals(op: Op, blob: str, axes: list[Reach]) -> str:
    """The sum of each window."""
    for reach in axes:
        blob = op.emit("ReduceSum", _spread(op, blob, reach, 0), axes=[reach.axis + 1], keepdims=0)
    return blob


def averages(op: Op, blob: str, axes: list[Reach], *, include: bool) -> str:
    """The mean of each window's entries in the image, or, with ``include``, of those in the pads too."""
    made = totals(op, blob, axes)
    for reach in axes:
        counted = reach.places < reach.end if include else (reach.places >= 0) & (reach.places < reach.size)
        number = counted.cast(INT64).summed(1).cast(op.dtype())
        made = op.emit("Div", made, number.reshape(-1, *[1] * (axes[-1].axis - reach.axis)).blob)
    return made


def greatest_with_places(op: Op, axes: list[Reach], *, by_column: bool) -> tuple[str, str]:
    """The greatest entry of each window, and where in the whole operand the first such lies.

    Places are counted through the last axis first, or, ``by_column``, through the last axis but one.
    """
    parts = dim_parts(op, 0)
    lead, size = product(op, parts[:2]), product(op, parts[2:])
    each = int(np.prod([reach.each for reach in axes]))
    flat = extended(op, reshaped(op, op.input(0), [lead, size]), op.dtype(), 1, _lowest(op))
    places = _joint(axes, range(len(axes)), each)
    valid = _joint_valid(axes, each)
    whole = count(op, size)
    spread = gathered(op, flat, 1, places.chosen(whole, valid))
    rows = count(op, product(op, [as_part(reach.windows) for reach in axes]))
    best = Number(op, op.emit("ArgMax", spread, axis=2, keepdims=0), INT64)
    table = _joint(axes, reversed(range(len(axes))), each) if by_column else places
    chosen = gathered(op, table.reshape(-1).blob, 0, best + steps(op, rows) * each)
    found = Number(op, chosen, INT64) + steps(op, count(op, lead)).reshape(-1, 1) * whole
    shape: list[Part] = [*parts[:2], *(as_part(reach.windows) for reach in axes)]
    values = op.emit("ReduceMax", spread, axes=[2], keepdims=0)
    return reshaped(op, values, shape), reshaped(op, found.blob, shape)


def _aligned(number: Number, position: int, axes: list[Reach]) -> Number:
    """What is [windows, each] of one axis as one dim for the windows of each axis and one for their entries."""
    n = len(axes)
    windows: list[Part] = [-1 if i == position else 1 for i in range(n)]
    return number.reshape(*windows, *[axes[i].each if i == position else 1 for i in range(n)])


def _joint(axes: list[Reach], order: Iterable[int], each: int) -> Number:
    """The places of the entries of all axes' windows, [windows, each], counted through the last of ``order`` first."""
    places: Number | None = None
    for position in order:
        reach = axes[position]
        own = _aligned(reach.places, position, axes)
        places = own if places is None else places * reach.size + own
    assert places is not None
    return places.reshape(-1, each)


def _joint_valid(axes: list[Reach], each: int) -> Number:
    inside = ((reach.places >= 0) & (reach.places < reach.size) for reach in axes)
    aligned = [_aligned(valid, position, axes) for position, valid in enumerate(inside)]
    return reduce(lambda a, b: a & b, aligned).reshape(-1, each)


def _lowest(op: Op) -> float:
    dtype = op.dtype()
    if dtype in (FLOAT, DOUBLE):
        return float(np.finfo(np.float32).min) if dtype == FLOAT else -np.inf
    return int(np.iinfo(dtype.numpy()).min)
