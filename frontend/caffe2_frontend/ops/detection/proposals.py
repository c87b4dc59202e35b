"""GenerateProposals: boxes from a region proposal network's scores and deltas at every anchor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, mul
from caffe2_frontend.emit.loop_concat import loop_concat
from caffe2_frontend.emit.shapes import Size, cast, product, reshape, size, sizes, unsqueeze, vector
from caffe2_frontend.emit.subgraphs import branch
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


@dataclass(frozen=True)
class _Selection:
    """Which boxes are proposals: ``before`` that many by score, no side under ``side``, ``after`` that many at last."""

    stride: float
    before: int
    after: int
    threshold: float
    side: float
    boxes: BoxArguments


def _selection(op: Op, *, rotated: bool) -> _Selection:
    # Old nets misspell nms_thresh, and Caffe2 does not heed it.
    op.args.ignore("nms_thres")
    return _Selection(
        float(np.float32(1.0) / np.float32(op.args.number("spatial_scale", default=1 / 16))),
        op.args.integer("pre_nms_topN", default=6000),
        op.args.integer("post_nms_topN", default=300),
        op.args.number("nms_thresh", default=0.7),
        op.args.number("min_size", default=16.0),
        box_arguments(op, rotated=rotated),
    )


@family.converts(
    "GenerateProposals",
    "GenerateProposalsCPP",
    expects={i: TensorInfo(FLOAT, (None,) * rank) for i, rank in enumerate((4, 4, 2, 2))},
)
def generate_proposals(op: Op) -> tuple[Value, ...]:
    """Proposals, each after the number of its image, and their scores. Anchors of 5 columns are rotated."""
    op.args.ignore("correct_transform_coords")
    dims = op.static_dim(op.input(3), 1)
    if dims is not None and dims not in (4, 5):
        op.unsupported(f"an anchor has 4 or 5 numbers, not {dims}", code="invalid-operands")
    if dims is not None:
        return tuple(_proposals(op, rotated=dims == 5))
    upright = op.emit("Equal", op.emit("Shape", op.input(3), start=1, end=2), op.const([4], np.int64))
    results = branch(
        op,
        op.emit("Squeeze", upright),
        lambda inside: _proposals(inside, rotated=False),
        lambda inside: _proposals(inside, rotated=True),
    )
    return tuple(results)


def _proposals(op: Op, *, rotated: bool) -> list[Value]:
    how = _selection(op, rotated=rotated)
    scores, info, anchors = op.input(0), op.input(2), op.input(3)
    count, height, width = sizes(op, scores, 1)
    places = product(op, [height, width])
    total = product(op, [count, places])
    # Of each image: [A * H * W] scores, and as many rows of deltas.
    flat_scores = reshape(op, scores, [size(op, scores, 0), total])
    deltas = reshape(op, op.input(1), [size(op, scores, 0), count, how.boxes.dims, places])
    deltas = op.emit("Transpose", deltas, perm=[0, 1, 3, 2])
    flat_deltas = reshape(op, deltas, [size(op, scores, 0), total, how.boxes.dims])
    everywhere = _everywhere(op, anchors, places, width, how)

    def image(inside: Op, index: Value) -> tuple[list[Value], list[Value]]:
        own_scores, own_deltas, own_info = (
            inside.emit("Gather", v, index, axis=0) for v in (flat_scores, flat_deltas, info)
        )
        boxes, kept = _of_image(inside, own_scores, own_deltas, everywhere, own_info, how)
        rows = inside.emit("Shape", kept)
        number = inside.emit("Expand", cast(inside, index, FLOAT), rows, shape=[None])
        return [joined(inside, [unsqueeze(inside, number, [1]), boxes]), kept], []

    kinds: list[tuple[ir.DataType, tuple[int, ...]]] = [(FLOAT, (how.boxes.dims + 1,)), (FLOAT, ())]
    return loop_concat(op, size(op, scores, 0), kinds, image)[0]


def _everywhere(op: Op, anchors: Value, places: Size, width: Size, how: _Selection) -> Value:
    """The anchors at every place, [A * H * W, dims]."""
    number = op.emit("Range", op.const(0, np.int64), op.emit("Squeeze", vector(op, [places])), op.const(1, np.int64))
    columns_of_map = op.emit("Mod", number, op.emit("Squeeze", vector(op, [width])))
    rows_of_map = op.emit("Div", number, op.emit("Squeeze", vector(op, [width])))
    x, y = (unsqueeze(op, mul(op, cast(op, v, FLOAT), how.stride), [1]) for v in (columns_of_map, rows_of_map))
    zero = mul(op, x, 0.0)
    shift = joined(op, [x, y, zero, zero, zero] if how.boxes.rotated else [x, y, x, y])
    at_places = add(op, unsqueeze(op, anchors, [1]), unsqueeze(op, shift, [0]))
    return reshape(op, at_places, [product(op, [size(op, anchors, 0), places]), how.boxes.dims])


def _of_image(
    op: Op, scores: Value, deltas: Value, anchors: Value, info: Value, how: _Selection
) -> tuple[Value, Value]:
    """The proposals of one image, [k, dims], and their scores."""
    count = op.emit("Shape", scores)
    if how.before > 0:
        count = op.emit("Min", count, op.const([how.before], np.int64))
    best, order = op.emit("TopK", scores, count, axis=0, largest=1, sorted=1, outputs=2)
    boxes, moves = (columns(op, op.emit("Gather", v, order, axis=0), how.boxes.dims) for v in (anchors, deltas))
    height, width, scale = columns(op, info, 3)
    whole_height, whole_width = (cast(op, cast(op, v, ir.DataType.INT64), FLOAT) for v in (height, width))
    moved = clipped(op, transformed(op, boxes, moves, (1.0,) * 4, how.boxes), whole_height, whole_width, how.boxes)
    good = large_enough(op, moved, mul(op, scale, how.side), height, width, how.boxes)
    found = joined(op, moved)
    after = how.after if how.after > 0 else None
    suppression = Suppression(how.threshold, how.boxes.rotated, how.boxes.plus_one, limit=after)
    candidates = op.emit("Transpose", good, perm=[1, 0])
    _, kept, score = suppress(op, unsqueeze(op, found, [0]), unsqueeze(op, best, [0]), candidates, suppression)
    return op.emit("Gather", found, kept, axis=0), score
