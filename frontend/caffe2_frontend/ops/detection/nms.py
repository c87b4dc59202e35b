"""Non-maximum suppression: ONNX's where boxes are upright and dropped, else a Loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul, square, sub
from caffe2_frontend.emit.shapes import cast, squeeze, unsqueeze
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.detection.boxes import columns, joined, shifted
from caffe2_frontend.ops.detection.rotated_overlap import intersection

_FAR: Final = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Suppression:
    """What happens to a box that overlaps one of a higher score.

    ``soft``: its score is lowered, "linear" or "gaussian" (with ``sigma``), and it is dropped under ``lowest``; else it
    is dropped where the overlap is above ``threshold``. ``limit``: how many boxes a class keeps, None for all.
    """

    threshold: float
    rotated: bool
    plus_one: bool
    limit: int | None = None
    soft: Literal["", "linear", "gaussian"] = ""
    sigma: float = 0.5
    lowest: float = 0.001


def suppress(op: Op, boxes: Value, scores: Value, candidates: Value, how: Suppression) -> tuple[Value, Value, Value]:
    """The boxes that are kept, class by class, those of a class from the highest score to the lowest.

    Args:
        op: the operator under conversion.
        boxes: [C, n, 4 or 5].
        scores: [C, n].
        candidates: which boxes are asked for at all, [C, n] bool.
        how: what happens to boxes that overlap.

    Returns:
        The class and the number of each box that is kept, and its score, [k].
    """
    if how.soft or how.rotated:
        return _one_by_one(op, boxes, scores, candidates, how)
    return _at_once(op, boxes, scores, candidates, how)


def _at_once(op: Op, boxes: Value, scores: Value, candidates: Value, how: Suppression) -> tuple[Value, Value, Value]:
    """ONNX's areas are without the pixel that Caffe2 may add: it is added to the corners.

    Where it is not, boxes may have no area: their overlap is no number in Caffe2, and only the first of them is kept.
    """
    if not how.plus_one:
        candidates = _one_empty(op, boxes, scores, candidates, how)
    x1, y1, x2, y2 = columns(op, boxes, 4)
    pixel = 1.0 if how.plus_one else 0.0
    corners = joined(op, [x1, y1, shifted(op, x2, pixel), shifted(op, y2, pixel)])
    masked = op.emit("Where", candidates, scores, op.const(_FAR, scores))
    most = np.iinfo(np.int64).max if how.limit is None else how.limit
    # Every overlap is above a threshold below 0: only the first box of a class is kept.
    limit, threshold = (1, 0.0) if how.threshold < 0 else (most, min(how.threshold, 1.0))
    picked = op.emit(
        "NonMaxSuppression",
        corners,
        unsqueeze(op, masked, [1]),
        op.const([limit], np.int64),
        op.const([threshold], np.float32),
        op.const([_FAR], np.float32),
    )
    group, _, number = (squeeze(op, part, [1]) for part in op.emit("Split", picked, axis=1, num_outputs=3, outputs=3))
    return group, number, op.emit("GatherND", scores, op.emit("Gather", picked, op.const([0, 2], np.int64), axis=1))


def _one_empty(op: Op, boxes: Value, scores: Value, candidates: Value, how: Suppression) -> Value:
    """The candidates without all boxes that have no area, but for the best of them in each class."""
    empty = op.emit("And", candidates, op.emit("Equal", _area(op, boxes, how), op.const(0.0, np.float32)))
    masked = op.emit("Where", empty, scores, op.const(-np.inf, np.float32))
    count = op.emit("Shape", scores, start=1, end=2)
    _, best = op.emit("TopK", masked, op.emit("Min", count, op.const([1], np.int64)), axis=1, outputs=2)
    first = op.emit("Equal", op.emit("Range", *_bounds(op, scores)), best)
    return op.emit("And", candidates, op.emit("Or", op.emit("Not", empty), first))


def _one_by_one(op: Op, boxes: Value, scores: Value, candidates: Value, how: Suppression) -> tuple[Value, Value, Value]:
    """Each step keeps the best box left of every class, and drops or weakens those that overlap it."""
    area, corners = _area(op, boxes, how), columns(op, boxes, 5 if how.rotated else 4)

    def step(inside: Op, state: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        now, left = state
        masked = inside.emit("Where", left, now, inside.const(-np.inf, np.float32))
        best = inside.emit("ArgMax", masked, axis=1, keepdims=1)
        valid = inside.emit("GatherElements", left, best, axis=1)
        score = inside.emit("GatherElements", now, best, axis=1)
        one = [inside.emit("GatherElements", c, unsqueeze(inside, best, [2]), axis=1) for c in corners]
        inter = _intersection(inside, one, corners, how)
        own = inside.emit("GatherElements", area, best, axis=1)
        overlap = div(inside, inter, sub(inside, add(inside, area, own), inter))
        numbers = inside.emit("Range", *_bounds(inside, masked))
        others = inside.emit("And", left, inside.emit("Not", inside.emit("Equal", numbers, best)))
        new, left = _weakened(inside, now, others, overlap, how)
        going = inside.emit("Less", inside.const(0, np.int64), _count(inside, left))
        return [going, new, left], [squeeze(inside, v, [1]) for v in (valid, best, score)]

    go = op.emit("Less", op.const(0, np.int64), _count(op, candidates))
    trips = None if how.limit is None else how.limit
    _, (valid, best, score) = loop(op, trips, go, [scores, candidates], step)
    valid, best, score = (op.emit("Transpose", v, perm=[1, 0]) for v in (valid, best, score))
    places = op.emit("Transpose", op.emit("NonZero", valid), perm=[1, 0])
    group = op.emit("Gather", places, op.const(0, np.int64), axis=1)
    return group, op.emit("GatherND", best, places), op.emit("GatherND", score, places)


def _weakened(op: Op, scores: Value, others: Value, overlap: Value, how: Suppression) -> tuple[Value, Value]:
    """The other boxes' scores after a step, and which of the boxes are left."""
    beyond = op.emit("Greater", overlap, op.const(how.threshold, np.float32))
    if not how.soft:
        # A comparison with "not a number" (of two boxes without an area) is false: such a box is dropped.
        within = op.emit("LessOrEqual", overlap, op.const(how.threshold, np.float32))
        return scores, op.emit("And", others, within)
    if how.soft == "linear":
        weight = op.emit("Where", beyond, sub(op, 1.0, overlap), op.const(1.0, np.float32))
    else:
        weight = op.emit("Exp", mul(op, square(op, overlap), -1.0 / how.sigma))
    new = op.emit("Where", others, mul(op, scores, weight), scores)
    return new, op.emit("And", others, op.emit("GreaterOrEqual", new, op.const(how.lowest, np.float32)))


def _area(op: Op, boxes: Value, how: Suppression) -> Value:
    parts = columns(op, boxes, 5 if how.rotated else 4)
    pixel = 1.0 if how.plus_one else 0.0
    if how.rotated:
        width, height = parts[2], parts[3]
    else:
        width, height = (shifted(op, sub(op, parts[i + 2], parts[i]), pixel) for i in (0, 1))
    return squeeze(op, mul(op, width, height), [2])


def _intersection(op: Op, one: list[Value], many: list[Value], how: Suppression) -> Value:
    """The areas that one box of every class, [C, 1, 1], shares with all of it, [C, n]."""
    if how.rotated:
        return intersection(op, one, many)
    pixel = 1.0 if how.plus_one else 0.0
    sides = []
    for i in (0, 1):
        start, end = op.emit("Max", one[i], many[i]), op.emit("Min", one[i + 2], many[i + 2])
        sides.append(op.emit("Max", shifted(op, sub(op, end, start), pixel), op.const(0.0, np.float32)))
    return squeeze(op, mul(op, *sides), [2])


def _bounds(op: Op, scores: Value) -> tuple[Value, Value, Value]:
    end = op.emit("Squeeze", op.emit("Shape", scores, start=1, end=2))
    return op.const(0, np.int64), end, op.const(1, np.int64)


def _count(op: Op, flags: Value) -> Value:
    return op.emit("ReduceSum", cast(op, flags, ir.DataType.INT64), keepdims=0, shape=[])
