"""Gradients of poolings of regions of interest (RoIs) and of maxima whose indices are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, binary, div, mul, reshape_like, sub
from caffe2_frontend.emit.layout import require_nchw
from caffe2_frontend.emit.operand_checks import SINGLE, require_rank, takes
from caffe2_frontend.emit.shapes import (
    Size,
    cast,
    flatten,
    indices,
    product,
    reshape,
    size,
    size_vector,
    sizes,
    slice_axis,
    squeeze,
    unsqueeze,
    vector,
)
from caffe2_frontend.emit.windows.regions import Pooling, bilinear_corners, image_indices, read_pooling
from caffe2_frontend.interop.types import FLOAT, INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("region_gradient")

_IMAGE: Final = TensorInfo(FLOAT, (None,) * 4)
_INDICES: Final = TensorInfo(ir.DataType.INT32, (None,) * 4)
_ROIS: Final = TensorInfo(FLOAT, (None, None))


@family.converts("RoIAlignGradient", expects={0: _IMAGE, 1: _ROIS, 2: _IMAGE})
@takes(SINGLE, 0, 1, 2)
def roi_align_gradient(op: Op) -> Value:
    """RoIAlignGradient(X, RoIs, dY; pooled_h=1, pooled_w=1, spatial_scale=1.0, sampling_ratio=-1, aligned=0) -> dX.

    Caffe2 ignores the order and takes NCHW. The mean of a bin's samples weighs rows and columns independently, so that
    two products spread dY [R, C, pooled_h, pooled_w] over the columns and then over the rows of each image.
    """
    op.args.ignore("order")
    x, rois, dy = op.input(0), op.input(1), op.input(2)
    for value, rank, what in ((x, 4, "X"), (rois, 2, "RoIs"), (dy, 4, "the gradient")):
        require_rank(op, value, rank, what)
    how = read_pooling(op)
    images, boxes = image_indices(op, rois, 4), slice_axis(op, rois, 1, -4, np.iinfo(np.int64).max)
    n, c, h, w = (size(op, x, axis) for axis in range(4))
    rows = size(op, rois, 0)
    by_row, by_column = (
        _bin_weights(op, boxes, axis, bins, length, how)
        for axis, bins, length in ((1, how.height, h), (0, how.width, w))
    )
    # [R, C, pooled_h, W] as [R * pooled_h, C * W].
    spread = op.emit("MatMul", dy, unsqueeze(op, by_column, [1]))
    parts = product(op, [rows, how.height])
    spread = reshape(op, op.emit("Transpose", spread, perm=[0, 2, 1, 3]), [parts, product(op, [c, w])])
    # Of each image the weights [N, H, R * pooled_h] of its own regions; the others' are 0.
    mine = cast(op, op.emit("Equal", unsqueeze(op, indices(op, n), [1]), images), op.dtype(x))
    weights = mul(op, unsqueeze(op, mine, [2, 3]), by_row)
    weights = reshape(op, op.emit("Transpose", weights, perm=[0, 3, 1, 2]), [n, h, parts])
    dx = reshape(op, op.emit("MatMul", weights, spread), [n, h, c, w])
    return op.emit("Transpose", dx, perm=[0, 2, 1, 3], shape=op.shape(x))


def _bin_weights(op: Op, boxes: Value, axis: int, bins: int, length: Size, how: Pooling) -> Value:
    """Return the weights [R, bins, length] of an image's rows (axis 1) or columns (axis 0) in the means of the bins.

    The weight of a pixel for a sample is 1 less their distance, or 0 from a distance of 1 on. Samples more than one
    pixel outside of the image do not count; those closer are moved to its border.
    """
    edges = [mul(op, slice_axis(op, boxes, 1, at, at + 1), how.scale) for at in (axis, axis + 2)]
    start, end = (add(op, edge, -0.5) for edge in edges) if how.aligned else edges
    samples = _samples(op, sub(op, end, start), bins, how)
    position = add(op, unsqueeze(op, start, [2]), samples.begin, samples.inside)
    limit = length if isinstance(length, int) else cast(op, length, FLOAT)
    near = op.emit("And", binary(op, "GreaterOrEqual", position, -1.0), binary(op, "LessOrEqual", position, limit))
    near = near if samples.used is None else op.emit("And", near, samples.used)
    last = limit - 1 if isinstance(limit, int) else sub(op, limit, 1.0)
    inside = binary(op, "Min", binary(op, "Max", position, 0.0), last)
    pixels = cast(op, indices(op, length), op.dtype(boxes))
    weights = op.emit("Relu", sub(op, 1.0, op.emit("Abs", sub(op, unsqueeze(op, inside, [3]), pixels))))
    share = div(op, cast(op, near, op.dtype(boxes)), samples.count)
    return op.emit("ReduceSum", mul(op, weights, unsqueeze(op, share, [3])), op.const([2], np.int64), keepdims=0)


@dataclass(frozen=True)
class _Samples:
    """The samples along one side of regions; their offset from its start is ``begin + inside``.

    Attributes:
        side: the lengths of the sides [R, 1].
        begin: the offsets of the bins from the start [R, bins, 1].
        inside: the offsets of the samples from the start of their bin [R, 1, samples].
        count: the number of samples of a bin.
        used: the mask of the samples that a bin has [R, 1, samples]; None if it has all.
    """

    side: Value
    begin: Value
    inside: Value
    count: Value | float
    used: Value | None


def _samples(op: Op, side: Value, bins: int, how: Pooling) -> _Samples:
    """Place the samples of bins along sides [R, 1], which count as 1 at least unless the regions are aligned."""
    if not how.aligned:
        side = binary(op, "Max", side, 1.0)
    bin_side = div(op, side, float(bins))
    sample, count, used = _sample_indices(op, bin_side, how)
    width = unsqueeze(op, bin_side, [2])
    begin = op.emit("Mul", width, op.const(np.arange(op.bounded(bins)).reshape(1, bins, 1), bin_side))
    return _Samples(side, begin, div(op, mul(op, add(op, sample, 0.5), width), count), count, used)


def _sample_indices(op: Op, bin_side: Value, how: Pooling) -> tuple[Value, Value | float, Value | None]:
    """Return the samples along the sides [R, 1] of bins: their indices, their number, and the mask of those in a bin.

    Where the number depends on the side, indices run to the largest number of all regions.
    """
    if how.samples:
        return op.const(np.arange(op.bounded(how.samples)).reshape(1, 1, -1), bin_side), float(how.samples), None
    count = unsqueeze(op, op.emit("Ceil", bin_side), [2])
    counts = op.emit("Concat", reshape(op, count, [-1]), op.const([1.0], bin_side), axis=0)
    most = op.emit("ReduceMax", counts, keepdims=1)
    sample = cast(op, indices(op, cast(op, most, INT64)), op.dtype(bin_side))
    return sample, binary(op, "Max", count, 1.0), op.emit("Less", sample, count)


@family.converts("RoIPoolGradient", "RoIPoolFGradient", expects={0: _IMAGE, 1: _ROIS, 2: _INDICES, 3: _IMAGE})
@takes(SINGLE, 0, 3)
def roi_pool_gradient(op: Op) -> Value:
    """RoIPoolGradient | RoIPoolFGradient(X, RoIs, argmaxes, dY; pooled_h=1, pooled_w=1, ...) -> dX.

    The other arguments are spatial_scale=1.0 and order="NCHW".

    The argmaxes [R, C, pooled_h, pooled_w] are the indices of pixels in the flat image, or -1 for empty cells.
    """
    op.args.ignore("pooled_h", "pooled_w", "spatial_scale", "is_test")
    require_nchw(op, "the operands")
    x, rois, pixels, dy = (op.input(index) for index in range(4))
    for value, rank, what in ((x, 4, "X"), (rois, 2, "RoIs"), (pixels, 4, "argmaxes"), (dy, 4, "the gradient")):
        require_rank(op, value, rank, what)
    image = cast(op, slice_axis(op, rois, 1, 0, 1), INT64)
    channels = size_vector(op, x, 1)
    planes = add(op, mul(op, image, channels), indices(op, size(op, x, 1)))
    return _scatter(op, x, unsqueeze(op, planes, [2, 3]), pixels, dy)


@family.converts("MaxPoolWithIndexGradient", expects={0: _IMAGE, 1: _IMAGE, 2: _INDICES})
@takes(SINGLE, 0, 1)
def max_pool_with_index_gradient(op: Op) -> Value:
    """MaxPoolWithIndexGradient(X, dY, indices; <window>) -> dX: dY added to the pixels whose indices are given.

    The indices are those of pixels in the flat image of one channel; the window has no effect.
    """
    op.args.ignore(*(name for name in op.args if name != "order"))
    require_nchw(op, "the operands")
    x, dy, pixels = (op.input(index) for index in range(3))
    for value, what in ((x, "X"), (dy, "the gradient"), (pixels, "the indices")):
        require_rank(op, value, 4, what)
    planes = indices(op, product(op, [size(op, x, 0), size(op, x, 1)]))
    return _scatter(op, x, reshape(op, planes, [size(op, x, 0), size(op, x, 1), 1, 1]), pixels, dy)


def _scatter(op: Op, x: Value, planes: Value, pixels: Value, values: Value) -> Value:
    """Add values to pixels of planes of zeros, of the shape of ``x`` [N, C, H, W]; pixels of -1 get none.

    ``planes`` broadcasts to the shape of ``pixels``.
    """
    area = vector(op, [product(op, [size(op, x, 2), size(op, x, 3)])])
    pixels = cast(op, pixels, INT64)
    used = binary(op, "GreaterOrEqual", pixels, 0)
    at = add(op, mul(op, planes, area), op.emit("Max", pixels, op.const(0, np.int64)))
    given = op.emit("Where", used, values, op.const(0.0, values))
    at, given = (reshape(op, value, [-1]) for value in (at, given))
    zeros = op.emit("Expand", op.const(0.0, x), vector(op, [product(op, sizes(op, x))]))
    return reshape_like(op, op.emit("ScatterElements", zeros, at, given, axis=0, reduction="add"), x)


@family.converts("RoIAlignRotatedGradient", expects={0: _IMAGE, 1: _ROIS, 2: _IMAGE})
@takes(SINGLE, 0, 1, 2)
def roi_align_rotated_gradient(op: Op) -> Value:
    """RoIAlignRotatedGradient(X, RoIs, dY; pooled_h=1, pooled_w=1, spatial_scale=1.0, sampling_ratio=-1, ...) -> dX.

    The remaining argument is aligned=0. RoIs are [R, 6] (image, center x, center y, width, height, degrees) or [R, 5].
    Each sample adds its part of dY to the four pixels around it.
    """
    op.args.ignore("order")
    x, rois, dy = op.input(0), op.input(1), op.input(2)
    for value, rank, what in ((x, 4, "X"), (rois, 2, "RoIs"), (dy, 4, "the gradient")):
        require_rank(op, value, rank, what)
    how = read_pooling(op)
    n, c, h, w = (size(op, x, axis) for axis in range(4))
    limits = [squeeze(op, vector(op, [length]), [0]) for length in (h, w)]
    images = image_indices(op, rois, 5)
    center_x, center_y, width, height, degrees = (
        slice_axis(op, rois, 1, at, at + 1 if at < -1 else np.iinfo(np.int64).max) for at in range(-5, 0)
    )
    offset = -0.5 if how.aligned else 0.0
    center_x, center_y = (add(op, mul(op, v, how.scale), offset) for v in (center_x, center_y))
    down, down_share = _offsets(op, mul(op, height, how.scale), how.height, how)
    along, along_share = _offsets(op, mul(op, width, how.scale), how.width, how)
    # Axes: region, bin and sample down, bin and sample along.
    down, down_share = (unsqueeze(op, v, [3, 4]) for v in (down, down_share))
    along, along_share = (unsqueeze(op, v, [1, 2]) for v in (along, along_share))
    angle = unsqueeze(op, mul(op, degrees, float(np.float32(np.pi) / np.float32(180))), [2, 3, 4])
    cos, sin = op.emit("Cos", angle), op.emit("Sin", angle)
    sample_x = add(op, mul(op, along, cos), mul(op, down, sin), unsqueeze(op, center_x, [2, 3, 4]))
    sample_y = add(op, sub(op, mul(op, down, cos), mul(op, along, sin)), unsqueeze(op, center_y, [2, 3, 4]))
    corners, inside = bilinear_corners(op, sample_y, sample_x, limits)
    share = mul(op, mul(op, down_share, along_share), cast(op, inside, op.dtype(x)))
    of_region = mul(op, images, vector(op, [product(op, [h, w])]))
    pixels = [add(op, pixel, unsqueeze(op, of_region, [1, 2, 3, 4])) for pixel, _, _ in corners]
    weights = [mul(op, mul(op, by_row, by_column), share) for _, by_row, by_column in corners]
    at = _as_indices(op, op.emit("Concat", *(unsqueeze(op, v, [5]) for v in pixels), axis=5))
    weight = op.emit("Concat", *(unsqueeze(op, v, [5, 6]) for v in weights), axis=5)
    values = unsqueeze(op, op.emit("Transpose", dy, perm=[0, 2, 3, 1]), [2, 4, 5])
    updates = op.emit("Flatten", mul(op, weight, values), axis=6)
    zeros = op.emit("Expand", op.const(0.0, x), vector(op, [product(op, [n, h, w]), c]))
    rows = op.emit("ScatterND", zeros, at, updates, reduction="add")
    return op.emit("Transpose", reshape(op, rows, [n, h, w, c]), perm=[0, 3, 1, 2], shape=op.shape(x))


def _offsets(op: Op, side: Value, bins: int, how: Pooling) -> tuple[Value, Value]:
    """Return the samples' offsets from the center along sides [R, 1], and shares of bins' means, [R, bins, samples]."""
    samples = _samples(op, side, bins, how)
    offsets = add(op, mul(op, unsqueeze(op, samples.side, [2]), -0.5), samples.begin, samples.inside)
    if samples.used is None:
        return offsets, op.const(np.full((1, 1, 1), 1.0 / float(how.samples)), side)
    return offsets, div(op, cast(op, samples.used, op.dtype(side)), samples.count)


def _as_indices(op: Op, pixels: Value) -> Value:
    """Return indices of any shape as ScatterND's, [M, 1]."""
    return flatten(op, unsqueeze(op, pixels, [op.rank(pixels)]), op.rank(pixels))
