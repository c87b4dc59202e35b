"""GenerateProposals: boxes from the scores and deltas of a region proposal network (RPN) at every anchor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, mul, reciprocal
from caffe2_frontend.emit.loop_concat import loop_concat
from caffe2_frontend.emit.operand_checks import require_rank
from caffe2_frontend.emit.shapes import Size, cast, product, reshape, size, sizes, unsqueeze, vector
from caffe2_frontend.interop.types import FLOAT, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.detection.boxes import (
    BoxArguments,
    box_arguments,
    clipped,
    columns,
    joined,
    large_enough,
    transformed,
)
from caffe2_frontend.ops.detection.nms import Suppression, suppress

family = Family("proposals")

# The operands of GenerateProposals, and their ranks.
_OPERANDS: Final = (("scores", 4), ("bbox_deltas", 4), ("im_info", 2), ("anchors", 2))


@dataclass(frozen=True)
class _Selection:
    """The arguments that select proposals.

    Attributes:
        stride: the distance of anchors in pixels.
        pre_nms_count: the number of boxes, by score, that go into non-maximum suppression; 0 or less for all.
        post_nms_count: the maximum number of proposals of an image; 0 or less for no limit.
        threshold: the overlap above which a box is suppressed.
        min_size: the minimum side of a box, in pixels of the unscaled image.
        boxes: the interpretation of boxes.
    """

    stride: float
    pre_nms_count: int
    post_nms_count: int
    threshold: float
    min_size: float
    boxes: BoxArguments


def _selection(op: Op, *, rotated: bool) -> _Selection:
    """Read the arguments."""
    # Old nets misspell nms_thresh, which Caffe2 ignores.
    op.args.ignore("nms_thres")
    return _Selection(
        reciprocal(op.args.number("spatial_scale", default=1 / 16)),
        op.args.integer("pre_nms_topN", default=6000),
        op.args.integer("post_nms_topN", default=300),
        op.args.number("nms_thresh", default=0.7),
        op.args.number("min_size", default=16.0),
        box_arguments(op, rotated=rotated),
    )


@family.converts(
    "GenerateProposals",
    "GenerateProposalsCPP",
    expects={i: TensorInfo(FLOAT, (None,) * rank) for i, (_, rank) in enumerate(_OPERANDS)},
)
def generate_proposals(op: Op) -> tuple[Value, ...]:
    """GenerateProposals | GenerateProposalsCPP(scores, bbox_deltas, im_info, anchors; ...) -> rois, rois_probs.

    Scores are [N, A, H, W], deltas [N, A * 4, H, W], anchors [A, 4] (5 if rotated), rois [k, 5] (6) with the index of
    the image first. The arguments are spatial_scale=1/16, pre_nms_topN=6000, post_nms_topN=300, nms_thresh=0.7,
    min_size=16 and those of :func:`box_arguments`. The width of the anchors must be known at conversion.
    """
    op.args.ignore("correct_transform_coords")
    for value, (what, rank) in zip(op.inputs, _OPERANDS, strict=True):
        require_rank(op, value, rank, what)
    images = [op.shape(value)[0] for value in op.inputs[:3]]
    op.dims.name(images[0], "N")
    for image in images[1:]:
        op.dims.equate(images[0], image)
    dims = op.static_dim(op.input(3), 1)
    if dims is not None and dims not in (4, 5):
        op.unsupported(f"anchors must have 4 or 5 columns, not {dims}", code="invalid-operands")
    if dims is None:
        op.needs_shape("the number of columns of the anchors, 4 or 5 if boxes are rotated, is unknown")
    return tuple(_proposals(op, rotated=dims == 5))


def _proposals(op: Op, *, rotated: bool) -> list[Value]:
    """Emit a Loop over the images that concatenates their proposals."""
    how = _selection(op, rotated=rotated)
    scores, info, anchors = op.input(0), op.input(2), op.input(3)
    count, height, width = sizes(op, scores, 1)
    pixels = product(op, [height, width])
    total = product(op, [count, pixels])
    # Of each image: [A * H * W] scores, and as many rows of deltas.
    flat_scores = reshape(op, scores, [size(op, scores, 0), total])
    deltas = reshape(op, op.input(1), [size(op, scores, 0), count, how.boxes.dims, pixels])
    deltas = op.emit("Transpose", deltas, perm=[0, 1, 3, 2])
    flat_deltas = reshape(op, deltas, [size(op, scores, 0), total, how.boxes.dims])
    all_anchors = _anchors_at_pixels(op, anchors, pixels, width, how)

    def image(inside: Op, index: Value) -> tuple[list[Value], list[Value]]:
        own_scores, own_deltas, own_info = (
            inside.emit("Gather", v, index, axis=0) for v in (flat_scores, flat_deltas, info)
        )
        boxes, kept = _of_image(inside, own_scores, own_deltas, all_anchors, own_info, how)
        rows = inside.emit("Shape", kept)
        image_index = inside.emit("Expand", cast(inside, index, FLOAT), rows, shape=[None])
        return [joined(inside, [unsqueeze(inside, image_index, [1]), boxes]), kept], []

    specs: list[tuple[ir.DataType, tuple[int, ...]]] = [(FLOAT, (how.boxes.dims + 1,)), (FLOAT, ())]
    return loop_concat(op, size(op, scores, 0), specs, image)[0]


def _anchors_at_pixels(op: Op, anchors: Value, pixels: Size, width: Size, how: _Selection) -> Value:
    """Return the anchors shifted to every pixel of the map, [A * H * W, dims]."""
    index = op.emit("Range", op.const(0, np.int64), op.emit("Squeeze", vector(op, [pixels])), op.const(1, np.int64))
    columns_of_map = op.emit("Mod", index, op.emit("Squeeze", vector(op, [width])))
    rows_of_map = op.emit("Div", index, op.emit("Squeeze", vector(op, [width])))
    x, y = (unsqueeze(op, mul(op, cast(op, v, FLOAT), how.stride), [1]) for v in (columns_of_map, rows_of_map))
    zero = mul(op, x, 0.0)
    shift = joined(op, [x, y, zero, zero, zero] if how.boxes.rotated else [x, y, x, y])
    shifted = add(op, unsqueeze(op, anchors, [1]), unsqueeze(op, shift, [0]))
    return reshape(op, shifted, [product(op, [size(op, anchors, 0), pixels]), how.boxes.dims])


def _of_image(
    op: Op, scores: Value, deltas: Value, anchors: Value, info: Value, how: _Selection
) -> tuple[Value, Value]:
    """Return the proposals of one image, [k, dims], and their scores, [k].

    The best boxes are transformed and clipped, small ones are dropped, and overlapping ones suppressed.
    """
    count = op.emit("Shape", scores)
    if how.pre_nms_count > 0:
        count = op.emit("Min", count, op.const([how.pre_nms_count], np.int64))
    best, order = op.emit("TopK", scores, count, axis=0, largest=1, sorted=1, outputs=2)
    boxes, moves = (columns(op, op.emit("Gather", v, order, axis=0), how.boxes.dims) for v in (anchors, deltas))
    height, width, scale = columns(op, info, 3)
    # Caffe2 clips to the integer size of the image, but compares centers with the real one.
    integer_height, integer_width = (cast(op, cast(op, v, ir.DataType.INT64), FLOAT) for v in (height, width))
    moved = clipped(op, transformed(op, boxes, moves, (1.0,) * 4, how.boxes), integer_height, integer_width, how.boxes)
    good = large_enough(op, moved, mul(op, scale, how.min_size), height, width, how.boxes)
    found = joined(op, moved)
    after = how.post_nms_count if how.post_nms_count > 0 else None
    suppression = Suppression(how.threshold, how.boxes.rotated, how.boxes.plus_one, limit=after)
    candidates = op.emit("Transpose", good, perm=[1, 0])
    _, kept, score = suppress(op, unsqueeze(op, found, [0]), unsqueeze(op, best, [0]), candidates, suppression)
    return op.emit("Gather", found, kept, axis=0), score
