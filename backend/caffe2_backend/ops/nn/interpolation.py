"""Interpolation along one axis: where the elements of a result are in the operand, and which elements count there.

A coordinate is the position, in elements of the operand, of each of the n elements of the result: float [n]. The taps
of a coordinate are the elements around it, each with a weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from caffe2_backend.emit.selection import concat
from caffe2_backend.emit.shapes import Size, arange, reshape
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import FLOAT, INT64


@dataclass(frozen=True)
class Axis:
    """An axis that is resized: its sizes (int64), the scale (float), and the start and end of the region (float).

    The region of tf_crop_and_resize is in fractions of the axis. ``is_kept``: the sizes are equal, whatever they are.
    """

    index: int
    before: Value
    after: Value
    scale: Value
    region: tuple[Value, Value] | None = None
    is_kept: bool = False

    @property
    def is_unchanged(self) -> bool:
        """Whether it is certain that size and scale stay."""
        if self.is_kept:
            return True
        before, after, scale = self.before.array, self.after.array, self.scale.array
        return before is not None and after is not None and scale is not None and bool(before == after) and scale == 1


@dataclass(frozen=True)
class Taps:
    """The elements that count at each coordinate, and their weights: [n, count] each."""

    indices: Value
    weights: Value
    count: Size


# Coordinates, by the formulas of ONNX's Resize


def _steps(op: Op, axis: Axis) -> Value:
    return arange(op, axis.after).cast(FLOAT)


def _half_pixel(op: Op, axis: Axis) -> Value:
    return (_steps(op, axis) + 0.5) / axis.scale - 0.5


def _half_pixel_symmetric(op: Op, axis: Axis) -> Value:
    size = axis.before.cast(FLOAT)
    adjustment = axis.after.cast(FLOAT) / (axis.scale * size)
    return size / 2.0 * (1.0 - adjustment) + _half_pixel(op, axis)


def _pytorch_half_pixel(op: Op, axis: Axis) -> Value:
    return _half_pixel(op, axis) * (axis.after > 1).cast(FLOAT)


def _align_corners(op: Op, axis: Axis) -> Value:
    return _steps(op, axis) * (axis.before - 1).cast(FLOAT) / (axis.after - 1).maximum(1).cast(FLOAT)


def _crop_and_resize(op: Op, axis: Axis) -> Value:
    assert axis.region is not None
    start, end = axis.region
    last = (axis.before - 1).cast(FLOAT)
    inside = start * last + _steps(op, axis) * (end - start) * last / (axis.after - 1).maximum(1).cast(FLOAT)
    return inside.select((start + end) * 0.5 * last, axis.after > 1)


COORDINATES: Final[dict[str, Callable[[Op, Axis], Value]]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": lambda op, axis: _steps(op, axis) / axis.scale,
    "tf_half_pixel_for_nn": lambda op, axis: (_steps(op, axis) + 0.5) / axis.scale,
    "tf_crop_and_resize": _crop_and_resize,
}


# The nearest element: whether a fraction is rounded up

ROUNDED_UP: Final[dict[str, Callable[[Value], Value]]] = {
    "ceil": lambda fraction: fraction > 0,
    "round_prefer_floor": lambda fraction: fraction > 0.5,
    "round_prefer_ceil": lambda fraction: fraction >= 0.5,
}


def nearest_indices(axis: Axis, x: Value, rounding: str) -> Value:
    """Return the index of the element nearest to each coordinate, int64 [n]."""
    low = x.floor()
    fraction = x - low
    whole = low if rounding == "floor" else low + ROUNDED_UP[rounding](fraction).cast(FLOAT)
    return _clamped(whole.cast(INT64), axis)


def _clamped(indices: Value, axis: Axis) -> Value:
    return indices.maximum(0).minimum(axis.before - 1)


# Weighted elements


def _around(op: Op, low: Value, first: int, count: int) -> Value:
    """Return the ``count`` indices [n, count] from ``first`` relative to the element at or below the coordinate."""
    return reshape(op, low.cast(INT64), [-1, 1]) + op.const([[first + i for i in range(count)]], INT64)


def linear_taps(op: Op, axis: Axis, x: Value) -> Taps:
    """Return two elements around each coordinate; a coordinate outside of the image is moved to its edge."""
    inside = x.maximum(0).minimum((axis.before - 1).cast(FLOAT))
    low = inside.floor()
    fraction = reshape(op, inside - low, [-1, 1])
    indices = _around(op, low, 0, 2).minimum(axis.before - 1)
    return Taps(indices, concat(op, [1.0 - fraction, fraction], 1), 2)


@dataclass(frozen=True)
class Cubic:
    """The cubic convolution kernel: its parameter, and whether elements outside of the image are excluded.

    Keys, "Cubic convolution interpolation for digital image processing" (1981): piecewise polynomials of the distance.
    """

    a: float
    exclude: bool

    def near(self, x: Value) -> Value:
        """Return the weight at a distance of at most 1: (a + 2) x^3 - (a + 3) x^2 + 1."""
        return ((self.a + 2) * x - (self.a + 3)) * x * x + 1.0

    def far(self, x: Value) -> Value:
        """Return the weight at a distance between 1 and 2: a x^3 - 5 a x^2 + 8 a x - 4 a."""
        return ((self.a * x - 5 * self.a) * x + 8 * self.a) * x - 4 * self.a

    def weights(self, op: Op, fraction: Value) -> Value:
        """Return the weights [n, 4] of the elements at -1, 0, 1 and 2 from the one below; the fraction is [n, 1]."""
        near = self.near(fraction), self.near(1.0 - fraction)
        return concat(op, [self.far(fraction + 1.0), *near, self.far(2.0 - fraction)], 1)


def cubic_taps(op: Op, axis: Axis, x: Value, cubic: Cubic) -> Taps:
    """Return four elements around each coordinate."""
    low = x.floor()
    weights = cubic.weights(op, reshape(op, x - low, [-1, 1]))
    return _bounded(axis, _around(op, low, -1, 4), weights, 4, exclude=cubic.exclude)


def _bounded(axis: Axis, indices: Value, weights: Value, count: Size, *, exclude: bool) -> Taps:
    """Move taps outside of the image to its edge; or do not count them, so that the other weights sum to one."""
    if exclude:
        weights = weights * ((indices >= 0) & (indices < axis.before)).cast(FLOAT)
        weights = weights / weights.sum(1)
    return Taps(_clamped(indices, axis), weights, count)


def antialiased_taps(op: Op, axis: Axis, x: Value, cubic: Cubic, *, linear: bool) -> Taps:
    """Return the elements under the linear or cubic filter, which is stretched by 1 / scale where the image shrinks.

    The filter covers [-r, r] with r = 1 (linear) or 2 (cubic), divided by the scale: the first tap is floor(-r / scale)
    + 1 relative to the element below the coordinate, the last its mirror image. The weights sum to one.
    """
    scale = axis.scale.minimum(1)
    first = (scale.like(-1 if linear else -2) / scale).floor().cast(INT64) + 1
    count = 2 - first * 2
    offsets = reshape(op, arange(op, count) + first, [1, -1])
    low = reshape(op, x.floor(), [-1, 1])
    distance = ((offsets.cast(FLOAT) - (reshape(op, x, [-1, 1]) - low)) * scale).absolute()
    if linear:
        weights = (1.0 - distance).maximum(0)
    else:
        weights = cubic.near(distance).select(cubic.far(distance) * (distance < 2).cast(FLOAT), distance <= 1)
    weights = weights / weights.sum(1)
    return _bounded(axis, low.cast(INT64) + offsets, weights, count, exclude=cubic.exclude)
