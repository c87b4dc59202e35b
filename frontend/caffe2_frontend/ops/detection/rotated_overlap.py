"""The area of the intersection of rotated boxes."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul, sub
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.interop.types import DOUBLE
from caffe2_frontend.lowering.op import Op, Value

_RADIANS: Final = math.pi / 180.0


def intersection(op: Op, one: list[Value], many: list[Value]) -> Value:
    """Return the area of the intersection of one box with others, computed in float64 and returned as float.

    In the coordinate system of the first box, which is then axis-aligned and centered at the origin, the area of the
    other polygon clipped to it is an integral along its edges: each edge from (x0, y0) to (x1, y1) contributes the
    integral of y over x, with x restricted to the first box's left and right side and y clamped between its lower and
    upper side. The contributions of a closed outline add up to the signed area. No corner of the intersection has to be
    found, and coinciding edges are no special case.

    Args:
        op: the operator under conversion.
        one: x, y, width, height and angle (degrees) of the first box, each [..., 1, 1].
        many: those of the others, each [..., n, 1].

    Returns:
        The areas, float [..., n].
    """
    x, y, width, height, angle = (cast(op, v, DOUBLE) for v in one)
    half_width, half_height = (mul(op, v, 0.5) for v in (width, height))
    start_x, start_y = _corners(op, x, y, angle, [cast(op, v, DOUBLE) for v in many])
    # Edges go from each corner to the next.
    following = op.const([1, 2, 3, 0], np.int64)
    end_x, end_y = (op.emit("Gather", v, following, axis=-1) for v in (start_x, start_y))

    # Restrict x; a vertical edge has no extent along x and contributes nothing.
    left, right = (_clamp(op, v, half_width) for v in (start_x, end_x))
    run = sub(op, end_x, start_x)
    vertical = op.emit("Equal", run, op.const(0.0, np.float64))
    slope = div(op, sub(op, end_y, start_y), op.emit("Where", vertical, op.const(1.0, np.float64), run))
    first, last = (add(op, start_y, mul(op, sub(op, v, start_x), slope)) for v in (left, right))
    strips = mul(op, sub(op, right, left), _mean_clamped(op, first, last, half_height))
    area = op.emit("Abs", op.emit("ReduceSum", strips, op.const([-1], np.int64), keepdims=0))
    return cast(op, area, ir.DataType.FLOAT)


def _corners(op: Op, x: Value, y: Value, angle: Value, boxes: list[Value]) -> tuple[Value, Value]:
    """Return the corners of boxes relative to a center and rotated back by an angle, x and y, both [..., n, 4]."""
    dx, dy = sub(op, boxes[0], x), sub(op, boxes[1], y)
    back_cos, back_sin = _cos_sin(op, angle)
    center_x = sub(op, mul(op, dx, back_cos), mul(op, dy, back_sin))
    center_y = add(op, mul(op, dx, back_sin), mul(op, dy, back_cos))
    cos, sin = _cos_sin(op, sub(op, angle, boxes[4]))
    along, across = mul(op, boxes[2], 0.5), mul(op, boxes[3], 0.5)
    right = mul(op, along, op.const([-1.0, 1.0, 1.0, -1.0], np.float64))
    up = mul(op, across, op.const([-1.0, -1.0, 1.0, 1.0], np.float64))
    corner_x = add(op, center_x, sub(op, mul(op, right, cos), mul(op, up, sin)))
    corner_y = add(op, center_y, add(op, mul(op, right, sin), mul(op, up, cos)))
    return corner_x, corner_y


def _cos_sin(op: Op, degrees: Value) -> tuple[Value, Value]:
    """Return cosine and sine. Angles are counterclockwise as seen, while y points down in images."""
    radians = mul(op, degrees, _RADIANS)
    return op.emit("Cos", radians), op.emit("Sin", radians)


def _clamp(op: Op, x: Value, limit: Value) -> Value:
    """Clamp to [-limit, limit]."""
    return op.emit("Max", op.emit("Min", x, limit), op.emit("Neg", limit))


def _mean_clamped(op: Op, a: Value, b: Value, limit: Value) -> Value:
    """Return the mean of the heights of a line from ``a`` to ``b``, each clamped to [-limit, limit].

    The heights y are uniform between ``a`` and ``b``: those below and above contribute their share of the length times
    the limit, those inside the integral of y.
    """
    low, high = op.emit("Min", a, b), op.emit("Max", a, b)
    low_inside, high_inside = _clamp(op, low, limit), _clamp(op, high, limit)
    below = op.emit("Max", sub(op, op.emit("Min", high, op.emit("Neg", limit)), low), op.const(0.0, np.float64))
    above = op.emit("Max", sub(op, high, op.emit("Max", low, limit)), op.const(0.0, np.float64))
    middle = mul(op, sub(op, high_inside, low_inside), add(op, high_inside, low_inside), 0.5)
    total = add(op, mul(op, sub(op, above, below), limit), middle)
    length = sub(op, high, low)
    flat = op.emit("Equal", length, op.const(0.0, np.float64))
    mean = div(op, total, op.emit("Where", flat, op.const(1.0, np.float64), length))
    return op.emit("Where", flat, low_inside, mean)
