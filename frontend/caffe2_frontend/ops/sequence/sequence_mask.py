"""SequenceMask: fills the elements outside of sequences, windows or triangles, as attention needs."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.emit.operand_checks import require_dtype
from caffe2_frontend.emit.shapes import Size, cast, indices, product, reshape, sizes, unsqueeze, vector
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("sequence_mask")

# By mode, the comparison of the column index with the row index that holds in the part that is filled.
_TRIANGLES: Final = {"upper": "Greater", "lower": "Less", "upperdiag": "GreaterOrEqual", "lowerdiag": "LessOrEqual"}


@family.converts("SequenceMask", expects={0: TensorInfo(ir.DataType.FLOAT), 1: TensorInfo(ir.DataType.INT32, (None,))})
def sequence_mask(op: Op) -> Value:
    """SequenceMask(input[, lengths or centers]; mode, axis=1, fill_val=-inf, radius=10, grad=0, ...) -> masked.

    The remaining arguments are batch and repeat_from_axis (none). The modes are sequence (columns from the row's length
    on are filled), window (columns farther than radius from the row's center), upper, lower, upperdiag and lowerdiag.
    The dims before axis are flattened to rows, those from it on to columns; rows start after the dim batch, columns end
    before repeat_from_axis, and the mask is repeated along the dims outside. With grad the fill is 0.
    """
    x = op.input(0)
    require_dtype(op, x, (ir.DataType.FLOAT, ir.DataType.FLOAT16), "data")
    rank = op.rank(x)
    axis = op.axis(op.args.integer("axis", default=1), rank)
    mode = op.args.text("mode")
    op.args.ignore("radius")
    fill = 0.0 if op.args.flag("grad", default=False) else op.args.number("fill_val", default=float("-inf"))
    op.args.ignore("fill_val")
    first, end = _first_row_dim(op, axis, rank), _end_of_columns(op, mode, axis, rank)
    rows, columns = sizes(op, x, first, axis), sizes(op, x, axis, end)
    outside = unsqueeze(op, _outside(op, mode, product(op, rows), product(op, columns)), range(2, 2 + rank - end))
    if (len(rows), len(columns)) != (1, 1):
        outside = reshape(op, outside, [*rows, *columns, *[1] * (rank - end)])
    return op.emit("Where", outside, op.const(fill, x), x, shape=op.shape(x))


def _first_row_dim(op: Op, axis: int, rank: int) -> int:
    """Return the first dim of the rows: the one after ``batch``."""
    batch = op.args.optional_integer("batch")
    if batch is None:
        return 0
    batch = op.axis(batch, rank, "batch")
    if batch >= axis:
        op.unsupported(f"batch ({batch}) must be below axis ({axis})", code="invalid-argument")
    return batch + 1


def _end_of_columns(op: Op, mode: str, axis: int, rank: int) -> int:
    """Return the dim after those of the columns: ``repeat_from_axis``, or the rank."""
    repeat_from = op.args.optional_integer("repeat_from_axis")
    if repeat_from is None:
        return rank
    if mode != "sequence" or "batch" in op.args:
        op.unsupported("repeat_from_axis requires mode 'sequence', without batch", code="invalid-argument")
    end = op.axis(repeat_from, rank, "repeat_from_axis")
    if end < axis:
        op.unsupported(f"repeat_from_axis ({end}) must not be below axis ({axis})", code="invalid-argument")
    return end


def _outside(op: Op, mode: str, rows: Size, columns: Size) -> Value:
    """Return the mask of the elements that are filled, [rows, columns] bool."""
    column = indices(op, columns)
    if mode in _TRIANGLES:
        return op.emit(_TRIANGLES[mode], column, unsqueeze(op, indices(op, rows), [1]))
    if mode == "sequence":
        return op.emit("GreaterOrEqual", column, _per_row(op, rows))
    if mode == "window":
        center, radius = _per_row(op, rows), op.const(op.args.integer("radius", default=10), ir.DataType.INT64)
        after = op.emit("Greater", column, op.emit("Add", center, radius))
        return op.emit("Or", after, op.emit("Less", column, op.emit("Sub", center, radius)))
    modes = ", ".join(("sequence", "window", *_TRIANGLES))
    return op.unsupported(f"mode must be one of {modes}, not {mode!r}", code="invalid-argument")


def _per_row(op: Op, rows: Size) -> Value:
    """Return the second operand, the length or center of each row, int64 [rows, 1]; drop elements beyond the rows."""
    values = op.input(1)
    require_dtype(op, values, (ir.DataType.INT32,), "input 1")
    if op.rank(values) != 1:
        values = reshape(op, values, [-1])
    given = op.shape(values)[0]
    if not (isinstance(rows, int) and given == rows):
        start, end = op.const([0], ir.DataType.INT64), vector(op, [rows])
        values = op.emit("Slice", values, start, end, start)
    return unsqueeze(op, cast(op, values, ir.DataType.INT64), [1])
