"""Regions of interest (RoIs): the arguments of their pooling, their images, and bilinear interpolation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from caffe2_frontend.emit.arithmetic import add, mul, sub
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.interop.types import FLOAT, INT64
from caffe2_frontend.lowering.op import Op, Value


@dataclass(frozen=True)
class Pooling:
    """The arguments of RoIAlign.

    Attributes:
        height: the number of bins down.
        width: the number of bins across.
        scale: the factor from coordinates of boxes to those of features.
        samples: the samples per side of a bin; 0 for as many as it has pixels, rounded up.
        aligned: whether coordinates are shifted by half a pixel, and small regions are not enlarged.
    """

    height: int
    width: int
    scale: float
    samples: int
    aligned: bool


def read_pooling(op: Op) -> Pooling:
    """Read pooled_h=1, pooled_w=1, spatial_scale=1.0, sampling_ratio=-1 and aligned=0."""
    pooling = Pooling(
        op.args.integer("pooled_h", default=1),
        op.args.integer("pooled_w", default=1),
        op.args.number("spatial_scale", default=1.0),
        max(op.args.integer("sampling_ratio", default=-1), 0),
        op.args.flag("aligned", default=False),
    )
    if pooling.height <= 0 or pooling.width <= 0 or pooling.scale <= 0:
        op.unsupported("pooled_h, pooled_w and spatial_scale must be positive", code="invalid-argument")
    return pooling


def image_indices(op: Op, rois: Value, dims: int) -> Value:
    """Return the image of each region: column 0 of [R, dims + 1], or 0 for regions [R, dims]."""
    images = cast(op, op.emit("Gather", rois, op.const(0, np.int64), axis=1), INT64)
    known = op.static_dim(rois, 1)
    if known is not None and known not in (dims, dims + 1):
        op.unsupported(f"RoIs must have {dims} or {dims + 1} columns, not {known}", code="invalid-operands")
    if known == dims + 1:
        return images
    # 1 if there is a column for the image, else 0.
    extra = op.emit("Sub", op.emit("Shape", rois, start=1, end=2), op.const([dims], np.int64))
    return op.emit("Mul", images, extra)


def round_half_away(op: Op, x: Value) -> Value:
    """Round to the nearest integer, halves away from zero."""
    return op.emit("Mul", op.emit("Sign", x), op.emit("Floor", add(op, op.emit("Abs", x), 0.5)))


def bilinear_corners(op: Op, y: Value, x: Value, limits: list[Value]) -> tuple[list[tuple[Value, Value, Value]], Value]:
    """Return the four pixels around points of an image, and which points count.

    Points more than one pixel outside of the image do not count; those closer are moved to its border.

    Args:
        op: the operator under conversion.
        y: the points' rows.
        x: the points' columns, of the shape of ``y``.
        limits: the image's height and width, int64 scalars.

    Returns:
        For each corner the index of its pixel in the flat image and its weights by row and by column; and the mask of
        the points that count.
    """
    nearby, axes = [], []
    for position, limit in ((y, limits[0]), (x, limits[1])):
        started = op.emit("GreaterOrEqual", position, op.const(-1.0, np.float32))
        nearby.append(op.emit("And", started, op.emit("LessOrEqual", position, cast(op, limit, FLOAT))))
        last = sub(op, limit, 1)
        start = op.emit("Max", position, op.const(0.0, np.float32))
        low = op.emit("Min", cast(op, start, INT64), last)
        at_end = op.emit("GreaterOrEqual", low, last)
        high = op.emit("Min", add(op, low, 1), last)
        fraction = op.emit("Where", at_end, op.const(0.0, np.float32), sub(op, start, cast(op, low, FLOAT)))
        axes.append((low, high, sub(op, 1.0, fraction), fraction))
    (y_low, y_high, y_near, y_far), (x_low, x_high, x_near, x_far) = axes
    corners = [
        (add(op, mul(op, row, limits[1]), column), w_row, w_column)
        for row, w_row in ((y_low, y_near), (y_high, y_far))
        for column, w_column in ((x_low, x_near), (x_high, x_far))
    ]
    return corners, op.emit("And", *nearby)
