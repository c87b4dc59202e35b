"""Images sampled at points between their elements: GridSample, AffineGrid, RoiAlign, DeformConv.

The taps of every axis are combined to the elements around each point in the image flattened to rows, which are gathered
and summed with their weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from caffe2_backend.emit.selection import append_element, concat, element, gather, slice_axis, transpose
from caffe2_backend.emit.shapes import Size, arange, as_value, dims_of, product, reshape
from caffe2_backend.emit.window import read_window
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_backend.ops.nn.interpolation import Cubic
from caffe2_frontend.interop.types import FLOAT, INT64

family = Family("sampling")


@dataclass(frozen=True)
class Border:
    """What points outside of an axis read: ``mode`` is zeros, border or reflection, between ``low`` and ``high``."""

    mode: str
    size: Value
    low: Value
    high: Value

    def point(self, x: Value) -> Value:
        """Return the coordinates, those outside moved to the border or reflected; with zeros they stay."""
        if self.mode == "zeros":
            return x
        is_outside = ~((x >= self.low) & (x <= self.high))
        return (self._clamped(x) if self.mode == "border" else self._reflected(x)).select(x, is_outside)

    def element(self, x: Value) -> tuple[Value, Value]:
        """Return the indices (int64, within the axis) of elements at integer coordinates, and which were inside."""
        indices = (self.point(x) if self.mode == "reflection" else x).cast(INT64)
        is_inside = (indices >= 0) & (indices < self.size)
        return indices.maximum(0).minimum(self.size - 1), is_inside

    def _clamped(self, x: Value) -> Value:
        return x.maximum(0).minimum((self.size - 1).cast(FLOAT))

    def _reflected(self, x: Value) -> Value:
        """Reflect at both ends as often as necessary.

        A point beyond an end by d = n * length + rest has crossed the axis n times more: it is ``rest`` from the end
        that it left if n is even, from the other end if n is odd.
        """
        length = self.high - self.low
        is_below = x < self.low
        beyond = (self.low - x).select(x - self.high, is_below)
        crossings = (beyond / length).floor()
        rest = beyond - crossings * length
        parity = crossings - (crossings * 0.5).floor() * 2.0
        from_low = parity + is_below.cast(FLOAT)  # 1: measured from the low end; 0 or 2: from the high end
        return (rest + self.low).select(self.high - rest, (from_low > 0.5) & (from_low < 1.5))


@dataclass(frozen=True)
class PointTaps:
    """The elements around each point, their weights (None: 1), and which are in the image: [points, count] each."""

    indices: Value
    weights: Value | None
    is_inside: Value
    count: int


def _axis_taps(op: Op, x: Value, border: Border, mode: str) -> PointTaps:
    """Return the elements around the coordinates ``x`` [points, 1] of one axis; mode is nearest, linear or cubic."""
    if mode == "nearest":
        indices, is_inside = border.element(border.point(x.round()))
        return PointTaps(indices, None, is_inside, 1)
    if mode == "linear":
        x = border.point(x)
    low = x.floor()
    fraction = x - low
    if mode == "linear":
        weights, first, count = concat(op, [1.0 - fraction, fraction], 1), 0, 2
    else:  # as in onnxruntime and PyTorch, each element around a point outside is moved, not the point
        weights, first, count = Cubic(-0.75, exclude=False).weights(op, fraction), -1, 4
    indices, is_inside = border.element(low + op.const([[first + i for i in range(count)]], FLOAT))
    return PointTaps(indices, weights, is_inside, count)


def _combined(op: Op, a: PointTaps, b: PointTaps, size: Value) -> PointTaps:
    """Return the taps of two axes together, of which the second has the given size and varies first."""
    count = a.count * b.count

    def cross(of_a: Value, of_b: Value) -> tuple[Value, Value]:
        return reshape(op, of_a, [-1, a.count, 1]), reshape(op, of_b, [-1, 1, b.count])

    weights = None
    if a.weights is not None and b.weights is not None:
        outer, inner = cross(a.weights, b.weights)
        weights = reshape(op, outer * inner, [-1, count])
    outer, inner = cross(a.indices, b.indices)
    indices = reshape(op, outer * size + inner, [-1, count])
    outer, inner = cross(a.is_inside, b.is_inside)
    return PointTaps(indices, weights, reshape(op, outer & inner, [-1, count]), count)


def _sample(op: Op, image: Value, dims: Sequence[Value], axes: Sequence[PointTaps], *, zeros: bool) -> Value:
    """Return an image [n, c, ...] of sizes ``dims`` sampled at points: [n, points, c].

    The taps are of the points of all images, one image after the other. With ``zeros`` elements outside are zero.
    """
    taps = axes[0]
    for axis, size in zip(axes[1:], dims[3:], strict=True):
        taps = _combined(op, taps, axis, size)
    rows = product(op, [dims[0], *dims[2:]])
    flat = reshape(op, transpose(op, image, [0, *range(2, len(dims)), 1]), [rows, dims[1]])
    first = reshape(op, arange(op, dims[0]), [-1, 1]) * product(op, dims[2:])
    indices = reshape(op, reshape(op, taps.indices, [dims[0], -1]) + first, [-1, taps.count])
    if zeros:
        indices = indices.select(rows, taps.is_inside)
        flat = append_element(op, flat, 0, 0)
    spread = gather(op, flat, 0, indices)
    if taps.weights is not None:
        spread = spread * reshape(op, taps.weights, [-1, taps.count, 1])
    return reshape(op, op.emit("ReduceSum", spread, axes=[1], keepdims=0), [dims[0], -1, dims[1]])


_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # opset 16's names


@family.converts("GridSample")
def grid_sample(op: Op) -> Value:
    """``GridSample(X, grid; mode="linear", padding_mode="zeros", align_corners=0) -> Y``: Gather, Mul and ReduceSum.

    The grid is [n, ..., r], coordinates in [-1, 1] of which the first is along the last axis.
    """
    mode = op.args.text("mode", default="linear")
    padding = op.args.text("padding_mode", default="zeros")
    corners = op.args.flag("align_corners", default=False)
    mode = _MODES.get(mode, mode)
    if mode not in ("nearest", "linear", "cubic"):
        op.unsupported(f"mode must be nearest, linear or cubic, not {mode!r}", code="invalid-argument")
    if padding not in ("zeros", "border", "reflection"):
        reason = f"padding_mode must be zeros, border or reflection, not {padding!r}"
        op.unsupported(reason, code="invalid-argument")
    x, grid = op.require(op.input(0), FLOAT), op.require(op.input(1), FLOAT)
    dims, grid_dims = dims_of(op, x), dims_of(op, grid, op.rank(x))
    rank = len(dims) - 2
    points = grid.reshape([-1, rank])
    axes = []
    for i, size in enumerate(dims[2:]):
        length = size.cast(FLOAT)
        own = slice_axis(op, points, 1, rank - 1 - i, rank - i)
        at = (own + 1.0) / 2.0 * (length - 1.0) if corners else ((own + 1.0) * length - 1.0) / 2.0
        half = 0.0 if corners else 0.5
        border = Border(padding, size, op.const(-half, FLOAT), length - 1.0 + half)
        axes.append(_axis_taps(op, at, border, mode))
    sampled = _sample(op, x, dims, axes, zeros=padding == "zeros")
    return reshape(op, transpose(op, sampled, [0, 2, 1]), [*dims[:2], *grid_dims[1:-1]])


@family.converts("AffineGrid")
def affine_grid(op: Op) -> Value:
    """``AffineGrid(theta, size; align_corners=0) -> grid``: BatchMatMul of the coordinates with theta [n, r, r + 1].

    The coordinates of each point are those along the r axes, the last axis first, and 1.
    """
    corners = op.args.flag("align_corners", default=False)
    theta = op.require(op.input(0), FLOAT)
    rank = op.list_length(theta, 1)
    if rank is None:
        op.needs_shape("the sizes of theta are unknown")
    if not rank:
        op.unsupported("theta must have at least one row", code="invalid-operands")
    sizes = [element(op, op.input(1), i + 2).cast(INT64) for i in range(rank)]
    along = []
    for i, size in enumerate(sizes):
        length, step = size.cast(FLOAT), arange(op, size).cast(FLOAT)
        own = step * 2.0 / (length - 1.0).maximum(1.0) - 1.0 if corners else (step * 2.0 + 1.0) / length - 1.0
        along.append(_on_axis(op, own, i, rank))
    zeros = reduce(lambda a, b: a + b, [own * 0.0 for own in along])  # of the shape of the whole grid
    columns = [reshape(op, own + zeros, [-1, 1]) for own in reversed(along)] + [reshape(op, zeros + 1.0, [-1, 1])]
    grid = op.emit("BatchMatMul", concat(op, columns, 1), theta, trans_b=1, broadcast=1)
    return reshape(op, grid, [dims_of(op, theta)[0], *sizes, rank])


@family.converts("RoiAlign")
def roi_align(op: Op) -> Value:
    """``RoiAlign(X, rois, batch_indices; mode="avg", output_height=1, ...) -> Y``: RoIAlign, of means only.

    Caffe2's regions [k, 5] have the index of the image as their first column.
    """
    mode = op.args.choice("coordinate_transformation_mode", "half_pixel", "output_half_pixel")
    if op.args.text("mode", default="avg") != "avg":
        op.unsupported("mode must be 'avg': Caffe2's RoIAlign computes no maximum")
    height, width = op.args.integer("output_height", default=1), op.args.integer("output_width", default=1)
    ratio, scale = op.args.integer("sampling_ratio", default=0), op.args.number("spatial_scale", default=1.0)
    x, regions = op.require(op.input(0), FLOAT), op.require(op.input(1), FLOAT)
    images = op.emit("Cast", op.input(2).reshape([-1, 1]), to=FLOAT)
    return op.emit(
        "RoIAlign", x, concat(op, [images, regions], 1), order="NCHW", spatial_scale=scale,
        pooled_h=height, pooled_w=width, sampling_ratio=ratio, aligned=int(mode == "half_pixel"),
    )  # fmt: skip


@family.converts("MaxRoiPool")
def max_roi_pool(op: Op) -> Value:
    """``MaxRoiPool(X, rois; pooled_shape, spatial_scale=1) -> Y``: RoIPool, whose regions [k, 5] are ONNX's."""
    height, width = op.args.integers("pooled_shape")
    scale = op.args.number("spatial_scale", default=1.0)
    x, regions = op.require(op.input(0), FLOAT), op.require(op.input(1), FLOAT)
    return op.emit("RoIPool", x, regions, order="NCHW", pooled_h=height, pooled_w=width, spatial_scale=scale, is_test=1)


@family.converts("DeformConv")
def deform_conv(op: Op) -> Value:
    """``DeformConv(X, W, offset, B=None, mask=None; group=1, offset_group=1, ...) -> Y``: sampling and BatchMatMul.

    The image is sampled where the elements of the kernel are, moved by the offsets, and the samples, times the mask,
    are multiplied with the kernel as a matrix.
    """
    operands = [op.require(op.input(i), FLOAT) if op.has_input(i) else None for i in range(op.input_count)]
    x, w, offset, bias, mask = [*operands, None, None, None][:5]
    if x is None or w is None or offset is None:
        op.unsupported("DeformConv needs X, W and offset", code="missing-input")
    kernel = op.static_shape(w)
    if kernel is None:
        op.needs_shape("the sizes of the kernel are unknown")
    window = read_window(op, x, op.args.integers("kernel_shape", default=()) or kernel[2:])
    group, shared = op.args.integer("group", default=1), op.args.integer("offset_group", default=1)
    dims, outer = dims_of(op, x, len(kernel)), dims_of(op, offset, len(kernel))[2:]
    channels, taps, rank = kernel[1] * group, math.prod(window.kernel), window.rank
    # each of the ``shared`` groups of channels is an image with its own offsets
    images = product(op, [dims[0], shared])
    image = reshape(op, x, [-1, channels // shared, *dims[2:]])
    offsets = reshape(op, offset, [images, taps, rank, *outer])
    axes = []
    for i in range(rank):
        own = reshape(op, slice_axis(op, offsets, 2, i, i + 1), [images, *window.kernel, *outer])
        tap = _on_axis(op, op.const([k * window.dilations[i] for k in range(window.kernel[i])], INT64), i, 2 * rank)
        start = _on_axis(op, arange(op, outer[i]) * window.strides[i] - window.pads[i], rank + i, 2 * rank)
        at = reshape(op, own + (tap + start).cast(FLOAT), [-1, 1])
        size = dims[i + 2]
        axes.append(_axis_taps(op, at, Border("zeros", size, op.const(0, FLOAT), size.cast(FLOAT)), "linear"))
    image_dims = [images, as_value(op, channels // shared), *dims[2:]]
    sampled = transpose(op, _sample(op, image, image_dims, axes, zeros=True), [0, 2, 1])
    if mask is not None:
        sampled = sampled * reshape(op, mask, [images, 1, -1])
    columns = reshape(op, sampled, [dims[0], group, channels // group * taps, -1])
    matrix = w.reshape([group, kernel[0] // group, -1])
    y = reshape(op, op.emit("BatchMatMul", matrix, columns, broadcast=1), [dims[0], kernel[0], *outer])
    return y if bias is None else y + bias.reshape([-1, *[1] * rank])


def _on_axis(op: Op, values: Value, axis: int, rank: int) -> Value:
    """Return a list along one of ``rank`` axes, the others of size 1."""
    shape: list[Size] = [-1 if i == axis else 1 for i in range(rank)]
    return reshape(op, values, shape)
