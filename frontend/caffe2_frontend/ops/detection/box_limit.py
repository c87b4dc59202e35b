"""BoxWithNMSLimit: the detections of images, class by class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add
from caffe2_frontend.emit.loop_concat import loop_concat
from caffe2_frontend.emit.shapes import Size, cast, indices, size, slice_axis, unsqueeze, vector
from caffe2_frontend.interop.types import FLOAT, INT32, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.detection.boxes import by_class
from caffe2_frontend.ops.detection.nms import Suppression, suppress

family = Family("box_limit")

_LAST = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class _Limits:
    """Which boxes are detections: those of a score above ``least``, at most ``most`` of an image (0: all)."""

    least: float
    most: int
    agnostic: bool
    background_first: bool
    first_class: int
    suppression: Suppression

    @property
    def dims(self) -> int:
        return 5 if self.suppression.rotated else 4


def _limits(op: Op) -> _Limits:
    soft: Literal["", "linear", "gaussian"] = ""
    method = op.args.text("soft_nms_method", default="linear")
    if op.args.flag("soft_nms_enabled", default=False):
        soft = "linear" if method == "linear" else "gaussian"
    if method not in ("linear", "gaussian"):
        op.unsupported(f"there is no soft_nms_method {method!r}", code="invalid-argument")
    most = op.args.integer("detections_per_im", default=100)
    suppression = Suppression(
        op.args.number("nms", default=0.3),
        op.args.flag("rotated", default=False),
        op.args.flag("legacy_plus_one", default=True),
        limit=most if most > 0 and not soft else None,
        soft=soft,
        sigma=op.args.number("soft_nms_sigma", default=0.5),
        lowest=op.args.number("soft_nms_min_score_thres", default=0.001),
    )
    return _Limits(
        op.args.number("score_thresh", default=0.05),
        most,
        op.args.flag("cls_agnostic_bbox_reg", default=False),
        op.args.flag("input_boxes_include_bg_cls", default=True),
        1 if op.args.flag("output_classes_include_bg_cls", default=True) else 0,
        suppression,
    )


def _image(op: Op, scores: Value, boxes: Value, how: _Limits) -> tuple[list[Value], Value]:
    """The detections of one image: scores, boxes, classes and row numbers, [k, ...]; and how many each class has, [C].

    The background is the first column of scores where boxes have one for it too, else the last.
    """
    foreground = (1, _LAST) if how.background_first else (0, -1)
    by_row = slice_axis(op, scores, 1, *foreground)
    class_scores = op.emit("Transpose", by_row, perm=[1, 0])
    class_boxes = op.emit("Transpose", by_class(op, boxes, how.dims), perm=[1, 0, 2])
    if how.agnostic:
        shape = vector(op, [size(op, class_scores, 0), size(op, class_scores, 1), how.dims])
        class_boxes = op.emit("Expand", class_boxes, shape, shape=[*op.shape(class_scores), how.dims])
    elif how.background_first:
        class_boxes = slice_axis(op, class_boxes, 0, 1, _LAST)
    candidates = op.emit("Greater", class_scores, op.const(how.least, np.float32))
    group, number, score = suppress(op, class_boxes, class_scores, candidates, how.suppression)
    if how.most > 0:
        group, number, score = _best(op, group, number, score, how.most)
    places = op.emit("Concat", unsqueeze(op, group, [1]), unsqueeze(op, number, [1]), axis=1)
    classes = cast(op, add(op, group, how.first_class), FLOAT)
    each = unsqueeze(op, indices(op, size(op, scores, 1)), [1])
    of_class = cast(op, op.emit("Equal", each, add(op, group, 1)), ir.DataType.INT64)
    counts = op.emit("ReduceSum", of_class, op.const([1], np.int64), keepdims=0)
    kept = op.emit("GatherND", class_boxes, places)
    return [score, kept, classes, cast(op, number, INT32)], cast(op, counts, INT32)


def _best(op: Op, group: Value, number: Value, score: Value, most: int) -> tuple[Value, Value, Value]:
    """The image's ``most`` best detections, still class by class."""
    count = op.emit("Min", op.emit("Shape", score), op.const([most], np.int64))
    _, best = op.emit("TopK", score, count, axis=0, outputs=2)
    places, _ = op.emit("TopK", best, count, axis=0, largest=0, outputs=2)
    group, number, score = (op.emit("Gather", v, places, axis=0) for v in (group, number, score))
    return group, number, score


def _operand(_: OpView, index: int) -> TensorInfo:
    return TensorInfo(FLOAT, (None, None) if index < 2 else (None,))


@family.converts("BoxWithNMSLimit", expects=_operand)
def box_with_nms_limit(op: Op) -> tuple[Value, ...]:
    """Scores, boxes and classes of the detections, how many each image has, and their rows and how many each class has.

    Among boxes of equal scores the first is taken; Caffe2's order of them is that of an unstable sort.
    """
    how = _limits(op)
    scores, boxes = (_matrix(op, op.input(i)) for i in (0, 1))
    splits = op.optional(2)
    if splits is None:
        found, counts = _image(op, scores, boxes, how)
        totals = op.emit("Shape", found[0])
        counts = unsqueeze(op, counts, [0])
    else:
        lengths = cast(op, splits, ir.DataType.INT64)
        starts = op.emit("CumSum", lengths, op.const(0, np.int64), exclusive=1)

        def image(inside: Op, index: Value) -> tuple[list[Value], list[Value]]:
            row = unsqueeze(inside, index, [0])
            start, length = (inside.emit("Gather", v, row) for v in (starts, lengths))
            end = add(inside, start, length)
            detections, counts = _image(
                inside, _rows(inside, scores, start, end), _rows(inside, boxes, start, end), how
            )
            return detections, [counts, inside.emit("Squeeze", inside.emit("Shape", detections[0]))]

        kinds: list[tuple[ir.DataType, tuple[int, ...]]] = [
            (FLOAT, ()),
            (FLOAT, (how.dims,)),
            (FLOAT, ()),
            (INT32, ()),
        ]
        trips: Size = size(op, splits, 0)
        found, (counts, totals) = loop_concat(op, trips, kinds, image)
    return *found[:3], cast(op, totals, FLOAT), found[3], counts


def _rows(op: Op, x: Value, start: Value, end: Value) -> Value:
    return op.emit("Slice", x, start, end, op.const([0], np.int64), shape=[None, op.shape(x)[1]])


def _matrix(op: Op, x: Value) -> Value:
    """A matrix, which may be given with two more dims of one."""
    return op.emit("Squeeze", x, op.const([2, 3], np.int64)) if op.rank(x) == 4 else x
