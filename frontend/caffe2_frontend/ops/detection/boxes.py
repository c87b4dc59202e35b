"""Boxes of the detection operators: upright [x1, y1, x2, y2], or rotated [center x, center y, width, height, degrees].

Boxes are the last dim of a tensor. To compute with them they are split into columns, each [..., 1].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from caffe2_frontend.emit.arithmetic import Operand, add, div, mul, sub
from caffe2_frontend.emit.shapes import END, quotient, reshape, size
from caffe2_frontend.lowering.op import Op, Value

# Caffe2 clips the predicted logarithm of the growth of a width or height to this value.
MAX_GROWTH: Final = math.log(1000.0 / 16.0)

Columns = list[Value]


@dataclass(frozen=True)
class BoxArguments:
    """The interpretation of boxes.

    Attributes:
        rotated: whether boxes are rotated.
        plus_one: whether widths and heights are ``x2 - x1 + 1``, with x2 and y2 inside the box (legacy_plus_one).
        bound_angles: whether angles are kept between ``lowest`` and ``highest`` degrees.
        lowest: the minimum angle.
        highest: the maximum angle.
        upright_angle: rotated boxes with at most this angle are clipped to the image, others are not.
    """

    rotated: bool
    plus_one: bool
    bound_angles: bool = True
    lowest: int = -90
    highest: int = 90
    upright_angle: float = 1.0

    @property
    def dims(self) -> int:
        """The number of elements of a box."""
        return 5 if self.rotated else 4

    @property
    def pixel(self) -> float:
        """The number to add to a difference of coordinates to get a width or height."""
        return 1.0 if self.plus_one else 0.0


def box_arguments(op: Op, *, rotated: bool) -> BoxArguments:
    """Read the arguments of an operator that transforms boxes.

    These are legacy_plus_one=1 and, for rotated boxes, angle_bound_on=1, angle_bound_lo=-90, angle_bound_hi=90 and
    clip_angle_thresh=1.0.
    """
    arguments = BoxArguments(
        rotated,
        op.args.flag("legacy_plus_one", default=True),
        op.args.flag("angle_bound_on", default=True),
        op.args.integer("angle_bound_lo", default=-90),
        op.args.integer("angle_bound_hi", default=90),
        op.args.number("clip_angle_thresh", default=1.0),
    )
    period = arguments.highest - arguments.lowest
    if rotated and arguments.bound_angles and (period <= 0 or period % 180):
        op.unsupported(
            f"angle_bound_hi - angle_bound_lo must be a positive multiple of 180, not {period}",
            code="invalid-argument",
        )
    return arguments


def columns(op: Op, boxes: Value, count: int) -> Columns:
    """Split the last ``count`` elements of the last dim into columns [..., 1]."""
    return list(op.emit("Split", last_elements(op, boxes, count), axis=-1, num_outputs=count, outputs=count))


def last_elements(op: Op, boxes: Value, count: int) -> Value:
    """Return the last ``count`` elements of the last dim."""
    last = op.rank(boxes) - 1
    if op.static_dim(boxes, last) == count:
        return boxes
    bounds = (op.const([v], np.int64) for v in (-count, END, last))
    return op.emit("Slice", boxes, *bounds, shape=[*op.shape(boxes)[:-1], count])


def by_class(op: Op, x: Value, count: int) -> Value:
    """Reshape [n, classes * count] to [n, classes, count]."""
    return reshape(op, x, [size(op, x, 0), quotient(op, size(op, x, 1), count), count])


def joined(op: Op, parts: Sequence[Value]) -> Value:
    """Concatenate columns [..., 1] along the last dim."""
    return op.emit("Concat", *parts, axis=-1)


def shifted(op: Op, x: Value, by: float) -> Value:
    """Return ``x + by``; ``x`` itself if ``by`` is 0."""
    return add(op, x, by) if by else x


def transformed(op: Op, boxes: Columns, deltas: Columns, weights: Sequence[float], how: BoxArguments) -> Columns:
    """Apply predicted deltas (dx, dy, dw, dh[, radians]), divided by ``weights``, to boxes.

    Centers move by multiples of the width and height, which grow by ``exp(dw)`` and ``exp(dh)``; rotated boxes turn.
    """
    dx, dy, dw, dh = (div(op, d, w) if w != 1.0 else d for d, w in zip(deltas, weights, strict=False))
    dw, dh = (op.emit("Min", d, op.const(MAX_GROWTH, d)) for d in (dw, dh))
    if how.rotated:
        x, y, width, height, angle = boxes
        turned = add(op, mul(op, deltas[4], 180.0 / math.pi), angle)
        return [
            add(op, mul(op, dx, width), x),
            add(op, mul(op, dy, height), y),
            mul(op, op.emit("Exp", dw), width),
            mul(op, op.emit("Exp", dh), height),
            _bounded(op, turned, how) if how.bound_angles else turned,
        ]
    x1, y1, x2, y2 = boxes
    width, height = (shifted(op, sub(op, b, a), how.pixel) for a, b in ((x1, x2), (y1, y2)))
    x = add(op, mul(op, dx, width), add(op, x1, mul(op, width, 0.5)))
    y = add(op, mul(op, dy, height), add(op, y1, mul(op, height, 0.5)))
    half_width = mul(op, op.emit("Exp", dw), width, 0.5)
    half_height = mul(op, op.emit("Exp", dh), height, 0.5)
    return [
        sub(op, x, half_width),
        sub(op, y, half_height),
        shifted(op, add(op, x, half_width), -how.pixel),
        shifted(op, add(op, y, half_height), -how.pixel),
    ]


def _bounded(op: Op, angle: Value, how: BoxArguments) -> Value:
    """Move angles outside of the bounds by one period towards them."""
    period = float(how.highest - how.lowest)
    low = op.emit("Less", angle, op.const(how.lowest, angle))
    high = op.emit("Greater", angle, op.const(how.highest, angle))
    lowered = op.emit("Where", high, sub(op, angle, period), angle)
    return op.emit("Where", low, add(op, angle, period), lowered)


def clipped(op: Op, boxes: Columns, height: Value, width: Value, how: BoxArguments) -> Columns:
    """Clip boxes to an image; of rotated boxes only those that are nearly upright."""
    if not how.rotated:
        return _clipped_corners(op, boxes, height, width, how)
    x, y, w, h, angle = boxes
    half_w, half_h = (div(op, shifted(op, v, -how.pixel), 2.0) for v in (w, h))
    corners = [sub(op, x, half_w), sub(op, y, half_h), add(op, x, half_w), add(op, y, half_h)]
    x1, y1, x2, y2 = _clipped_corners(op, corners, height, width, how)
    inside = [
        div(op, add(op, x1, x2), 2.0),
        div(op, add(op, y1, y2), 2.0),
        shifted(op, sub(op, x2, x1), how.pixel),
        shifted(op, sub(op, y2, y1), how.pixel),
    ]
    upright = op.emit("LessOrEqual", op.emit("Abs", angle), op.const(how.upright_angle, angle))
    return [*(op.emit("Where", upright, new, old) for new, old in zip(inside, (x, y, w, h), strict=True)), angle]


def _clipped_corners(op: Op, boxes: Columns, height: Value, width: Value, how: BoxArguments) -> Columns:
    """Clip upright boxes to [0, width] and [0, height], less one pixel with legacy_plus_one."""
    limits = [shifted(op, v, -how.pixel) for v in (width, height)]
    zero = op.const(0.0, np.float32)
    return [op.emit("Max", op.emit("Min", v, limits[i % 2]), zero) for i, v in enumerate(boxes)]


def large_enough(op: Op, boxes: Columns, size: Operand, height: Value, width: Value, how: BoxArguments) -> Value:
    """Return the mask of boxes with both sides at least ``size``, and a center below the image's width and height."""
    if how.rotated:
        x, y, w, h, _ = boxes
    else:
        w, h = (shifted(op, sub(op, boxes[i + 2], boxes[i]), how.pixel) for i in (0, 1))
        x, y = add(op, boxes[0], div(op, w, 2.0)), add(op, boxes[1], div(op, h, 2.0))
    limit = size if isinstance(size, Value) else op.const(size, np.float32)
    tests = [
        op.emit("GreaterOrEqual", w, limit),
        op.emit("GreaterOrEqual", h, limit),
        op.emit("Less", x, width),
        op.emit("Less", y, height),
    ]
    result = tests[0]
    for test in tests[1:]:
        result = op.emit("And", result, test)
    return result
