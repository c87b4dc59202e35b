"""Images read at points between their entries: GridSample, AffineGrid, RoiAlign, DeformConv."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from caffe2_backend.emit.shapes import Part, concat, cut, dim_parts, extended, moved, product, reshaped
from caffe2_backend.emit.value import Number, as_part, beside, count, entry, gathered, known, steps
from caffe2_backend.emit.window import read_window
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import FLOAT, INT64, Op
from caffe2_backend.ops.nn.resize import Cubic

family = Family("sampling")


@dataclass(frozen=True)
class Border:
    """The ends of an axis, for points that lie outside: ``mode`` is zeros, border or reflection."""

    mode: str
    size: Number
    low: Number
    high: Number

    def point(self, x: Number) -> Number:
        """A point of the image in place of one that lies outside; with zeros every point stays."""
        if self.mode == "zeros":
            return x
        outside = ~((x >= self.low) & (x <= self.high))
        inner = self._clamped(x) if self.mode == "border" else self._reflected(x)
        return inner.chosen(x, outside)

    def entry(self, x: Number) -> tuple[Number, Number]:
        """Whole places, int64, and whether they lie in the image, each of those that do not with a place that does."""
        whole = self.point(x) if self.mode == "reflection" else x
        places = whole.cast(INT64)
        inside = (places >= 0) & (places < self.size)
        return places.at_least(0).at_most(self.size - 1), inside

    def _clamped(self, x: Number) -> Number:
        return x.at_least(0).at_most((self.size - 1).cast(FLOAT))

    def _reflected(self, x: Number) -> Number:
        """Back and forth between both ends as often as it takes."""
        length = self.high - self.low
        below = x < self.low
        over = (self.low - x).chosen(x - self.high, below)
        times = (over / length).floor()
        rest = over - times * length
        turns = times - (times * 0.5).floor() * 2.0 + below.cast(FLOAT)  # one: measured from the lower end
        return (rest + self.low).chosen(self.high - rest, (turns > 0.5) & (turns < 1.5))


@dataclass(frozen=True)
class Taps:
    """Of [points, each]: the entries that count at each point, their weights, and whether they lie in the image."""

    places: Number
    weights: Number | None
    inside: Number
    each: int


def taps(op: Op, x: Number, border: Border, mode: str) -> Taps:
    """The entries around the points ``x`` [points, 1] of one axis; mode is nearest, linear or cubic."""
    if mode == "nearest":
        return Taps(*_split_entry(border, border.point(x.rounded()), None), 1)
    if mode == "linear":
        x = border.point(x)
    low = x.floor()
    rest = x - low
    if mode == "linear":
        weights, first = [1.0 - rest, rest], 0
    else:  # as onnxruntime and PyTorch: of a point outside each entry around it is moved, not the point
        cubic, first = Cubic(-0.75, exclude=False), -1
        weights = [cubic.far(rest + 1.0), cubic.near(rest), cubic.near(1.0 - rest), cubic.far(2.0 - rest)]
    around = low + known(op, [[first + i for i in range(len(weights))]], FLOAT)
    return Taps(*_split_entry(border, around, beside(op, weights, 1)), len(weights))


def _split_entry(border: Border, x: Number, weights: Number | None) -> tuple[Number, Number | None, Number]:
    places, inside = border.entry(x)
    return places, weights, inside


def _crossed(a: Taps, b: Taps, size: Number) -> Taps:
    """The entries of two axes, counted through the second, of ``size``."""

    def outer(number: Number) -> Number:
        return number.reshape(-1, a.each, 1)

    def inner(number: Number) -> Number:
        return number.reshape(-1, 1, b.each)

    each = a.each * b.each
    weights = None
    if a.weights is not None and b.weights is not None:
        weights = (outer(a.weights) * inner(b.weights)).reshape(-1, each)
    places = (outer(a.places) * size + inner(b.places)).reshape(-1, each)
    return Taps(places, weights, (outer(a.inside) & inner(b.inside)).reshape(-1, each), each)


def sampled(op: Op, image: str, parts: Sequence[Part], axes: Sequence[Taps], *, zeros: bool) -> str:
    """An image [n, c, ...] of dims ``parts`` at points, as many of each n and one n after the other: [n, points, c].

    With ``zeros`` entries outside of the image are zero.
    """
    sizes = [count(op, part) for part in parts[2:]]
    all_axes = axes[0]
    for axis, size in zip(axes[1:], sizes[1:], strict=True):
        all_axes = _crossed(all_axes, axis, size)
    rows, batch = product(op, [parts[0], *parts[2:]]), count(op, parts[0])
    flat = reshaped(op, moved(op, image, [0, *range(2, len(parts)), 1]), [rows, parts[1]])
    first = steps(op, batch).reshape(-1, 1) * count(op, product(op, parts[2:]))
    places = (all_axes.places.reshape(parts[0], -1) + first).reshape(-1, all_axes.each)
    if zeros:
        places = places.chosen(count(op, rows), all_axes.inside)
        flat = extended(op, flat, FLOAT, 0, 0)
    spread = gathered(op, flat, 0, places)
    if all_axes.weights is not None:
        spread = op.emit("Mul", spread, all_axes.weights.reshape(-1, all_axes.each, 1).blob)
    points = op.emit("ReduceSum", spread, axes=[1], keepdims=0)
    return reshaped(op, points, [parts[0], -1, parts[1]])


_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@family.converts("GridSample")
def grid_sample(op: Op) -> str:
    mode, padding = op.text("mode", "linear"), op.text("padding_mode", "zeros")
    corners = bool(op.integer("align_corners", 0))
    mode = _MODES.get(mode, mode)
    if mode not in ("nearest", "linear", "cubic") or padding not in ("zeros", "border", "reflection"):
        op.unsupported(f"mode {mode!r} with padding_mode {padding!r}", code="invalid-argument")
    op.require(0, FLOAT)
    op.require(1, FLOAT)
    parts, grid = dim_parts(op, 0), dim_parts(op, 1)
    rank = len(parts) - 2
    points = op.reshape(op.input(1), [-1, rank])
    axes = []
    for i, part in enumerate(parts[2:]):
        size = count(op, part)
        length = size.cast(FLOAT)
        own = Number(op, cut(op, points, 1, rank - 1 - i, rank - i), FLOAT)
        x = (own + 1.0) / 2.0 * (length - 1.0) if corners else ((own + 1.0) * length - 1.0) / 2.0
        shift = 0.0 if corners else 0.5
        border = Border(padding, size, known(op, -shift, FLOAT), length - 1.0 + shift)
        axes.append(taps(op, x, border, mode))
    made = sampled(op, op.input(0), parts, axes, zeros=padding == "zeros")
    return reshaped(op, moved(op, made, [0, 2, 1]), [*parts[:2], *grid[1:-1]])


@family.converts("AffineGrid")
def affine_grid(op: Op) -> str:
    """Theta [n, r, r + 1], times the places of r axes, the last axis first, and one."""
    corners = bool(op.integer("align_corners", 0))
    op.require(0, FLOAT)
    rank = op.dim(1)
    if rank is None:
        op.unsupported("theta of unknown size", code="needs-shape")
    sizes = [entry(op, 1, i + 2, INT64) for i in range(rank)]
    along = []
    for i, size in enumerate(sizes):
        length, step = size.cast(FLOAT), steps(op, size).cast(FLOAT)
        own = step * 2.0 / (length - 1.0).at_least(1.0) - 1.0 if corners else (step * 2.0 + 1.0) / length - 1.0
        along.append(own.reshape(*[-1 if k == i else 1 for k in range(rank)]))
    nothing = reduce(lambda a, b: a + b, [own * 0.0 for own in along])
    columns = [(own + nothing).reshape(-1, 1) for own in reversed(along)] + [(nothing + 1.0).reshape(-1, 1)]
    places = beside(op, columns, 1)
    made = op.emit("BatchMatMul", places.blob, op.input(0), trans_b=1, broadcast=1)
    return reshaped(op, made, [dim_parts(op, 0)[0], *map(as_part, sizes), rank])


@family.converts("RoiAlign")
def roi_align(op: Op) -> str:
    """Caffe2's own, of means; its regions have the image's number in front."""
    place = op.text("coordinate_transformation_mode", "half_pixel")
    if op.text("mode", "avg") != "avg":
        op.unsupported("the greatest of the entries of a region")
    height, width = op.integer("output_height", 1), op.integer("output_width", 1)
    ratio, scale = op.integer("sampling_ratio", 0), op.number("spatial_scale", 1.0)
    op.require(0, FLOAT)
    op.require(1, FLOAT)
    numbers = op.cast(op.reshape(op.input(2), [-1, 1]), FLOAT)
    return op.emit(
        "RoIAlign", op.input(0), concat(op, [numbers, op.input(1)], 1), order="NCHW", spatial_scale=scale,
        pooled_h=height, pooled_w=width, sampling_ratio=ratio, aligned=int(place == "half_pixel"),
    )  # fmt: skip


@family.converts("DeformConv")
def deform_conv(op: Op) -> str:
    """The image is read where the kernel's entries lie, moved by the offsets; then it is a matrix product."""
    kernel = op.dims(1)
    if kernel is None:
        op.unsupported("a kernel of unknown size", code="needs-shape")
    window = read_window(op, op.integers("kernel_shape") or list(kernel[2:]))
    group, shared = op.integer("group", 1), op.integer("offset_group", 1)
    for index in range(op.input_count):
        if op.has_input(index):
            op.require(index, FLOAT)
    parts, outer = dim_parts(op, 0), dim_parts(op, 2)[2:]
    channels, each, rank = kernel[1] * group, math.prod(window.kernel), window.rank
    image = reshaped(op, op.input(0), [-1, channels // shared, *parts[2:]])
    images: list[Part] = [product(op, [parts[0], shared]), channels // shared, *parts[2:]]
    offsets = reshaped(op, op.input(2), [images[0], each, rank, *outer])
    axes = []
    for i in range(rank):
        size = count(op, parts[i + 2])
        own = reshaped(op, cut(op, offsets, 2, i, i + 1), [images[0], *window.kernel, *outer])
        inner = _along(known(op, [k * window.dilations[i] for k in range(window.kernel[i])]), i, 2 * rank)
        start = _along(steps(op, count(op, outer[i])) * window.strides[i] - window.pads[i], rank + i, 2 * rank)
        x = (Number(op, own, FLOAT) + (inner + start).cast(FLOAT)).reshape(-1, 1)
        end = size.cast(FLOAT)
        axes.append(taps(op, x, Border("zeros", size, known(op, 0, FLOAT), end), "linear"))
    made = moved(op, sampled(op, image, images, axes, zeros=True), [0, 2, 1])
    if op.has_input(4):
        made = op.emit("Mul", made, reshaped(op, op.input(4), [images[0], 1, -1]))
    columns = reshaped(op, made, [parts[0], group, channels // group * each, -1])
    matrix = op.reshape(op.input(1), [group, kernel[0] // group, -1])
    product_ = reshaped(op, op.emit("BatchMatMul", matrix, columns, broadcast=1), [parts[0], kernel[0], *outer])
    return op.emit("Add", product_, op.reshape(op.input(3), [-1, *[1] * rank])) if op.has_input(3) else product_


def _along(number: Number, axis: int, rank: int) -> Number:
    return number.reshape(*[-1 if i == axis else 1 for i in range(rank)])
