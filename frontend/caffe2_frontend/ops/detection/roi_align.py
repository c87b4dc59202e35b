"""RoIAlign: features of regions of interest (RoIs), upright and rotated, by bilinear interpolation."""

from __future__ import annotations

from typing import Final

import numpy as np

from caffe2_frontend.emit.arithmetic import add, div, mul, sub
from caffe2_frontend.emit.layout import channels_last, move_first, move_last
from caffe2_frontend.emit.shapes import cast, product, reshape, size, squeeze, unsqueeze, vector
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.emit.windows.regions import Pooling, bilinear_corners, image_indices, read_pooling
from caffe2_frontend.interop.types import FLOAT, INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.detection.boxes import columns, last_elements

family = Family("roi_align")

_OPERANDS: Final = {0: TensorInfo(FLOAT, (None,) * 4), 1: TensorInfo(FLOAT, (None, None))}


@family.converts("RoIAlign", expects=_OPERANDS)
def roi_align(op: Op) -> Value:
    """RoIAlign(X, RoIs; pooled_h=1, pooled_w=1, spatial_scale=1.0, sampling_ratio=-1, aligned=0, order="NCHW") -> Y.

    RoIs are [R, 5] (image, x1, y1, x2, y2) or [R, 4]; Y is [R, C, pooled_h, pooled_w] or, in NHWC, [R, ..., C].
    """
    how, last = read_pooling(op), channels_last(op)
    features, rois = move_first(op, op.input(0), when=last), op.input(1)
    result = op.emit(
        "RoiAlign",
        features,
        last_elements(op, rois, 4),
        image_indices(op, rois, 4),
        coordinate_transformation_mode="half_pixel" if how.aligned else "output_half_pixel",
        mode="avg",
        output_height=how.height,
        output_width=how.width,
        sampling_ratio=how.samples,
        spatial_scale=how.scale,
    )
    return move_last(op, result, when=last)


@family.converts("RoIAlignRotated", expects=_OPERANDS)
def roi_align_rotated(op: Op) -> Value:
    """RoIAlignRotated(X, RoIs; pooled_h=1, pooled_w=1, spatial_scale=1.0, sampling_ratio=-1, aligned=0, ...) -> Y.

    The remaining argument is order="NCHW". RoIs are [R, 6] (image, center x, center y, width, height, degrees) or
    [R, 5]. A Loop computes one region per iteration, as the number of samples depends on its size.
    """
    how, last = read_pooling(op), channels_last(op)
    features, rois = move_first(op, op.input(0), when=last), op.input(1)
    channels, height, width = (size(op, features, axis) for axis in (1, 2, 3))
    flat = reshape(op, features, [size(op, features, 0), channels, product(op, [height, width])])
    limits = [op.emit("Squeeze", vector(op, [v])) for v in (height, width)]
    boxes, images = last_elements(op, rois, 5), image_indices(op, rois, 5)

    def region(inside: Op, _: list[Value], iteration: list[Value]) -> tuple[list[Value], list[Value]]:
        image_index, box = (inside.emit("Gather", v, iteration[0], axis=0) for v in (images, boxes))
        image = inside.emit("Gather", flat, image_index, axis=0)
        return [], [_region(inside, image, box, limits, how)]

    count = size(op, rois, 0)
    _, (result,) = loop(op, count, None, [], region)
    # The stacked result of a Loop without iterations has no shape of its own.
    result = reshape(op, result, [count, channels, how.height, how.width])
    return move_last(op, result, when=last)


def _region(op: Op, image: Value, box: Value, limits: list[Value], how: Pooling) -> Value:
    """Return the pooled features of one region, [C, height, width], of an image [C, H * W]."""
    offset = 0.5 if how.aligned else 0.0
    parts = [squeeze(op, v, [0]) for v in columns(op, box, 5)]
    x, y = (add(op, mul(op, v, how.scale), -offset) if offset else mul(op, v, how.scale) for v in parts[:2])
    sides = [mul(op, v, how.scale) for v in (parts[3], parts[2])]
    if not how.aligned:
        # Regions are at least one pixel wide.
        sides = [op.emit("Max", v, op.const(1.0, np.float32)) for v in sides]
    angle = mul(op, parts[4], float(np.float32(np.pi) / np.float32(180)))
    cos, sin = op.emit("Cos", angle), op.emit("Sin", angle)
    bins = (how.height, how.width)
    counts = [_samples(op, side, bin_count, how) for side, bin_count in zip(sides, bins, strict=True)]
    down, along = (_positions(op, *v) for v in zip(sides, bins, counts, strict=True))
    # Offsets from the center along the region's height, [rows, 1], and width, [1, columns], rotated by the angle.
    down, along = unsqueeze(op, down, [1]), unsqueeze(op, along, [0])
    sample_x = add(op, mul(op, along, cos), mul(op, down, sin), x)
    sample_y = add(op, sub(op, mul(op, down, cos), mul(op, along, sin)), y)
    samples = _bilinear(op, image, sample_y, sample_x, limits)
    shape = op.emit(
        "Concat",
        op.emit("Shape", image, start=0, end=1),
        op.const([how.height], np.int64),
        unsqueeze(op, counts[0], [0]),
        op.const([how.width], np.int64),
        unsqueeze(op, counts[1], [0]),
        axis=0,
    )
    by_bin = op.emit("Reshape", samples, shape, allowzero=1, shape=[None, how.height, None, how.width, None])
    total = op.emit("ReduceSum", by_bin, op.const([2, 4], np.int64), keepdims=0)
    return div(op, total, cast(op, mul(op, *counts), FLOAT))


def _samples(op: Op, side: Value, bins: int, how: Pooling) -> Value:
    """Return the number of samples per side of a bin, int64 []."""
    if how.samples:
        return op.const(how.samples, np.int64)
    return cast(op, op.emit("Ceil", div(op, side, float(bins))), INT64)


def _positions(op: Op, side: Value, bins: int, count: Value) -> Value:
    """Return the offsets of the samples along a side from the center of the region, [bins * count]."""
    index = op.emit("Range", op.const(0, np.int64), mul(op, count, bins), op.const(1, np.int64))
    # An empty region has no samples; its index vector is empty, but must not be divided by 0.
    count = op.emit("Max", count, op.const(1, np.int64))
    within, of_bin = op.emit("Mod", index, count), op.emit("Div", index, count)
    bin_side = div(op, side, float(bins))
    part = div(op, mul(op, add(op, cast(op, within, FLOAT), 0.5), bin_side), cast(op, count, FLOAT))
    return add(op, mul(op, side, -0.5), mul(op, cast(op, of_bin, FLOAT), bin_side), part)


def _bilinear(op: Op, image: Value, y: Value, x: Value, limits: list[Value]) -> Value:
    """Interpolate an image [C, H * W] at ``y`` and ``x``, [rows, columns] each: [C, rows, columns].

    Samples more than one pixel outside of the image count 0 times; those closer are moved to its border.
    """
    corners, inside = bilinear_corners(op, y, x, limits)
    parts = [mul(op, op.emit("Gather", image, pixel, axis=1), mul(op, down, along)) for pixel, down, along in corners]
    return mul(op, add(op, *parts), cast(op, inside, FLOAT))
