"""Windows that slide over an image, as gathers along one axis after the other: what Caffe2's pools cannot do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from caffe2_backend.emit.selection import append_element, gather, gather_padded
from caffe2_backend.emit.shapes import Size, arange, dims_of, known_size, product, reshape
from caffe2_backend.emit.window import Window
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import DOUBLE, FLOAT, INT64


@dataclass(frozen=True)
class Slide:
    """The windows along one axis.

    Attributes:
        axis: the axis, batch and channels included.
        size: its size.
        windows: the number of windows.
        indices: the elements of each window, [windows, taps]; those before and behind the image included.
        taps: the number of elements of a window.
        end: where the pads behind the image end.
        is_inside: whether all elements are certainly in the image.
    """

    axis: int
    size: Value
    windows: Value
    indices: Value
    taps: int
    end: Value
    is_inside: bool

    @property
    def in_image(self) -> Value:
        """Which elements of the windows are in the image."""
        return (self.indices >= 0) & (self.indices < self.size)


def slide(op: Op, window: Window, *, ceil: bool) -> list[Slide]:
    """Return the windows along each axis of the image at input 0.

    There are floor((size + pads - span) / stride) + 1; with ``ceil`` the quotient is rounded up, but no window begins
    behind the image and the pads before it.
    """
    sizes = dims_of(op, op.input(0))[2:]
    return [_slide_axis(op, window, axis, sizes[axis], ceil=ceil) for axis in range(window.rank)]


def _slide_axis(op: Op, window: Window, axis: int, size: Value, *, ceil: bool) -> Slide:
    low, high = window.pads[axis], window.pads[window.rank + axis]
    k, stride, dilation = window.kernel[axis], window.strides[axis], window.dilations[axis]
    free = size + low + high - (dilation * (k - 1) + 1)
    windows = free // stride + 1
    if ceil:
        windows = (free + (stride - 1)) // stride + 1
        is_behind = (windows - 1) * stride >= size + low
        windows = windows - is_behind.cast(INT64)
    starts = arange(op, windows) * stride - low
    indices = reshape(op, starts, [-1, 1]) + reshape(op, arange(op, k) * dilation, [1, -1])
    is_inside = known_size(low) == known_size(high) == 0 and not ceil
    return Slide(axis + 2, size, windows, indices, k, size + high, is_inside)


def _spread(op: Op, image: Value, along: Slide, filler: float) -> Value:
    """Return the elements of the windows, [..., windows, taps, ...]; those outside of the image hold ``filler``."""
    if along.is_inside:
        return gather(op, image, along.axis, along.indices)
    return gather_padded(op, image, along.axis, along.size, along.indices, filler)


def max_of_windows(op: Op, image: Value, slides: Sequence[Slide]) -> Value:
    """Return the maximum of each window."""
    for along in slides:
        spread = _spread(op, image, along, _lowest(image))
        image = op.emit("ReduceMax", spread, axes=[along.axis + 1], keepdims=0)
    return image


def sum_of_windows(op: Op, image: Value, slides: Sequence[Slide]) -> Value:
    """Return the sum of each window."""
    for along in slides:
        image = op.emit("ReduceSum", _spread(op, image, along, 0), axes=[along.axis + 1], keepdims=0)
    return image


def mean_of_windows(op: Op, image: Value, slides: Sequence[Slide], *, include_pads: bool) -> Value:
    """Return the mean of the elements of each window that are in the image, or in the pads too."""
    made = sum_of_windows(op, image, slides)
    for along in slides:
        counted = along.indices < along.end if include_pads else along.in_image
        number = counted.cast(INT64).sum(1).cast(image.dtype)
        made = made / reshape(op, number, [-1, *[1] * (slides[-1].axis - along.axis)])
    return made


def max_with_indices(op: Op, slides: Sequence[Slide], *, column_major: bool) -> tuple[Value, Value]:
    """Return the maximum of each window of input 0, and the index of its first such element in the flattened operand.

    The image is flattened to [n * c, size], and all windows to [windows, taps]. Indices count the last axis first, or,
    with ``column_major``, the first spatial axis.
    """
    image = op.input(0)
    dims = dims_of(op, image)
    lead, size = product(op, dims[:2]), product(op, dims[2:])
    taps = math.prod([along.taps for along in slides])
    flat = append_element(op, reshape(op, image, [lead, size]), 1, _lowest(image))
    indices = _joint_indices(op, slides, range(len(slides)), taps)
    in_image = _joint_mask(op, slides, taps)
    spread = gather(op, flat, 1, indices.select(size, in_image))
    windows = product(op, [along.windows for along in slides])
    best = op.emit("ArgMax", spread, axis=2, keepdims=0)
    table = _joint_indices(op, slides, reversed(range(len(slides))), taps) if column_major else indices
    chosen = gather(op, table.reshape([-1]), 0, best + arange(op, windows) * taps)
    found = chosen + reshape(op, arange(op, lead), [-1, 1]) * size
    shape: list[Size] = [*dims[:2], *(along.windows for along in slides)]
    values = op.emit("ReduceMax", spread, axes=[2], keepdims=0)
    return reshape(op, values, shape), reshape(op, found, shape)


def _aligned(op: Op, value: Value, position: int, slides: Sequence[Slide]) -> Value:
    """Return what is [windows, taps] of one axis as [windows of each axis, taps of each axis], 1 for the other axes."""
    n = len(slides)
    windows = [-1 if i == position else 1 for i in range(n)]
    return reshape(op, value, [*windows, *[slides[i].taps if i == position else 1 for i in range(n)]])


def _joint_indices(op: Op, slides: Sequence[Slide], order: Iterable[int], taps: int) -> Value:
    """Return the flat indices of the elements of all windows, [windows, taps]; the last of ``order`` varies first."""
    flat: Value | None = None
    for position in order:
        along = slides[position]
        own = _aligned(op, along.indices, position, slides)
        flat = own if flat is None else flat * along.size + own
    assert flat is not None
    return reshape(op, flat, [-1, taps])


def _joint_mask(op: Op, slides: Sequence[Slide], taps: int) -> Value:
    aligned = [_aligned(op, along.in_image, position, slides) for position, along in enumerate(slides)]
    return reshape(op, reduce(lambda a, b: a & b, aligned), [-1, taps])


def _lowest(value: Value) -> float:
    """Return the least number of a type; of float the least finite one, which Caffe2's ReduceMax starts from."""
    if value.dtype in (FLOAT, DOUBLE):
        return float(np.finfo(np.float32).min) if value.dtype == FLOAT else -np.inf
    return int(np.iinfo(value.dtype.numpy()).min)
