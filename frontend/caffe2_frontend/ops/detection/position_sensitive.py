"""Position-sensitive pooling of regions (R-FCN), and its gradient: PSRoIPool of Detectron's library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, binary, div, mul, sub
from caffe2_frontend.emit.operand_checks import SINGLE, require_dim, require_rank, takes
from caffe2_frontend.emit.shapes import (
    Size,
    cast,
    indices,
    reshape,
    size,
    sizes,
    slice_axis,
    unsqueeze,
    vector,
)
from caffe2_frontend.emit.windows.regions import round_half_away
from caffe2_frontend.interop.types import FLOAT, INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("position_sensitive")

_IMAGE: Final = TensorInfo(FLOAT, (None,) * 4)
_ROIS: Final = TensorInfo(FLOAT, (None, 5))
# The least length of a region's side.
_MIN_SIDE: Final = 0.1


@family.converts("PSRoIPool", expects={0: _IMAGE, 1: _ROIS})
@takes(SINGLE, 0, 1)
def ps_roi_pool(op: Op) -> tuple[Value, Value]:
    """PSRoIPool(X, RoIs; spatial_scale=1.0, group_size=1, output_dim=1) -> Y, channels.

    X is [N, output_dim * g * g, H, W], RoIs are [R, 5] (image, x1, y1, x2, y2), and Y is [R, output_dim, g, g]: the
    mean of each cell of a region, over the pixels of a channel of its own, whose index is the second output.
    """
    cells = _read_cells(op)
    sums = op.emit("Einsum", _by_cell(op, cells), cells.columns, cells.rows, equation="aoijhw,njw,naih->noij")
    group, dim = op.bounded(cells.group), op.bounded(cells.dim)
    channels = op.const(np.arange(op.bounded(dim * group * group)).reshape(1, dim, group, group), np.int32)
    shape = [size(op, op.input(1), 0), dim, group, group]
    y = div(op, sums, cells.area)
    y = slice_axis(op, y, 0, 0, -1) if cells.padded else y
    return y, op.emit("Expand", channels, vector(op, shape))


@family.converts(
    "PSRoIPoolGradient", expects={0: _IMAGE, 1: _ROIS, 2: TensorInfo(ir.DataType.INT32, (None,) * 4), 3: _IMAGE}
)
@takes(SINGLE, 0, 1, 3)
def ps_roi_pool_gradient(op: Op) -> Value:
    """PSRoIPoolGradient(X, RoIs, channels, dY; spatial_scale=1.0, group_size=1, output_dim=1) -> dX.

    The channels follow from the arguments, and are not read.
    """
    cells, dy = _read_cells(op), op.input(3)
    require_rank(op, dy, 4, "the gradient")
    dy = _pad_rows(op, dy) if cells.padded else dy
    shares = div(op, dy, cells.area)
    dx = op.emit("Einsum", shares, cells.rows, cells.columns, equation="noij,naih,njw->aoijhw")
    return reshape(op, dx, sizes(op, op.input(0)))


@dataclass(frozen=True)
class _Cells:
    """The cells of the regions.

    Attributes:
        group: the number of cells along each side of a region.
        dim: the number of channels of the result.
        rows: 1 for the rows of an image that lie in a cell, else 0 [R, N, group, H]; 0 for other images.
        columns: the same of columns, for any image [R, group, W].
        area: the number of pixels of each cell, 1 at least [R, 1, group, group].
        padded: whether there is one region more than the operator has.
    """

    group: int
    dim: int
    rows: Value
    columns: Value
    area: Value
    padded: bool


def _read_cells(op: Op) -> _Cells:
    x, rois = op.input(0), op.input(1)
    require_rank(op, x, 4, "X")
    require_rank(op, rois, 2, "RoIs")
    require_dim(op, rois, 1, 5, "RoIs")
    scale = op.args.number("spatial_scale", default=1.0)
    group, dim = (op.args.integer(name, default=1) for name in ("group_size", "output_dim"))
    if min(group, dim) < 1 or not scale > 0:
        op.unsupported("group_size, output_dim and spatial_scale must be positive", code="invalid-argument")
    require_dim(op, x, 1, dim * group * group, "X (output_dim * group_size * group_size)")
    # onnxruntime 1.32: Einsum without rows ends the process.
    padded = not op.static_dim(rois, 0)
    rois = _pad_rows(op, rois) if padded else rois
    rows, columns = (_covered(op, rois, axis, group, scale, size(op, x, axis + 2)) for axis in (0, 1))
    heights, widths = (op.emit("ReduceSum", v, op.const([2], np.int64), keepdims=0) for v in (rows, columns))
    area = binary(op, "Max", mul(op, unsqueeze(op, heights, [1, 3]), unsqueeze(op, widths, [1, 2])), 1.0)
    image = cast(op, slice_axis(op, rois, 1, 0, 1), INT64)
    mine = cast(op, op.emit("Equal", image, indices(op, size(op, x, 0))), op.dtype(x))
    return _Cells(group, dim, mul(op, unsqueeze(op, mine, [2, 3]), unsqueeze(op, rows, [1])), columns, area, padded)


def _pad_rows(op: Op, x: Value) -> Value:
    """Return ``x`` and a row of zeros."""
    rank = op.rank(x)
    return op.emit("Pad", x, op.const([*[0] * rank, 1, *[0] * (rank - 1)], np.int64))


def _by_cell(op: Op, cells: _Cells) -> Value:
    """Return X as [N, output_dim, group, group, H, W]."""
    x = op.input(0)
    return reshape(op, x, [size(op, x, 0), cells.dim, cells.group, cells.group, *sizes(op, x, 2)])


def _covered(op: Op, rois: Value, axis: int, count: int, scale: float, length: Size) -> Value:
    """Return 1 for pixels of an image's side within each of ``count`` cells of a region, else 0 [R, count, length].

    ``axis`` is 0 for rows and 1 for columns.
    """
    start, end = (round_half_away(op, slice_axis(op, rois, 1, at, at + 1)) for at in (2 - axis, 4 - axis))
    start, end = mul(op, start, scale), mul(op, add(op, end, 1.0), scale)
    cell = div(op, binary(op, "Max", sub(op, end, start), _MIN_SIDE), float(count))
    cells = np.arange(op.bounded(count), dtype=np.float32)
    low = op.emit("Floor", op.emit("Add", op.emit("Mul", cell, op.const(cells)), start))
    high = op.emit("Ceil", op.emit("Add", op.emit("Mul", cell, op.const(cells + 1)), start))
    pixels = cast(op, indices(op, length), op.dtype(rois))
    inside = op.emit(
        "And",
        op.emit("GreaterOrEqual", pixels, unsqueeze(op, low, [2])),
        op.emit("Less", pixels, unsqueeze(op, high, [2])),
    )
    return cast(op, inside, op.dtype(rois))
