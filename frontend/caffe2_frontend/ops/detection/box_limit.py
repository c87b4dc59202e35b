"""BoxWithNMSLimit: the detections of images by class, after thresholding, non-maximum suppression and a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add
from caffe2_frontend.emit.loop_concat import loop_concat
from caffe2_frontend.emit.shapes import END, Size, cast, indices, size, slice_axis, unsqueeze, vector
from caffe2_frontend.interop.types import FLOAT, INT32, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.detection.boxes import by_class
from caffe2_frontend.ops.detection.nms import Suppression, suppress

family = Family("box_limit")


@dataclass(frozen=True)
class _Limits:
    """The arguments that select detections.

    Attributes:
        score_threshold: the score that a detection must exceed.
        maximum: the maximum number of detections of an image; 0 or less for no limit.
        agnostic: whether all classes share one box per row (cls_agnostic_bbox_reg).
        background_first: whether the background is class 0 of scores and boxes; otherwise it is the last of the scores.
        first_class: the number of the first foreground class in the output.
        suppression: how non-maximum suppression treats overlapping boxes.
    """

    score_threshold: float
    maximum: int
    agnostic: bool
    background_first: bool
    first_class: int
    suppression: Suppression

    @property
    def dims(self) -> int:
        """The number of elements of a box."""
        return 5 if self.suppression.rotated else 4


def _limits(op: Op) -> _Limits:
    """Read the arguments."""
    soft: Literal["", "linear", "gaussian"] = ""
    method = op.args.text("soft_nms_method", default="linear")
    if op.args.flag("soft_nms_enabled", default=False):
        soft = "linear" if method == "linear" else "gaussian"
    if method not in ("linear", "gaussian"):
        op.unsupported(f"soft_nms_method must be linear or gaussian, not {method!r}", code="invalid-argument")
    maximum = op.args.integer("detections_per_im", default=100)
    suppression = Suppression(
        op.args.number("nms", default=0.3),
        op.args.flag("rotated", default=False),
        op.args.flag("legacy_plus_one", default=True),
        limit=maximum if maximum > 0 and not soft else None,
        soft=soft,
        sigma=op.args.number("soft_nms_sigma", default=0.5),
        lowest=op.args.number("soft_nms_min_score_thres", default=0.001),
    )
    return _Limits(
        op.args.number("score_thresh", default=0.05),
        maximum,
        op.args.flag("cls_agnostic_bbox_reg", default=False),
        op.args.flag("input_boxes_include_bg_cls", default=True),
        1 if op.args.flag("output_classes_include_bg_cls", default=True) else 0,
        suppression,
    )


def _image(op: Op, scores: Value, boxes: Value, how: _Limits) -> tuple[list[Value], Value]:
    """Return an image's detections: scores, boxes, classes and row indices, [k, ...]; and the number per class, [C]."""
    foreground = (1, END) if how.background_first else (0, -1)
    by_row = slice_axis(op, scores, 1, *foreground)
    class_scores = op.emit("Transpose", by_row, perm=[1, 0])
    class_boxes = op.emit("Transpose", by_class(op, boxes, how.dims), perm=[1, 0, 2])
    if how.agnostic:
        shape = vector(op, [size(op, class_scores, 0), size(op, class_scores, 1), how.dims])
        class_boxes = op.emit("Expand", class_boxes, shape, shape=[*op.shape(class_scores), how.dims])
    elif how.background_first:
        class_boxes = slice_axis(op, class_boxes, 0, 1, END)
    candidates = op.emit("Greater", class_scores, op.const(how.score_threshold, np.float32))
    group, index, score = suppress(op, class_boxes, class_scores, candidates, how.suppression)
    if how.maximum > 0:
        group, index, score = _best(op, group, index, score, how.maximum)
    locations = op.emit("Concat", unsqueeze(op, group, [1]), unsqueeze(op, index, [1]), axis=1)
    classes = cast(op, add(op, group, how.first_class), FLOAT)
    every_class = unsqueeze(op, indices(op, size(op, scores, 1)), [1])
    of_class = cast(op, op.emit("Equal", every_class, add(op, group, 1)), ir.DataType.INT64)
    counts = op.emit("ReduceSum", of_class, op.const([1], np.int64), keepdims=0)
    kept = op.emit("GatherND", class_boxes, locations)
    return [score, kept, classes, cast(op, index, INT32)], cast(op, counts, INT32)


def _best(op: Op, group: Value, index: Value, score: Value, maximum: int) -> tuple[Value, Value, Value]:
    """Return the ``maximum`` best detections of an image, still ordered by class: the best indices are sorted again."""
    count = op.emit("Min", op.emit("Shape", score), op.const([maximum], np.int64))
    _, best = op.emit("TopK", score, count, axis=0, outputs=2)
    kept, _ = op.emit("TopK", best, count, axis=0, largest=0, outputs=2)
    group, index, score = (op.emit("Gather", v, kept, axis=0) for v in (group, index, score))
    return group, index, score


def _operand(_: OpView, index: int) -> TensorInfo:
    """Describe scores and boxes as matrices, and batch_splits as a vector."""
    return TensorInfo(FLOAT, (None, None) if index < 2 else (None,))


@family.converts("BoxWithNMSLimit", expects=_operand)
def box_with_nms_limit(op: Op) -> tuple[Value, ...]:
    """BoxWithNMSLimit(scores, boxes[, batch_splits]; ...) -> scores, boxes, classes[, batch_splits, keeps, keeps_size].

    Scores are [R, classes], boxes [R, 4 * classes] (5 if rotated). The arguments are score_thresh=0.05, nms=0.3,
    detections_per_im=100, rotated=0, cls_agnostic_bbox_reg=0, input_boxes_include_bg_cls=1,
    output_classes_include_bg_cls=1, legacy_plus_one=1, soft_nms_enabled=0, soft_nms_method="linear",
    soft_nms_sigma=0.5 and soft_nms_min_score_thres=0.001. batch_splits is the number of rows of each image, and in the
    output of its detections; keeps are their rows within the image, keeps_size [images, classes] counts them by class.

    Of boxes with equal scores the first is taken; Caffe2 sorts them in an unspecified order.
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

        specs: list[tuple[ir.DataType, tuple[int, ...]]] = [
            (FLOAT, ()),
            (FLOAT, (how.dims,)),
            (FLOAT, ()),
            (INT32, ()),
        ]
        trips: Size = size(op, splits, 0)
        found, (counts, totals) = loop_concat(op, trips, specs, image)
    return *found[:3], cast(op, totals, FLOAT), found[3], counts


def _rows(op: Op, x: Value, start: Value, end: Value) -> Value:
    """Return the rows [start, end) of a matrix."""
    return op.emit("Slice", x, start, end, op.const([0], np.int64), shape=[None, op.shape(x)[1]])


def _matrix(op: Op, x: Value) -> Value:
    """Remove the two last dims of size one that scores and boxes may have."""
    return op.emit("Squeeze", x, op.const([2, 3], np.int64)) if op.rank(x) == 4 else x
