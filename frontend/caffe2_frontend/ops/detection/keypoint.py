"""HeatmapMaxKeypoint: keypoints at the maxima of heatmaps, found to a part of a pixel."""

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

# How far from its pixel a maximum may be found, and how flat a surface has none.
_FARTHEST: Final = 1.5
_FLAT: Final = 1e-4


@family.converts(
    "HeatmapMaxKeypoint",
    expects={0: TensorInfo(FLOAT, (None,) * 4), 1: TensorInfo(FLOAT, (None, None))},
)
def heatmap_max_keypoint(op: Op) -> Value:
    """x, y, score and probability of each keypoint, [N, 4, K]: the maximum of a parabola through the highest pixel.

    The probability is that of the pixel, or 0 where ``should_output_softmax`` is not set.
    """
    with_probability = op.args.flag("should_output_softmax", default=False)
    maps, boxes = op.input(0), op.input(1)
    side = size(op, maps, 2)
    if isinstance(side, int) and side < 2:
        op.unsupported("a heatmap has to be 2 pixels wide at least", code="invalid-operands")
    pixels = side * side if isinstance(side, int) else mul(op, side, side)
    flat = reshape(op, maps, [size(op, maps, 0), size(op, maps, 1), pixels])
    place = op.emit("ArgMax", flat, axis=2, keepdims=1)
    width = op.const([side], np.int64) if isinstance(side, int) else side
    y, x = op.emit("Div", place, width), op.emit("Mod", place, width)
    around = _around(op, flat, x, y, width)
    dx, dy, score = _parabola(op, around)
    first_x, first_y, last_x, last_y = columns(op, slice_axis(op, boxes, 1, 0, 4), 4)
    found = []
    for pixel, delta, first, last in ((x, dx, first_x, last_x), (y, dy, first_y, last_y)):
        length = op.emit("Max", sub(op, last, first), op.const(1.0, np.float32))
        part = div(op, add(op, cast(op, pixel, FLOAT), delta, 0.5), cast(op, width, FLOAT))
        found.append(add(op, mul(op, part, unsqueeze(op, length, [2])), unsqueeze(op, first, [2])))
    if with_probability:
        highest = around[1][1]
        total = op.emit("ReduceSum", op.emit("Exp", sub(op, flat, highest)), op.const([2], np.int64), keepdims=1)
        probability = op.emit("Reciprocal", total)
    else:
        probability = mul(op, cast(op, place, FLOAT), 0.0)
    return op.emit("Transpose", op.emit("Concat", *found, score, probability, axis=2), perm=[0, 2, 1])


def _around(op: Op, flat: Value, x: Value, y: Value, width: Value) -> list[list[Value]]:
    """The 3 x 3 pixels around a place, mirrored at the borders, by row and column."""
    rows, columns_of = (_mirrored(op, v, width) for v in (y, x))
    return [
        [op.emit("GatherElements", flat, add(op, mul(op, row, width), column), axis=2) for column in columns_of]
        for row in rows
    ]


def _mirrored(op: Op, place: Value, width: Value) -> list[Value]:
    one = op.const(1, np.int64)
    before, after = sub(op, place, 1), add(op, place, 1)
    first = op.emit("Less", before, op.const(0, np.int64))
    last = op.emit("GreaterOrEqual", after, width)
    return [
        op.emit("Where", first, op.emit("Add", place, one), before),
        place,
        op.emit("Where", last, op.emit("Sub", place, one), after),
    ]


def _parabola(op: Op, f: list[list[Value]]) -> tuple[Value, Value, Value]:
    """Where the parabola through 3 x 3 values is level, as steps from their middle, and how high it is there."""
    bx, by = mul(op, sub(op, f[1][2], f[1][0]), -0.5), mul(op, sub(op, f[2][1], f[0][1]), -0.5)
    twice = mul(op, f[1][1], 2.0)
    xx, yy = (sub(op, add(op, a, b), twice) for a, b in ((f[1][0], f[1][2]), (f[0][1], f[2][1])))
    xy = mul(op, sub(op, add(op, f[2][2], f[0][0]), add(op, f[2][0], f[0][2])), 0.25)
    determinant = sub(op, mul(op, xx, yy), square(op, xy))
    level = op.emit("Less", op.emit("Abs", determinant), op.const(_FLAT, np.float32))
    divisor = op.emit("Where", level, op.const(1.0, np.float32), determinant)
    dx = div(op, sub(op, mul(op, bx, yy), mul(op, by, xy)), divisor)
    dy = div(op, sub(op, mul(op, by, xx), mul(op, bx, xy)), divisor)
    # Too long a step is made shorter: its longer side is the farthest then.
    longest = op.emit("Max", op.emit("Abs", dx), op.emit("Abs", dy), op.const(_FARTHEST, np.float32))
    dx, dy = (div(op, mul(op, v, _FARTHEST), longest) for v in (dx, dy))
    zero = op.const(0.0, np.float32)
    dx, dy = (op.emit("Where", level, zero, v) for v in (dx, dy))
    slope = add(op, mul(op, bx, dx), mul(op, by, dy))
    bend = add(op, mul(op, xx, square(op, dx)), mul(op, xy, dx, dy, 2.0), mul(op, yy, square(op, dy)))
    return dx, dy, add(op, sub(op, f[1][1], slope), mul(op, bend, 0.5))
