"""HeatmapMaxKeypoint: keypoints at the maxima of heatmaps, with subpixel accuracy."""

from __future__ import annotations

from typing import Final

import numpy as np

from caffe2_frontend.emit.arithmetic import add, div, mul, square, sub
from caffe2_frontend.emit.shapes import cast, reshape, size, slice_axis, unsqueeze
from caffe2_frontend.interop.types import FLOAT, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.detection.boxes import columns

family = Family("keypoint")

# The maximum distance of the refined maximum from its pixel, and the determinant below which the surface is flat.
_MAX_STEP: Final = 1.5
_FLAT: Final = 1e-4


@family.converts(
    "HeatmapMaxKeypoint",
    expects={0: TensorInfo(FLOAT, (None,) * 4), 1: TensorInfo(FLOAT, (None, None))},
)
def heatmap_max_keypoint(op: Op) -> Value:
    """HeatmapMaxKeypoint(heatmaps, bboxes; should_output_softmax=0) -> keypoints.

    Keypoints are (x, y, score, probability), [N, 4, K], of heatmaps [N, K, side, side]. The maximum pixel is refined by
    the maximum of a quadratic surface through its neighbourhood, and mapped into the box. The probability is that of
    the pixel in the softmax of its map, or 0 without should_output_softmax. Caffe2 does not subtract the maximum from
    the exponents: of those beyond the range of float32 the probability is a NaN.
    """
    with_probability = op.args.flag("should_output_softmax", default=False)
    maps, boxes = op.input(0), op.input(1)
    side = size(op, maps, 2)
    if isinstance(side, int) and side < 2:
        op.unsupported(f"heatmaps must be at least 2 pixels wide, not {side}", code="invalid-operands")
    pixels = side * side if isinstance(side, int) else mul(op, side, side)
    flat = reshape(op, maps, [size(op, maps, 0), size(op, maps, 1), pixels])
    pixel_index = op.emit("ArgMax", flat, axis=2, keepdims=1)
    width = op.const([side], np.int64) if isinstance(side, int) else side
    y, x = op.emit("Div", pixel_index, width), op.emit("Mod", pixel_index, width)
    neighbourhood = _neighbourhood(op, flat, x, y, width)
    dx, dy, score = _refine(op, neighbourhood)
    first_x, first_y, last_x, last_y = columns(op, slice_axis(op, boxes, 1, 0, 4), 4)
    coordinates = []
    for pixel, delta, first, last in ((x, dx, first_x, last_x), (y, dy, first_y, last_y)):
        length = op.emit("Max", sub(op, last, first), op.const(1.0, np.float32))
        part = div(op, add(op, cast(op, pixel, FLOAT), delta, 0.5), cast(op, width, FLOAT))
        coordinates.append(add(op, mul(op, part, unsqueeze(op, length, [2])), unsqueeze(op, first, [2])))
    if with_probability:
        total = op.emit("ReduceSum", op.emit("Exp", flat), op.const([2], np.int64), keepdims=1)
        probability = div(op, op.emit("Exp", neighbourhood[1][1]), total)
    else:
        probability = mul(op, cast(op, pixel_index, FLOAT), 0.0)
    return op.emit("Transpose", op.emit("Concat", *coordinates, score, probability, axis=2), perm=[0, 2, 1])


def _neighbourhood(op: Op, flat: Value, x: Value, y: Value, width: Value) -> list[list[Value]]:
    """Return the 3 x 3 pixels around a pixel, mirrored at the borders, by row and column."""
    rows, columns_of = (_mirrored(op, v, width) for v in (y, x))
    return [
        [op.emit("GatherElements", flat, add(op, mul(op, row, width), column), axis=2) for column in columns_of]
        for row in rows
    ]


def _mirrored(op: Op, center: Value, width: Value) -> list[Value]:
    """Return the indices before, at and after ``center``, those beyond a border mirrored."""
    after = add(op, center, 1)
    return [
        op.emit("Abs", sub(op, center, 1)),
        center,
        op.emit("Min", after, sub(op, mul(op, sub(op, width, 1), 2), after)),
    ]


def _refine(op: Op, f: list[list[Value]]) -> tuple[Value, Value, Value]:
    """Return a Newton step from the middle of 3 x 3 values ``f`` to the maximum of a quadratic surface, and its height.

    With the gradient g and the Hessian H by central differences, the step d solves ``H d = -g``, by Cramer's rule, and
    the height is ``f + g d + d H d / 2``. ``bx`` and ``by`` are ``-g``.
    """
    bx, by = mul(op, sub(op, f[1][2], f[1][0]), -0.5), mul(op, sub(op, f[2][1], f[0][1]), -0.5)
    twice = mul(op, f[1][1], 2.0)
    xx, yy = (add(op, sub(op, a, twice), b) for a, b in ((f[1][0], f[1][2]), (f[0][1], f[2][1])))
    xy = mul(op, sub(op, add(op, f[2][2], f[0][0]), add(op, f[2][0], f[0][2])), 0.25)
    determinant = sub(op, mul(op, xx, yy), square(op, xy))
    flat = op.emit("Less", op.emit("Abs", determinant), op.const(_FLAT, np.float32))
    zero = op.const(0.0, np.float32)
    steps = (sub(op, mul(op, bx, yy), mul(op, by, xy)), sub(op, mul(op, by, xx), mul(op, bx, xy)))
    dx, dy = (op.emit("Where", flat, zero, v) for v in _cut(op, *(div(op, step, determinant) for step in steps)))
    slope = add(op, mul(op, bx, dx), mul(op, by, dy))
    bend = add(op, mul(op, xx, square(op, dx)), mul(op, xy, dx, dy, 2.0), mul(op, yy, square(op, dy)))
    return dx, dy, add(op, sub(op, f[1][1], slope), mul(op, bend, 0.5))


def _cut(op: Op, dx: Value, dy: Value) -> tuple[Value, Value]:
    """Scale a step that is too long so that its longer component is the maximum."""
    most = op.const(_MAX_STEP, np.float32)
    far_x, far_y = op.emit("Abs", dx), op.emit("Abs", dy)
    too_long = op.emit("Or", op.emit("Greater", far_x, most), op.emit("Greater", far_y, most))
    longest = op.emit("Where", op.emit("Less", far_x, far_y), far_y, far_x)
    x, y = (op.emit("Where", too_long, op.emit("Mul", div(op, v, longest), most), v) for v in (dx, dy))
    return x, y
