"""Regions of images: the pyramid of R-MAC, and the maxima in the cells of regions of interest (RoIPool)."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul, sub
from caffe2_frontend.emit.layout import channels_last
from caffe2_frontend.emit.operand_checks import require_rank
from caffe2_frontend.emit.shapes import Size, cast, indices, product, reshape, size, size_vector, unsqueeze, vector
from caffe2_frontend.emit.windows.regions import round_half_away
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("region")

# Candidates for the number of additional regions along the longer side; the one of the best overlap is taken.
_MORE_REGIONS = (1, 2, 3, 4, 5, 6)
_MAX_SCALES = 1000
_OPERANDS: Final = {0: TensorInfo(ir.DataType.FLOAT, (None,) * 4), 1: TensorInfo(ir.DataType.FLOAT, (None, 5))}


@family.converts("RMACRegions", expects={0: TensorInfo(ir.DataType.FLOAT, (None,) * 4)})
def rmac_regions(op: Op) -> Value:
    """RMACRegions(X; scales=3, overlap=0.4) -> RoIs, rows (image, x1, y1, x2, y2).

    Squares of ``scales`` sizes that cover each image. At level l their side is ``2 * min(H, W) / (l + 1)``, with l
    of them along the shorter side, and as many more along the longer one as overlap best.
    """
    x = op.input(0)
    require_rank(op, x, 4, "X")
    scales = op.args.integer("scales", default=3)
    if scales > _MAX_SCALES:
        op.unsupported(f"scales must be at most {_MAX_SCALES}, because each is nodes of its own, not {scales}")
    overlap = op.args.number("overlap", default=0.4)
    n, h, w = (size_vector(op, x, axis) for axis in (0, 2, 3))
    short, extra = op.emit("Min", h, w), _extra_regions(op, h, w, overlap)
    along_w, along_h = (
        mul(op, extra, op.emit("Cast", op.emit("Greater", a, b), to=int(ir.DataType.INT64)))
        for a, b in ((w, h), (h, w))
    )
    boxes = []
    for level in range(1, scales + 1):
        side = div(op, mul(op, short, 2), level + 1)
        # 0 if the side is, so that there are no regions of size 0.
        nonempty = op.emit("Min", side, op.const([1], np.int64))
        left, top = (
            _starts(op, length, side, mul(op, add(op, more, level), nonempty))
            for length, more in ((w, along_w), (h, along_h))
        )
        columns, rows = op.emit("Shape", left), op.emit("Shape", top)
        grid = op.emit("Concat", columns, rows, axis=0)
        x1, y1 = (
            op.emit("Reshape", op.emit("Expand", v, grid), op.const([-1, 1], np.int64))
            for v in (unsqueeze(op, left, [1]), unsqueeze(op, top, [0]))
        )
        last = sub(op, side, 1)
        boxes.append(op.emit("Concat", x1, y1, add(op, x1, last), add(op, y1, last), axis=1))
    squares = op.emit("Concat", *boxes, axis=0) if boxes else op.const(np.zeros((0, 4)), np.int64)
    count = op.emit("Shape", squares, end=1)
    images = unsqueeze(op, indices(op, n), [1, 2])
    first = op.emit("Expand", images, vector(op, [n, count, 1]))
    rest = op.emit("Expand", unsqueeze(op, squares, [0]), vector(op, [n, count, 4]))
    regions = reshape(op, op.emit("Concat", first, rest, axis=2), [product(op, [n, count]), 5])
    return cast(op, regions, ir.DataType.FLOAT)


def _extra_regions(op: Op, h: Value, w: Value, overlap: float) -> Value:
    """Return the number of additional regions along the longer side: that of the overlap closest to ``overlap``, [1].

    None is closest to a NaN or an infinity, and there are no additional regions.
    """
    if not math.isfinite(overlap):
        return op.const([0], np.int64)
    short, long = (op.emit("Cast", op.emit(m, h, w), to=int(ir.DataType.FLOAT)) for m in ("Min", "Max"))
    step = op.emit("Div", sub(op, long, short), op.const(_MORE_REGIONS, np.float32))
    area = mul(op, short, short)
    shared = div(op, sub(op, area, mul(op, step, short)), area)
    best = op.emit("ArgMin", op.emit("Abs", sub(op, shared, overlap)), axis=0)
    return add(op, best, 1)


def _starts(op: Op, length: Value, side: Value, count: Value) -> Value:
    """Return the first pixels of ``count`` regions of ``side`` pixels, evenly spaced over ``length``."""
    gaps = op.emit("Max", sub(op, count, 1), op.const([1], np.int64))
    room, gaps = (op.emit("Cast", v, to=int(ir.DataType.FLOAT)) for v in (sub(op, length, side), gaps))
    index = op.emit("Cast", indices(op, count), to=int(ir.DataType.FLOAT))
    return op.emit("Cast", mul(op, index, div(op, room, gaps)), to=int(ir.DataType.INT64))


@family.converts("RoIPool", "RoIPoolF", expects=_OPERANDS)
def roi_pool(op: Op) -> Value | tuple[Value, Value]:
    """RoIPool(X, RoIs; pooled_h=1, pooled_w=1, spatial_scale=1.0, is_test=0, order="NCHW") -> Y[, argmaxes].

    RoIs are [R, 5] (image, x1, y1, x2, y2). In training the second output is the index of each maximum in its channel's
    H * W pixels, -1 for an empty cell; ONNX has no such output, so that the maxima are reduced from masked rows and
    columns there. RoIPoolF of Detectron's library always has it, and neither is_test nor order.
    """
    x, rois = op.input(0), op.input(1)
    require_rank(op, x, 4, "X")
    height, width = (op.args.integer(f"pooled_{side}", default=1) for side in "hw")
    spatial_scale = op.args.number("spatial_scale", default=1.0)
    test = op.type == "RoIPool" and op.args.flag("is_test", default=False)
    if min(height, width) < 1 or spatial_scale <= 0 or (op.type == "RoIPool" and channels_last(op)):
        op.unsupported(
            "pooled_h, pooled_w and spatial_scale must be positive, and order must be NCHW", code="invalid-argument"
        )
    if op.output_count != (1 if test else 2):
        op.unsupported(
            f"RoIPool must have one output with is_test=1 and two with is_test=0, not {op.output_count}",
            hint="set is_test=1 to export for inference",
            code="invalid-operands",
        )
    if test:
        return op.emit("MaxRoiPool", x, rois, pooled_shape=[height, width], spatial_scale=spatial_scale)
    # The maximum over the cell's columns in each row, then over its rows:
    # [R, C, H, W] -> [R, C, H, pooled_w] -> [R, C, pooled_h, pooled_w].
    image = cast(op, op.emit("Gather", rois, op.const(0, np.int64), axis=1), ir.DataType.INT64)
    planes = op.emit("Gather", x, image, axis=0)
    rows, columns = size(op, x, 2), size(op, x, 3)
    across = unsqueeze(op, _cells(op, rois, 1, width, spatial_scale, columns), [1, 2])
    down = unsqueeze(op, _cells(op, rois, 2, height, spatial_scale, rows), [1, 4])
    values, column = _masked_max(op, unsqueeze(op, planes, [3]), across, 4)
    values, row = _masked_max(op, unsqueeze(op, values, [2]), down, 3)
    column = op.emit("GatherElements", column, row, axis=2)
    index = add(op, mul(op, row, vector(op, [columns])), column)
    nonempty = op.emit("And", _any(op, across, 4), _any(op, down, 3))
    y = op.emit("Where", nonempty, values, op.const(0.0, x))
    return y, cast(op, op.emit("Where", nonempty, index, op.const(-1, np.int64)), ir.DataType.INT32)


def _cells(op: Op, rois: Value, axis: int, count: int, spatial_scale: float, length: Size) -> Value:
    """Return the mask of an image side's pixels that lie in each of ``count`` cells of a region, [R, count, length]."""
    start, end = (
        round_half_away(op, mul(op, op.emit("Gather", rois, op.const([column], np.int64), axis=1), spatial_scale))
        for column in (axis, axis + 2)
    )
    cell = div(op, op.emit("Max", add(op, sub(op, end, start), 1.0), op.const(1.0, rois)), float(count))
    cells = np.arange(op.bounded(count), dtype=np.float32)
    low = op.emit("Add", op.emit("Floor", op.emit("Mul", cell, op.const(cells))), start)
    high = op.emit("Add", op.emit("Ceil", op.emit("Mul", cell, op.const(cells + 1))), start)
    pixels = cast(op, indices(op, length), ir.DataType.FLOAT)
    reached = op.emit("GreaterOrEqual", pixels, unsqueeze(op, low, [2]))
    return op.emit("And", reached, op.emit("Less", pixels, unsqueeze(op, high, [2])))


def _masked_max(op: Op, x: Value, mask: Value, axis: int) -> tuple[Value, Value]:
    """Return the maximum along an axis of the elements where ``mask`` is true, and its index; the axis is removed."""
    x = op.emit("Where", mask, x, op.const(np.finfo(np.float32).min, x))
    index = op.emit("ArgMax", x, axis=axis, keepdims=0)
    return op.emit("ReduceMax", x, op.const([axis], np.int64), keepdims=0), index


def _any(op: Op, mask: Value, axis: int) -> Value:
    """Whether any element along an axis is true; the axis is removed."""
    number = op.emit("Cast", mask, to=int(ir.DataType.INT32))
    maximum = op.emit("ReduceMax", number, op.const([axis], np.int64), keepdims=0)
    return op.emit("Cast", maximum, to=int(ir.DataType.BOOL))
