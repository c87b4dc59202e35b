"""Non-maximum suppression (NMS): ONNX's operator for upright boxes, a Loop for rotated boxes and for soft NMS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul, reciprocal, square, sub
from caffe2_frontend.emit.shapes import END, cast, squeeze, unsqueeze
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.detection.boxes import columns, shifted
from caffe2_frontend.ops.detection.rotated_overlap import intersection

_LOWEST: Final = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Suppression:
    """How a box that overlaps one of a higher score is treated. The overlap is the intersection over union (IoU).

    Attributes:
        threshold: without ``soft``, the overlap above which the box is dropped; the same of linear soft NMS.
        rotated: whether boxes are rotated.
        plus_one: whether widths and heights are ``x2 - x1 + 1`` (legacy_plus_one).
        limit: the maximum number of boxes that a class keeps, None for no limit.
        soft: the method by which the score is lowered; the box is dropped below ``lowest``.
        sigma: the width of the gaussian method.
        lowest: the minimum score.
    """

    threshold: float
    rotated: bool
    plus_one: bool
    limit: int | None = None
    soft: Literal["", "linear", "gaussian"] = ""
    sigma: float = 0.5
    lowest: float = 0.001


def suppress(op: Op, boxes: Value, scores: Value, candidates: Value, how: Suppression) -> tuple[Value, Value, Value]:
    """Select boxes, ordered by class and by descending score within a class.

    Args:
        op: the operator under conversion.
        boxes: [C, n, 4 or 5].
        scores: [C, n].
        candidates: the mask of boxes that may be selected, [C, n] bool.
        how: the treatment of boxes that overlap.

    Returns:
        The class, the index in [0, n) and the score of each selected box, [k].
    """
    if how.soft or how.rotated:
        return _loop_nms(op, boxes, scores, candidates, how)
    return _onnx_nms(op, boxes, scores, candidates, how)


def _onnx_nms(op: Op, boxes: Value, scores: Value, candidates: Value, how: Suppression) -> tuple[Value, Value, Value]:
    """Emit NonMaxSuppression. With legacy_plus_one the pixel that Caffe2 adds to sizes is added to the corners.

    Without it boxes may have area 0. The IoU of two of these is NaN in Caffe2, which drops all but the best of them;
    ONNX would keep them.
    """
    if not how.plus_one:
        candidates = _drop_empty(op, boxes, scores, candidates, how)
    corners = op.emit("Add", boxes, op.const([0.0, 0.0, 1.0, 1.0], boxes)) if how.plus_one else boxes
    masked = op.emit("Where", candidates, scores, op.const(_LOWEST, scores))
    maximum = END if how.limit is None else how.limit
    # No overlap is within a negative threshold, or one that is a NaN: a class keeps its best box alone.
    limit, threshold = (maximum, min(how.threshold, 1.0)) if how.threshold >= 0 else (1, 0.0)
    picked = op.emit(
        "NonMaxSuppression",
        corners,
        unsqueeze(op, masked, [1]),
        op.const([limit], np.int64),
        op.const([threshold], np.float32),
        op.const([_LOWEST], np.float32),
    )
    group, _, index = (squeeze(op, part, [1]) for part in op.emit("Split", picked, axis=1, num_outputs=3, outputs=3))
    return group, index, op.emit("GatherND", scores, op.emit("Gather", picked, op.const([0, 2], np.int64), axis=1))


def _drop_empty(op: Op, boxes: Value, scores: Value, candidates: Value, how: Suppression) -> Value:
    """Remove the boxes of area 0 from the candidates, but for the best of them in each class."""
    empty = op.emit("And", candidates, op.emit("Equal", _area(op, boxes, how), op.const(0.0, np.float32)))
    masked = op.emit("Where", empty, scores, op.const(-np.inf, np.float32))
    count = op.emit("Shape", scores, start=1, end=2)
    _, best = op.emit("TopK", masked, op.emit("Min", count, op.const([1], np.int64)), axis=1, outputs=2)
    first = op.emit("Equal", op.emit("Range", *_bounds(op, scores)), best)
    return op.emit("And", candidates, op.emit("Or", op.emit("Not", empty), first))


def _loop_nms(op: Op, boxes: Value, scores: Value, candidates: Value, how: Suppression) -> tuple[Value, Value, Value]:
    """Emit a Loop whose steps select the best box left of every class, and drop or weaken those that overlap it.

    All classes go together; a class that has no boxes left yields rows that are not valid. Each step drops a box of
    each class that has any, so that there are no more steps than boxes.
    """
    area, corners = _area(op, boxes, how), columns(op, boxes, 5 if how.rotated else 4)

    def step(inside: Op, state: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        now, left = state
        masked = inside.emit("Where", left, now, inside.const(_LOWEST, np.float32))
        best = inside.emit("ArgMax", masked, axis=1, keepdims=1)
        valid = inside.emit("GatherElements", left, best, axis=1)
        score = inside.emit("GatherElements", now, best, axis=1)
        one = [inside.emit("GatherElements", c, unsqueeze(inside, best, [2]), axis=1) for c in corners]
        inter = _intersection(inside, one, corners, how)
        own = inside.emit("GatherElements", area, best, axis=1)
        overlap = div(inside, inter, sub(inside, add(inside, area, own), inter))
        all_boxes = inside.emit("Range", *_bounds(inside, masked))
        others = inside.emit("And", left, inside.emit("Not", inside.emit("Equal", all_boxes, best)))
        new, left = _weaken(inside, now, others, overlap, how)
        going = inside.emit("Less", inside.const(0, np.int64), _count(inside, left))
        return [going, new, left], [squeeze(inside, v, [1]) for v in (valid, best, score)]

    go = op.emit("Less", op.const(0, np.int64), _count(op, candidates))
    _, boxes_of_class, _ = _bounds(op, scores)
    trips = boxes_of_class if how.limit is None else op.emit("Min", boxes_of_class, op.const(how.limit, np.int64))
    _, (valid, best, score) = loop(op, trips, go, [scores, candidates], step)
    valid, best, score = (op.emit("Transpose", v, perm=[1, 0]) for v in (valid, best, score))
    # [C, steps] without what is not valid, in the order of classes.
    locations = op.emit("Transpose", op.emit("NonZero", valid), perm=[1, 0])
    group = op.emit("Gather", locations, op.const(0, np.int64), axis=1)
    return group, op.emit("GatherND", best, locations), op.emit("GatherND", score, locations)


def _weaken(op: Op, scores: Value, others: Value, overlap: Value, how: Suppression) -> tuple[Value, Value]:
    """Return the scores after a step, and the mask of the boxes that are left, both [C, n]."""
    beyond = op.emit("Greater", overlap, op.const(how.threshold, np.float32))
    if not how.soft:
        # A comparison with NaN, the overlap of two boxes of area 0, is false: the box is dropped.
        within = op.emit("LessOrEqual", overlap, op.const(how.threshold, np.float32))
        return scores, op.emit("And", others, within)
    if how.soft == "linear":
        weight = op.emit("Where", beyond, sub(op, 1.0, overlap), op.const(1.0, np.float32))
    else:
        weight = op.emit("Exp", mul(op, square(op, overlap), -reciprocal(how.sigma)))
    new = op.emit("Where", others, mul(op, scores, weight), scores)
    return new, op.emit("And", others, op.emit("GreaterOrEqual", new, op.const(how.lowest, np.float32)))


def _area(op: Op, boxes: Value, how: Suppression) -> Value:
    """Return the areas of boxes [C, n, 4 or 5], [C, n]."""
    parts = columns(op, boxes, 5 if how.rotated else 4)
    pixel = 1.0 if how.plus_one else 0.0
    if how.rotated:
        width, height = parts[2], parts[3]
    else:
        width, height = (shifted(op, sub(op, parts[i + 2], parts[i]), pixel) for i in (0, 1))
    return squeeze(op, mul(op, width, height), [2])


def _intersection(op: Op, one: list[Value], many: list[Value], how: Suppression) -> Value:
    """Return the intersection areas of one box per class, columns [C, 1, 1], with all boxes of the class, [C, n]."""
    if how.rotated:
        return intersection(op, one, many)
    pixel = 1.0 if how.plus_one else 0.0
    sides = []
    for i in (0, 1):
        start, end = op.emit("Max", one[i], many[i]), op.emit("Min", one[i + 2], many[i + 2])
        sides.append(op.emit("Max", shifted(op, sub(op, end, start), pixel), op.const(0.0, np.float32)))
    return squeeze(op, mul(op, *sides), [2])


def _bounds(op: Op, scores: Value) -> tuple[Value, Value, Value]:
    """Return start, end and step of the range of box indices."""
    end = op.emit("Squeeze", op.emit("Shape", scores, start=1, end=2))
    return op.const(0, np.int64), end, op.const(1, np.int64)


def _count(op: Op, flags: Value) -> Value:
    """Return the number of true elements, int64 []."""
    return op.emit("ReduceSum", cast(op, flags, ir.DataType.INT64), keepdims=0, shape=[])
