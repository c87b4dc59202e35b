"""Rows of a tensor that belong to segments, as lengths or segment ids say, in operators that do not grow with them.

A vector of lengths [S] cuts the N rows of a tensor into S consecutive segments. All indices here are int64.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.operand_checks import require_dtype, require_rank
from caffe2_frontend.emit.shapes import Size, cast, indices, reshape, size, size_vector, sizes, unsqueeze, vector
from caffe2_frontend.lowering.op import Op, Value

Reduction = Literal["add", "max"]

# onnxruntime scatters no halves and no narrow integers.
_SCATTERED: Final = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64)


def lengths_vector(op: Op, lengths: Value) -> Value:
    """Lengths as an int64 vector, whatever their rank."""
    lengths = cast(op, lengths, ir.DataType.INT64)
    return lengths if op.rank(lengths) == 1 else reshape(op, lengths, [-1])


def vector_operand(
    op: Op, index: int, dtypes: Collection[ir.DataType] = (ir.DataType.INT32,), *, any_rank: bool = False
) -> Value:
    """Operand ``index``, a vector of lengths or indices, as int64. ``any_rank``: its rank does not matter."""
    value = op.input(index)
    require_dtype(op, value, dtypes, f"input {index}")
    if not any_rank:
        require_rank(op, value, 1, f"input {index}")
    return lengths_vector(op, value)


def starts(op: Op, lengths: Value) -> Value:
    """The row that each segment starts at, [S]."""
    return op.emit("CumSum", lengths, op.const(0, np.int64), exclusive=1)


def ends(op: Op, lengths: Value) -> Value:
    """The row after each segment's last one, [S]."""
    return op.emit("CumSum", lengths, op.const(0, np.int64))


def row_segments(op: Op, lengths: Value, rows: Size | None = None) -> Value:
    """The segment of each row, [N]; ``rows`` is N, the sum of the lengths where it is not given."""
    end = ends(op, lengths)
    rows = total(op, lengths) if rows is None else rows
    marks = op.emit("ConstantOfShape", op.emit("Add", vector(op, [rows]), op.const([1], np.int64)), value=_number(0))
    ones = op.emit("ConstantOfShape", op.emit("Shape", end), value=_number(1))
    marks = op.emit("ScatterElements", marks, end, ones, axis=0, reduction="add")
    marks = op.emit("Slice", marks, op.const([0], np.int64), vector(op, [rows]))
    segments = op.emit("CumSum", marks, op.const(0, np.int64))
    segments.shape = ir.Shape([rows if isinstance(rows, int) else None])
    return segments


def row_positions(op: Op, lengths: Value, segments: Value) -> Value:
    """The position of each row in its segment, [N]."""
    return op.emit("Sub", indices(op, size(op, segments, 0)), op.emit("Gather", starts(op, lengths), segments, axis=0))


def range_rows(op: Op, start: Value, lengths: Value) -> Value:
    """The rows of ranges that begin at ``start`` [S] and are ``lengths`` [S] long, one range after the other."""
    segments = row_segments(op, lengths)
    shift = op.emit("Sub", start, starts(op, lengths))
    return op.emit("Add", indices(op, size(op, segments, 0)), op.emit("Gather", shift, segments, axis=0))


def total(op: Op, lengths: Value) -> Value:
    """The sum of the lengths, [1]."""
    return op.emit("ReduceSum", lengths, op.const([0], np.int64), keepdims=1)


def longest(op: Op, lengths: Value) -> Value:
    """The greatest of the lengths, [1]; 0 where there is none."""
    return op.emit("ReduceMax", op.emit("Concat", op.const([0], np.int64), lengths, axis=0), keepdims=1)


def grid(op: Op, lengths: Value, width: Size) -> tuple[Value, Value]:
    """Segments side by side: the row at each place, and whether the segment has one there; both [S, ``width``]."""
    column = indices(op, width)
    row = op.emit("Add", unsqueeze(op, starts(op, lengths), [1]), column)
    return row, op.emit("Less", column, unsqueeze(op, lengths, [1]))


def padded_rows(op: Op, x: Value, rows: Value, present: Value, fill: Value) -> Value:
    """The rows of ``x`` at indices ``rows``, and ``fill`` (a row, [1, ...]) where ``present`` is not."""
    absent = size_vector(op, x, 0)
    return take_rows(op, op.emit("Concat", x, fill, axis=0), op.emit("Where", present, rows, absent))


def take_rows(op: Op, x: Value, rows: Value) -> Value:
    """The rows of ``x`` at indices ``rows``; of strings too, of which onnxruntime's Gather takes one a row."""
    if op.dtype(x) == ir.DataType.STRING and op.rank(x) > 1:
        return op.emit("GatherND", x, unsqueeze(op, rows, [op.rank(rows)]))
    return op.emit("Gather", x, rows, axis=0)


def row_of(op: Op, x: Value, value: float) -> Value:
    """A row like those of ``x`` with all its elements the same, [1, ...]."""
    return filled(op, x, [1, *sizes(op, x, 1)], value)


def zero_row(op: Op, x: Value) -> Value:
    """A row like those of ``x`` that holds zeros, empty strings or false, [1, ...]."""
    if op.dtype(x) != ir.DataType.STRING:
        return row_of(op, x, 0)
    return op.emit("Expand", op.const(np.array([""], object)), vector(op, [1, *sizes(op, x, 1)]))


def filled(op: Op, like: Value, dims: Sequence[Size], value: float = 0) -> Value:
    """A tensor of equal elements, of the element type of ``like``."""
    return op.emit("ConstantOfShape", vector(op, dims), value=ir.tensor(np.array([value], op.dtype(like).numpy())))


def scatter_rows(op: Op, x: Value, ids: Value, count: Size, reduction: Reduction, initial: float = 0) -> Value:
    """The rows of ``x`` reduced into ``count`` rows, each row into the one that ``ids`` [N] says.

    This is ScatterElements and not ScatterND: onnxruntime reduces rows of the latter in parallel without a lock.
    """
    dtype = op.dtype(x)
    wide = x if dtype in _SCATTERED else cast(op, x, ir.DataType.FLOAT)
    rank = op.rank(x)
    target = filled(op, wide, [count, *sizes(op, x, 1)], initial)
    if rank > 1:
        ids = op.emit("Expand", unsqueeze(op, ids, range(1, rank)), op.emit("Shape", x))
    return cast(op, op.emit("ScatterElements", target, ids, wide, axis=0, reduction=reduction), dtype)


def segment_count(op: Op, ids: Value) -> Value:
    """The number of segments that ids name: the greatest one plus one, [1]; 0 where there is none."""
    least = op.emit("Concat", op.const([-1], np.int64), ids, axis=0)
    return op.emit("Add", op.emit("ReduceMax", least, keepdims=1), op.const([1], np.int64))


def count_rows(op: Op, ids: Value, count: Size) -> Value:
    """How many of the rows each of ``count`` segments has, int64 [``count``]."""
    return scatter_rows(op, op.emit("ConstantOfShape", op.emit("Shape", ids), value=_number(1)), ids, count, "add")


def _number(value: int) -> ir.TensorProtocol:
    return ir.tensor(np.array([value], np.int64))
