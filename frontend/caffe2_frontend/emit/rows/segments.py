"""Segments of rows, given by lengths or segment ids, in a number of nodes that does not depend on the segments.

A vector of lengths [S] splits the N rows of a tensor into S consecutive segments; segment ids [N] name the segment of
each row. All lengths, ids and indices here are int64.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.emit.operand_checks import require_dtype, require_equal, require_rank
from caffe2_frontend.emit.shapes import (
    Size,
    as_vector,
    broadcast_over_rows,
    cast,
    indices,
    size,
    size_vector,
    sizes,
    unsqueeze,
    vector,
)
from caffe2_frontend.lowering.op import Op, Value

Reduction = Literal["add", "max"]

# Element types that onnxruntime can reduce in ScatterElements; others are computed as float.
_SCATTERED: Final = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64)


def lengths_vector(op: Op, lengths: Value) -> Value:
    """Return lengths of any rank as an int64 vector."""
    return as_vector(op, cast(op, lengths, ir.DataType.INT64))


def vector_operand(
    op: Op, index: int, dtypes: Collection[ir.DataType] = (ir.DataType.INT32,), *, any_rank: bool = False
) -> Value:
    """Return operand ``index``, a vector of lengths or indices, as int64. With ``any_rank`` any tensor is flattened."""
    value = op.input(index)
    require_dtype(op, value, dtypes, f"input {index}")
    if not any_rank:
        require_rank(op, value, 1, f"input {index}")
    return lengths_vector(op, value)


def starts(op: Op, lengths: Value) -> Value:
    """Return the index of the first row of each segment, [S]."""
    return op.emit("CumSum", lengths, op.const(0, np.int64), exclusive=1)


def ends(op: Op, lengths: Value) -> Value:
    """Return the index after the last row of each segment, [S]."""
    return op.emit("CumSum", lengths, op.const(0, np.int64))


def row_segments(op: Op, lengths: Value, rows: Size | None = None) -> Value:
    """Return the segment of each row, [N]; ``rows`` is N, by default the sum of the lengths.

    The segment of row n is the number of segments that end at or before n: each end is marked in a histogram [N + 1],
    and the marks are accumulated. Empty segments put several marks on one row.
    """
    end = ends(op, lengths)
    rows = total(op, lengths) if rows is None else rows
    marks = op.emit("ConstantOfShape", op.emit("Add", vector(op, [rows]), op.const([1], np.int64)), value=_int64(0))
    ones = op.emit("ConstantOfShape", op.emit("Shape", end), value=_int64(1))
    marks = op.emit("ScatterElements", marks, end, ones, axis=0, reduction="add")
    marks = op.emit("Slice", marks, op.const([0], np.int64), vector(op, [rows]))
    segments = op.emit("CumSum", marks, op.const(0, np.int64))
    segments.shape = ir.Shape([rows if isinstance(rows, int) else None])
    return segments


def row_positions(op: Op, lengths: Value, segments: Value) -> Value:
    """Return the index of each row within its segment, [N]."""
    return op.emit("Sub", indices(op, size(op, segments, 0)), op.emit("Gather", starts(op, lengths), segments, axis=0))


def range_rows(op: Op, start: Value, lengths: Value) -> Value:
    """Return the row indices of S ranges that start at ``start`` [S] and have ``lengths`` [S] rows, concatenated."""
    segments = row_segments(op, lengths)
    shift = op.emit("Sub", start, starts(op, lengths))
    return op.emit("Add", indices(op, size(op, segments, 0)), op.emit("Gather", shift, segments, axis=0))


def total(op: Op, lengths: Value) -> Value:
    """Return the sum of the lengths, [1]."""
    return op.emit("ReduceSum", lengths, op.const([0], np.int64), keepdims=1)


def longest(op: Op, lengths: Value) -> Value:
    """Return the maximum of the lengths, [1]; 0 if there are no segments."""
    return op.emit("ReduceMax", op.emit("Concat", op.const([0], np.int64), lengths, axis=0), keepdims=1)


def grid(op: Op, lengths: Value, width: Size) -> tuple[Value, Value]:
    """Lay the segments out in a matrix: row indices and a mask of those inside their segment, both [S, ``width``]."""
    column = row_vector(op, np.arange(op.bounded(width))) if isinstance(width, int) else indices(op, width)
    row = op.emit("Add", unsqueeze(op, starts(op, lengths), [1]), column)
    return row, op.emit("Less", column, unsqueeze(op, lengths, [1]))


def row_vector(op: Op, values: Array) -> Value:
    """Return a constant [1, N] to be added to a column [S, 1].

    ONNX's shape inference with data propagation takes the column for a vector [S], and refuses to add a vector [N].
    """
    return op.const(values[np.newaxis], np.int64)


def padded_rows(op: Op, x: Value, rows: Value, present: Value, fill: Value) -> Value:
    """Gather the rows of ``x`` at ``rows``, and ``fill`` (one row, [1, ...]) where ``present`` is false."""
    fill_index = size_vector(op, x, 0)
    return take_rows(op, op.emit("Concat", x, fill, axis=0), op.emit("Where", present, rows, fill_index))


def take_rows(op: Op, x: Value, rows: Value) -> Value:
    """Gather the rows of ``x`` at ``rows``; strings with GatherND, as onnxruntime's Gather copies one per row."""
    if op.dtype(x) == ir.DataType.STRING and op.rank(x) > 1:
        return op.emit("GatherND", x, unsqueeze(op, rows, [op.rank(rows)]))
    return op.emit("Gather", x, rows, axis=0)


def row_of(op: Op, x: Value, value: float) -> Value:
    """Return a row of the shape of those of ``x``, filled with ``value``, [1, ...]."""
    return filled(op, x, [1, *sizes(op, x, 1)], value)


def zero_row(op: Op, x: Value) -> Value:
    """Return a row of the shape of those of ``x``, filled with zeros, false or empty strings, [1, ...]."""
    if op.dtype(x) != ir.DataType.STRING:
        return row_of(op, x, 0)
    return op.emit("Expand", op.const(np.array([""], object)), vector(op, [1, *sizes(op, x, 1)]))


def filled(op: Op, like: Value, dims: Sequence[Size], value: float = 0) -> Value:
    """Return a tensor of shape ``dims`` filled with ``value``, of the element type of ``like``."""
    return op.emit("ConstantOfShape", vector(op, dims), value=ir.Tensor(np.array([value], op.dtype(like).numpy())))


def scatter_rows(op: Op, x: Value, ids: Value, count: Size, reduction: Reduction, initial: float = 0) -> Value:
    """Reduce the rows of ``x`` [N, ...] by their segment ``ids`` [N] into [``count``, ...], starting from ``initial``.

    This emits ScatterElements: onnxruntime's ScatterND reduces rows in parallel without a lock.
    """
    dtype = op.dtype(x)
    wide = x if dtype in _SCATTERED else cast(op, x, ir.DataType.FLOAT)
    rank = op.rank(x)
    target = filled(op, wide, [count, *sizes(op, x, 1)], initial)
    if rank > 1:
        ids = op.emit("Expand", unsqueeze(op, ids, range(1, rank)), op.emit("Shape", x))
    return cast(op, op.emit("ScatterElements", target, ids, wide, axis=0, reduction=reduction), dtype)


def add_rows(op: Op, table: Value, ids: Value, rows: Value) -> Value:
    """Add ``rows`` [N, ...] to the rows of ``table`` that ``ids`` [N] name, one after another."""
    dtype = op.dtype(table)
    if dtype not in _SCATTERED:
        return op.emit("Add", table, scatter_rows(op, rows, ids, size(op, table, 0), "add"))
    rank = op.rank(table)
    if rank > 1:
        ids = op.emit("Expand", unsqueeze(op, ids, range(1, rank)), op.emit("Shape", rows))
    return op.emit("ScatterElements", table, ids, rows, axis=0, reduction="add")


def segment_count(op: Op, ids: Value) -> Value:
    """Return the number of segments that ids name: their maximum plus one, [1]; 0 if there are no ids."""
    floored = op.emit("Concat", op.const([-1], np.int64), ids, axis=0)
    return op.emit("Add", op.emit("ReduceMax", floored, keepdims=1), op.const([1], np.int64))


def count_rows(op: Op, ids: Value, count: Size) -> Value:
    """Return the number of rows of each of ``count`` segments, [``count``]."""
    return scatter_rows(op, op.emit("ConstantOfShape", op.emit("Shape", ids), value=_int64(1)), ids, count, "add")


def divide_by_counts(op: Op, x: Value, counts: Value) -> Value:
    """Divide each row of ``x`` [S, ...] by the number of rows of its segment, [S]; by 1 if that is 0."""
    divisors = cast(op, op.emit("Max", counts, op.const([1], np.int64)), op.dtype(x))
    return op.emit("Div", x, broadcast_over_rows(op, divisors, x))


def weigh(op: Op, x: Value, weights: Value) -> Value:
    """Multiply each row of ``x`` [N, ...] by its weight [N]."""
    require_rank(op, weights, 1, "weights")
    require_equal(op, op.static_dim(weights, 0), op.static_dim(x, 0), "weights and rows")
    return op.emit("Mul", x, broadcast_over_rows(op, weights, x))


def _int64(value: int) -> ir.TensorProtocol:
    return ir.Tensor(np.array([value], np.int64))
