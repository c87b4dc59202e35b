"""Non-maximum suppression."""

from __future__ import annotations

from dataclasses import dataclass

from caffe2_backend.emit.broadcast import expand
from caffe2_backend.emit.loops import while_loop
from caffe2_backend.emit.masks import integer_list
from caffe2_backend.emit.selection import concat, gather, scatter_rows, slice_axis
from caffe2_backend.emit.shapes import Size, arange, as_vector, dim_of, dims_of, product, reshape, size_list
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import BOOL, FLOAT, INT32, INT64

family = Family("detection")

_LOWEST = -3.4028234663852886e38
# Where boxes without an area are moved to: further left than any image, each for itself.
_ELSEWHERE = -8388608.0


@dataclass(frozen=True)
class _Boxes:
    """The operands: boxes [N, M, 4] as two corners, scores [N, C, M], and the sizes N, C and M."""

    low: Value
    high: Value
    scores: Value
    images: Value
    classes: Value
    count: Value


@dataclass(frozen=True)
class _Kept:
    """Boxes that are not suppressed: their group (image and class), index, rank in the group and score."""

    group: Value
    index: Value
    rank: Value
    score: Value


@family.converts("NonMaxSuppression")
def non_max_suppression(op: Op) -> Value:
    """``NonMaxSuppression(boxes, scores, maximum=0, iou_threshold=0, score_threshold; center_point_box=0) -> indices``.

    BoxWithNMSLimit, whose images are the classes of all images; where the threshold of overlaps is computed at run
    time, comparisons of all pairs of boxes. The score's threshold and the maximum hold afterwards: a box suppresses
    only boxes of lower scores.
    """
    is_centered = op.args.flag("center_point_box", default=False)
    boxes, scores = op.require(op.input(0), FLOAT), op.require(op.input(1), FLOAT)
    images, classes, count = dims_of(op, scores, rank=3)
    first, second = slice_axis(op, boxes, 2, 0, 2), slice_axis(op, boxes, 2, 2, 4)
    if is_centered:
        low, high = first - second * 0.5, first + second * 0.5
    else:
        low, high = op.emit("Min", first, second), op.emit("Max", first, second)
    given = _Boxes(low, high, scores, images, classes, count)
    threshold = op.const(0.0, FLOAT) if not op.has_input(3) else op.input(3)
    known = threshold.array if threshold.array is not None else op.known(threshold)
    kept = _suppressed(op, given, threshold) if known is None else _limited(op, given, float(known.reshape(-1)[0]))
    maximum = integer_list(op, op.input(2)) if op.has_input(2) else op.const([0], INT64)
    selected = kept.rank < maximum
    if op.has_input(4):
        selected = selected & (kept.score > op.input(4).reshape([1]))
    group, index = (op.emit("BooleanMask", each, selected) for each in (kept.group, kept.index))
    size = as_vector(op, classes)
    image = group.quotient(size)
    columns = [each.reshape([-1, 1]) for each in (image, group - image * size, index)]
    return concat(op, columns, 1)


def _limited(op: Op, given: _Boxes, threshold: float) -> _Kept:
    """Select boxes by BoxWithNMSLimit, with the boxes of an image once for each of its classes.

    Boxes without an area overlap none: they are moved to where no other box is. (Caffe2 divides by their union.)
    """
    corners = concat(op, [given.low, given.high], 2)
    sizes = given.high - given.low
    has_area = op.emit("ReduceMin", sizes, axes=[2], keepdims=1) > 0.0
    places = (arange(op, given.count).cast(FLOAT) * 2.0 + _ELSEWHERE).reshape([1, -1, 1])
    elsewhere = places + op.const([0, 0, 1, 1], FLOAT)
    shape = op.emit("Shape", corners)
    mask = expand(op, has_area, shape)
    moved = op.emit("Where", mask, corners, expand(op, elsewhere, shape))
    by_class = reshape(op, moved, [given.images, 1, given.count, 4])
    repeated = expand(op, by_class, size_list(op, [given.images, given.classes, given.count, 4]))
    groups = product(op, [given.images, given.classes])
    scores = given.scores.reshape([-1, 1])
    lengths = _filled(op, groups, given.count)
    outputs = op.emit(
        "BoxWithNMSLimit", concat(op, [scores, scores], 1), repeated.reshape([-1, 4]), lengths.cast(FLOAT), outputs=6,
        score_thresh=_LOWEST, nms=threshold, detections_per_im=0, cls_agnostic_bbox_reg=1,
        input_boxes_include_bg_cls=0, output_classes_include_bg_cls=0, legacy_plus_one=0,
    )  # fmt: skip
    counts = op.blob(outputs[3].name, FLOAT).cast(INT32)
    group = op.emit("LengthsToSegmentIds", counts).cast(INT64)
    rank = op.emit("LengthsRangeFill", counts).cast(INT64)
    return _Kept(group, op.blob(outputs[4].name, INT32).cast(INT64), rank, op.blob(outputs[0].name, FLOAT))


def _filled(op: Op, length: Value, value: Value) -> Value:
    """Return a list of one number, int64."""
    return expand(op, as_vector(op, value), as_vector(op, length))


def _suppressed(op: Op, given: _Boxes, threshold: Value) -> _Kept:
    """Select boxes by comparing all pairs: a box is kept unless one that is kept, is ahead of it, and overlaps it.

    Which boxes are kept follows from those ahead of them: starting from all, each round settles the next of a chain of
    overlapping boxes, until nothing changes.
    """
    overlaps = _overlap(op, given) > threshold.reshape([1])
    groups = product(op, [given.images, given.classes])
    one, other = (reshape(op, given.scores, [groups, *dims]) for dims in ((given.count, 1), (1, given.count)))
    positions = arange(op, given.count)
    is_earlier = reshape(op, positions, [given.count, 1]) < positions
    is_ahead = (one > other) | (one.equals(other) & is_earlier)
    pairs = size_list(op, [given.images, given.classes, given.count, given.count])
    mask = expand(op, reshape(op, overlaps, [given.images, 1, given.count, given.count]), pairs)
    suppresses = (reshape(op, mask, [groups, given.count, given.count]) & is_ahead).cast(FLOAT)
    start = op.emit("ConstantFill", reshape(op, given.scores, [groups, 1, given.count]), dtype=FLOAT, value=1.0)

    def settle(kept: Value, _: Value) -> tuple[Value, Value, Value]:
        after = (op.emit("BatchMatMul", kept, suppresses) < 0.5).cast(FLOAT)
        differences = op.emit("ReduceSum", (after - kept).absolute(), axes=[0, 1, 2], keepdims=0)
        return (differences > 0.5).reshape([]), after, differences

    kept, _ = while_loop(op, op.const([1], BOOL), [start, op.const(1.0, FLOAT)], settle)
    ranks = op.emit("BatchMatMul", kept, is_ahead.cast(FLOAT)).reshape([-1]).cast(INT64)
    is_kept = kept.reshape([-1]) > 0.5
    found = op.emit("BooleanMask", arange(op, product(op, [groups, given.count])), is_kept)
    size = as_vector(op, given.count)
    group, rank = found.quotient(size), gather(op, ranks, 0, found)
    # Boxes stand in the order of their indices; they are wanted in the order of groups and ranks.
    order = _order(op, group * size + rank, found)
    return _Kept(
        gather(op, group, 0, order), gather(op, found - group * size, 0, order), gather(op, rank, 0, order),
        gather(op, given.scores.reshape([-1]), 0, gather(op, found, 0, order)),
    )  # fmt: skip


def _order(op: Op, keys: Value, like: Value) -> Value:
    """Return the indices of distinct integers in ascending order: each is written where as many keys are below it."""
    below = (keys.reshape([1, -1]) < keys.reshape([-1, 1])).cast(INT64)
    targets = op.emit("ReduceSum", below, axes=[1], keepdims=0)
    count = dim_of(op, like, 0)
    return scatter_rows(op, op.emit("Copy", like), [count], targets, arange(op, count))


def _overlap(op: Op, given: _Boxes) -> Value:
    """Return the intersection of each two boxes of an image by their union, [N, M, M]; 0 where one has no area."""
    low, high = given.low, given.high
    one: list[Size] = [given.images, given.count, 1, 2]
    other: list[Size] = [given.images, 1, given.count, 2]
    pairs = size_list(op, [given.images, given.count, given.count, 2])
    top = op.emit("Max", *(expand(op, reshape(op, low, dims), pairs) for dims in (one, other)))
    bottom = op.emit("Min", *(expand(op, reshape(op, high, dims), pairs) for dims in (one, other)))
    common = _area(op, op.emit("Relu", bottom - top), 3)
    area = _area(op, high - low, 2)
    left, right = (reshape(op, area, dims[:3]) for dims in (one, other))
    union = left + right - common
    is_proper = ((left > 0.0) & (right > 0.0)).cast(FLOAT)
    return common * is_proper / (union * is_proper + (1.0 - is_proper))


def _area(op: Op, sizes: Value, axis: int) -> Value:
    """Return the products of heights and widths."""
    height, width = (op.emit("Squeeze", slice_axis(op, sizes, axis, i, i + 1), dims=[axis]) for i in (0, 1))
    return height * width
