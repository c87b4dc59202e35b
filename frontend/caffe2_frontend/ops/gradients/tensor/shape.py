"""Gradients of Expand, Tile and Slice, and of operators that pass no gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.broadcast import sum_to
from caffe2_frontend.emit.constant_evaluation import known_values
from caffe2_frontend.emit.operand_checks import NUMBERS, require_dtype, require_rank, takes
from caffe2_frontend.emit.reductions import sum_axes
from caffe2_frontend.emit.shapes import Size, cast, quotient, reshape, size, sizes, vector
from caffe2_frontend.emit.slicing import require_ranges
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("shape_gradient")

_FLOAT: Final = TensorInfo(ir.DataType.FLOAT)
_BYTES: Final = (ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.UINT8)
# onnxruntime has no Pad kernel for these.
_NARROW: Final = (ir.DataType.INT16, ir.DataType.UINT16)
_INTEGER: Final = TensorInfo(ir.DataType.INT32, (1,))


@family.converts("ExpandGradient", expects={0: _FLOAT, 1: _FLOAT})
@takes(NUMBERS, 0)
def expand_gradient(op: Op) -> Value:
    """ExpandGradient(dY, X) -> dX: dY summed over the dims along which X was broadcast."""
    return sum_to(op, op.input(0), op.input(1))


@family.converts("TileGradient", expects={0: _FLOAT, 1: _INTEGER, 2: _INTEGER})
@takes(NUMBERS, 0)
def tile_gradient(op: Op) -> Value:
    """TileGradient(dY[, tiles, axis]; tiles, axis) -> dX: the sum over the repetitions along ``axis``."""
    dy = op.input(0)
    tiles: int | Value | None = op.args.optional_integer("tiles")
    axis: int | Value | None = op.args.optional_integer("axis")
    if op.has_input(1):
        tiles = _number(op, op.input(1))
    if op.has_input(2):
        axis = _number(op, op.input(2))
    if tiles is None or axis is None:
        op.unsupported(
            "tiles and axis must be given, as arguments or as operands",
            hint="add the arguments tiles and axis",
            code="invalid-argument",
        )
    if isinstance(tiles, int) and tiles < 1:
        op.unsupported(f"tiles must be positive, not {tiles}", code="invalid-argument")
    if isinstance(axis, Value):
        return _untile_axis_of_run_time(op, dy, tiles, axis)
    axis = op.axis(axis, op.rank(dy))
    dims = sizes(op, dy)
    dims[axis : axis + 1] = [tiles, _divided(op, dims[axis], tiles)]
    return sum_axes(op, reshape(op, dy, dims), [axis])


def _number(op: Op, x: Value) -> int | Value:
    """Return the integer in an operand of one element: known at conversion, or an int64 tensor [1]."""
    require_rank(op, x, 1, "tiles or axis")
    known = known_values(op, x)
    return cast(op, x, ir.DataType.INT64) if known is None else int(known[0])


def _divided(op: Op, dim: Size, tiles: Size) -> Size:
    """Return the size of the operand of Tile along the repeated axis."""
    if not isinstance(tiles, int):
        return op.emit("Div", vector(op, [dim]), tiles)
    if isinstance(dim, int) and dim % tiles:
        op.unsupported(f"the size of the axis ({dim}) must be a multiple of tiles ({tiles})", code="invalid-operands")
    return quotient(op, dim, tiles)


def _untile_axis_of_run_time(op: Op, dy: Value, tiles: Size, axis: Value) -> Value:
    """Return the sum over the repetitions along an axis that is known at run time alone.

    With dY as [dims before the axis, tiles, the others], the sum is that over the second dim.
    """
    one, rank = op.const([1], np.int64), op.const([op.rank(dy)], np.int64)
    number, tile_count = op.const(np.arange(op.rank(dy)), np.int64), vector(op, [tiles])
    shape = op.emit("Shape", dy)
    axis = op.emit("Mod", axis, rank)
    is_before = op.emit("Less", number, axis)
    dims = op.emit("Div", shape, op.emit("Where", op.emit("Equal", number, axis), tile_count, one))
    rows = op.emit("ReduceProd", op.emit("Where", is_before, shape, one), keepdims=1)
    columns = op.emit("ReduceProd", op.emit("Where", is_before, one, dims), keepdims=1)
    blocks = reshape(op, dy, [rows, tiles, columns])
    return op.emit("Reshape", sum_axes(op, blocks, [1]), dims, allowzero=1, shape=[None] * op.rank(dy))


def _slice_operand(op: OpView, index: int) -> TensorInfo:
    """Describe starts and ends, int32 vectors, which stand between X and dY where they are operands."""
    return TensorInfo(ir.DataType.INT32, (None,)) if index in (1, 2) and len(op.inputs) == 4 else TensorInfo()


@family.converts("SliceGradient", expects=_slice_operand)
def slice_gradient(op: Op) -> Value:
    """SliceGradient(X[, starts, ends], dY; starts, ends) -> dX: dY at its place in X, and zeros around it.

    A negative index ``i`` means ``size + 1 + i``, as in Slice.
    """
    x, dy = op.input(0), op.input(len(op.inputs) - 1)
    require_rank(op, dy, op.rank(x), "the gradient")
    require_dtype(op, dy, (*NUMBERS, *_BYTES, *_NARROW), "the gradient")
    dtype = op.dtype(dy)
    require_dtype(op, x, (dtype,), "X")
    if dtype in _NARROW:
        return cast(op, _in_place(op, x, cast(op, dy, ir.DataType.INT32)), dtype)
    return _in_place(op, x, dy)


def _in_place(op: Op, x: Value, dy: Value) -> Value:
    """Return ``dy`` at its place in ``x``, and zeros around it."""
    if len(op.inputs) < 4:
        return _padded(op, x, dy, list(op.args.integers("starts")), list(op.args.integers("ends")))
    op.args.ignore("starts", "ends")
    require_rank(op, op.input(1), 1, "starts")
    require_rank(op, op.input(2), 1, "ends")
    starts, ends = (known_values(op, op.input(index)) for index in (1, 2))
    if starts is not None and ends is not None:
        return _padded(op, x, dy, starts.tolist(), ends.tolist())
    return _padded_at_run_time(op, x, dy, cast(op, op.input(1), ir.DataType.INT64))


def _padded_at_run_time(op: Op, x: Value, dy: Value, start: Value) -> Value:
    """Return ``dy`` with zeros around it, at the indices ``start`` of ``x``, one for each of its first axes."""
    zero, rank = op.const([0], np.int64), op.rank(x)
    missing = _minus(op, rank, size(op, start, 0))
    start = op.emit("Pad", start, vector(op, [0, missing]), shape=[rank])
    dims = op.emit("Shape", x)
    from_end = op.emit("Add", start, op.emit("Add", dims, op.const([1], np.int64)))
    start = op.emit("Where", op.emit("Less", start, zero), from_end, start)
    after = op.emit("Sub", op.emit("Sub", dims, start), op.emit("Shape", dy))
    return op.emit("Pad", dy, op.emit("Concat", start, after, axis=0), shape=op.shape(x))


def _padded(op: Op, x: Value, dy: Value, starts: Sequence[int], ends: Sequence[int]) -> Value:
    """Return ``dy`` with zeros around it, at the ranges of ``x``."""
    require_ranges(op, x, starts, ends)
    axes = [axis for axis, bounds in enumerate(zip(starts, ends, strict=True)) if bounds != (0, -1)]
    if not axes:
        return dy
    before: list[Size] = []
    after: list[Size] = []
    for axis in axes:
        dim = size(op, x, axis)
        start = _start(op, dim, starts[axis])
        before.append(start)
        rest = 0 if ends[axis] == -1 else _minus(op, _minus(op, dim, start), size(op, dy, axis))
        if isinstance(rest, int) and rest < 0:
            op.unsupported(f"the gradient is too large along axis {axis}", code="invalid-operands")
        after.append(rest)
    if not any(before) and not any(after):
        return dy
    return op.emit("Pad", dy, vector(op, [*before, *after]), None, op.const(axes, np.int64), shape=op.shape(x))


def _start(op: Op, dim: Size, start: int) -> Size:
    """Return the index at which a range begins, between 0 and ``dim``."""
    if isinstance(dim, int):
        return min(dim, max(dim + 1 + start, 0) if start < 0 else start)
    if start < 0:
        return dim if start == -1 else op.emit("Add", dim, op.const([1 + start], np.int64))
    return start


def _minus(op: Op, a: Size, b: Size) -> Size:
    """Return the difference of two sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if isinstance(b, int) and b == 0 else op.emit("Sub", vector(op, [a]), vector(op, [b]))


@family.converts("ZeroGradient")
def zero_gradient(_: Op) -> tuple[()]:
    """ZeroGradient(X): has no output; the gradient of X is not computed."""
    return ()


@family.converts("CopyRowsToTensorGradient")
def copy_rows_gradient(op: Op) -> Value:
    """CopyRowsToTensorGradient(dY) -> dX: dY, in place.

    With another output Caffe2 copies only as many elements as dY has rows, and leaves the others undefined.
    """
    return op.input(0)
