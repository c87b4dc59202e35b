"""Region proposals of a feature pyramid network (FPN): collected from its levels, and distributed to levels by size."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add, div, mul, sqrt, sub
from caffe2_frontend.emit.shapes import cast, indices, size, squeeze
from caffe2_frontend.interop.types import FLOAT, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.detection.boxes import columns, shifted

family = Family("fpn")


def _levels(op: Op, kind: str, lowest: int, highest: int) -> tuple[int, int]:
    """Return the first and the last level of a kind, "rpn" or "roi"."""
    low = op.args.integer(f"{kind}_min_level", default=lowest)
    high = op.args.integer(f"{kind}_max_level", default=highest)
    if high < low:
        op.unsupported(f"{kind}_max_level ({high}) must not be below {kind}_min_level ({low})", code="invalid-argument")
    return low, high


def _rois_then_scores(op: OpView, index: int) -> TensorInfo:
    """Describe the first half of the operands as matrices, the other as vectors."""
    return TensorInfo(FLOAT, (None, None) if index < len(op.inputs) // 2 else (None,))


def _collected(op: Op) -> Value:
    """Return the best proposals of all levels, by descending score; of equal scores the first comes first.

    A maximum that is not positive does not limit them.
    """
    low, high = _levels(op, "rpn", 2, 6)
    maximum = op.args.integer("rpn_post_nms_topN", default=2000)
    levels = high - low + 1
    if len(op.inputs) != 2 * levels:
        op.unsupported(
            f"levels {low} to {high} require {2 * levels} inputs (rois and scores), not {len(op.inputs)}",
            code="invalid-operands",
        )
    rois = op.emit("Concat", *op.inputs[:levels], axis=0)
    flat = [op.emit("Reshape", v, op.const([-1], np.int64)) if op.rank(v) != 1 else v for v in op.inputs[levels:]]
    scores = op.emit("Concat", *flat, axis=0)
    count = op.emit("Shape", scores)
    if maximum > 0:
        count = op.emit("Min", count, op.const([maximum], np.int64))
    _, best = op.emit("TopK", scores, count, axis=0, largest=1, sorted=1, outputs=2)
    return op.emit("Gather", rois, best, axis=0)


def _distributed(op: Op, rois: Value, others: int) -> tuple[list[Value], Value]:
    """Return the boxes of each level, and the index of each box of ``rois`` in the concatenation of the levels.

    The levels are all outputs but ``others``.
    The level is ``floor(log2(sqrt(area) / roi_canonical_scale + 1e-6) + roi_canonical_level)``, clipped to the levels;
    a NaN, of a scale that is not positive, is the lowest level.
    """
    low, high = _levels(op, "roi", 2, 5)
    if high - low + 1 != op.output_count - others:
        op.unsupported(
            f"levels {low} to {high} require {high - low + 1 + others} outputs, not {op.output_count}",
            code="invalid-operands",
        )
    scale = op.args.integer("roi_canonical_scale", default=224)
    canonical = op.args.integer("roi_canonical_level", default=4)
    pixel = 1.0 if op.args.flag("legacy_plus_one", default=True) else 0.0
    x1, y1, x2, y2 = columns(op, rois, 4)
    area = mul(op, *(shifted(op, sub(op, b, a), pixel) for a, b in ((x1, x2), (y1, y2))))
    ratio = add(op, div(op, sqrt(op, area), float(scale)), 1e-6)
    level = op.emit("Floor", add(op, div(op, op.emit("Log", ratio), math.log(2.0)), float(canonical)))
    level = op.emit("Min", op.emit("Max", level, op.const(low, np.float32)), op.const(high, np.float32))
    level = squeeze(op, level, [1])
    # The rows of each level; their concatenation is a permutation, of which the inverse is returned.
    lowest = op.emit("Not", op.emit("Greater", level, op.const(low, np.float32)))
    higher = (op.emit("Equal", level, op.const(number, np.float32)) for number in range(low + 1, high + 1))
    rows_by_level = [squeeze(op, op.emit("NonZero", mask), [0]) for mask in (lowest, *higher)]
    order = op.emit("Concat", *rows_by_level, axis=0)
    restore = op.emit("ScatterElements", order, order, indices(op, size(op, rois, 0)), axis=0)
    return [op.emit("Gather", rois, rows, axis=0) for rows in rows_by_level], cast(op, restore, ir.DataType.INT32)


@family.converts("CollectRpnProposals", expects=_rois_then_scores)
def collect(op: Op) -> Value:
    """CollectRpnProposals(*rois, *scores; rpn_min_level=2, rpn_max_level=6, rpn_post_nms_topN=2000) -> rois."""
    return _collected(op)


@family.converts("DistributeFpnProposals", expects={0: TensorInfo(FLOAT, (None, None))})
def distribute(op: Op) -> tuple[Value, ...]:
    """DistributeFpnProposals(rois; roi_min_level=2, roi_max_level=5, ...) -> *rois by level, rois_idx_restore.

    The remaining arguments are roi_canonical_scale=224, roi_canonical_level=4 and legacy_plus_one=1. Rois without a
    column for the image get one, of image 0.
    """
    rois = op.input(0)
    if op.static_dim(rois, 1) != 5:
        missing = op.emit("Sub", op.const([5], np.int64), op.emit("Shape", rois, start=1, end=2))
        pads = op.emit("Concat", op.const([0], np.int64), missing, op.const([0, 0], np.int64), axis=0)
        rois = op.emit("Pad", rois, pads, shape=[op.shape(rois)[0], 5])
    levels, restore = _distributed(op, rois, 1)
    return *levels, restore


@family.converts("CollectAndDistributeFpnRpnProposals", expects=_rois_then_scores)
def collect_and_distribute(op: Op) -> tuple[Value, ...]:
    """CollectAndDistributeFpnRpnProposals(*rois, *scores; ...) -> rois, *rois by level, rois_idx_restore.

    The arguments are those of CollectRpnProposals and DistributeFpnProposals.
    """
    rois = _collected(op)
    levels, restore = _distributed(op, rois, 2)
    return rois, *levels, restore


@family.converts(
    "BatchPermutation", expects={0: TensorInfo(FLOAT, (None,) * 4), 1: TensorInfo(ir.DataType.INT32, (None,))}
)
def batch_permutation(op: Op) -> Value:
    """BatchPermutation(X, indices) -> Y: ``X[indices]``."""
    return op.emit("Gather", op.input(0), op.input(1), axis=0)
