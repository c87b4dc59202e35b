"""Packing of sequences of different lengths into one tensor, and padding around them.

S sequences (segments) have N rows together; packed, each has M rows, or T steps in time-major layout.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.constant_evaluation import is_repeated_size
from caffe2_frontend.emit.operand_checks import (
    FLOATS,
    INDICES,
    require_dtype,
    require_equal,
    require_min_rank,
    require_rank,
)
from caffe2_frontend.emit.rows.segments import (
    grid,
    longest,
    padded_rows,
    row_of,
    row_positions,
    row_segments,
    row_vector,
    starts,
    take_rows,
    vector_operand,
    zero_row,
)
from caffe2_frontend.emit.shapes import (
    Size,
    cast,
    indices,
    product,
    reshape,
    reverse_rows,
    size,
    size_vector,
    sizes,
    unsqueeze,
    vector,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("sequence")

_BOOL, _FLOAT, _INT32, _INT64 = ir.DataType.BOOL, ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64
_PACKED: Final = (_FLOAT, _INT32, _INT64, ir.DataType.STRING)
_NUMBERS: Final = (*FLOATS, _INT32, _INT64)
_LENGTHS: Final = TensorInfo(_INT32, (None,))


@family.converts("PackSegments", expects={0: TensorInfo(None, (None,))})
def pack_segments(op: Op) -> tuple[Value, Value | None]:
    """PackSegments(lengths, tensor; max_length=-1, pad_minf=0, return_presence_mask=0) -> packed[, presence_mask].

    [N, ...] becomes [S, M, ...]: M is max_length, to which longer segments are cut, or the maximum length. Padding is
    zero, or -inf with pad_minf for float; the mask [S, M] is true for rows of data.
    """
    lengths, x = vector_operand(op, 0, INDICES), op.input(1)
    require_dtype(op, x, _PACKED, "data")
    require_min_rank(op, x, 1, "data")
    max_length = op.args.integer("max_length", default=-1)
    width: Size = longest(op, lengths) if max_length == -1 else max_length
    pad_infinity = op.args.flag("pad_minf", default=False) and op.dtype(x) == _FLOAT
    wants_mask = op.args.flag("return_presence_mask", default=False)
    rows, present = grid(op, lengths, width)
    fill = row_of(op, x, float("-inf")) if pad_infinity else zero_row(op, x)
    return padded_rows(op, x, rows, present, fill), present if wants_mask else None


@family.converts("UnpackSegments", expects={0: TensorInfo(None, (None,))})
def unpack_segments(op: Op) -> Value:
    """UnpackSegments(lengths, tensor; max_length=-1) -> packed: [S, M, ...] becomes [N, ...]; padding is dropped.

    max_length, if given, must be M.
    """
    lengths, x = vector_operand(op, 0, INDICES), op.input(1)
    require_dtype(op, x, _PACKED, "data")
    require_min_rank(op, x, 2, "data")
    max_length = op.args.integer("max_length", default=-1)
    if max_length != -1:
        require_equal(op, max_length, op.static_dim(x, 1), "max_length and dim 1 of the data")
    _, present = grid(op, lengths, size(op, x, 1))
    return _present_rows(op, x, present)


@family.converts("PackRNNSequence", expects={1: _LENGTHS})
def pack_rnn_sequence(op: Op) -> Value:
    """PackRNNSequence(values, lengths) -> output: [N, ...] becomes [T, S, ...], padded with zeros."""
    x, lengths = op.input(0), vector_operand(op, 1)
    require_dtype(op, x, _NUMBERS, "values")
    require_min_rank(op, x, 2, "values")
    rows, present = (op.emit("Transpose", v, perm=[1, 0]) for v in grid(op, lengths, longest(op, lengths)))
    return padded_rows(op, x, rows, present, zero_row(op, x))


@family.converts("UnpackRNNSequence", expects={1: _LENGTHS})
def unpack_rnn_sequence(op: Op) -> Value:
    """UnpackRNNSequence(values, lengths) -> output: [T, S, ...] becomes [N, ...]; padding is dropped."""
    x, lengths = op.input(0), vector_operand(op, 1)
    require_dtype(op, x, _NUMBERS, "values")
    require_min_rank(op, x, 3, "values")
    by_segment = op.emit("Transpose", x, perm=[1, 0, *range(2, op.rank(x))])
    _, present = grid(op, lengths, size(op, x, 0))
    return _present_rows(op, by_segment, present)


@family.converts("ReversePackedSegs", expects={1: TensorInfo(None, (None,))})
def reverse_packed_segments(op: Op) -> Value:
    """ReversePackedSegs(data, lengths) -> reversed: the first ``lengths[s]`` steps of data [T, S, D] in reverse.

    PyTorch's Caffe2 backend repeats T for the lengths of a reverse LSTM or GRU.
    """
    x, lengths = op.input(0), vector_operand(op, 1, INDICES)
    require_dtype(op, x, (*_NUMBERS, _BOOL), "data")
    require_rank(op, x, 3, "data")
    require_equal(op, op.static_dim(x, 1), op.static_dim(lengths, 0), "segments and lengths")
    if op.lowering.full_lengths:
        return reverse_rows(op, x)
    if is_repeated_size(op, lengths, x, 0):
        op.looks_behind(lengths)
        return reverse_rows(op, x)
    return op.emit("ReverseSequence", x, lengths, batch_axis=1, time_axis=0)


@family.converts("VariableLengthSequencePadding", expects={0: TensorInfo(_FLOAT, (None, None, None)), 1: _LENGTHS})
def variable_length_sequence_padding(op: Op) -> Value:
    """VariableLengthSequencePadding(data, lengths) -> data [T, S, D], set to zero from step ``lengths[s]`` on.

    Caffe2 does not check the element type: what new memory holds is the result where it is not float.
    """
    x, lengths = op.input(0), vector_operand(op, 1)
    require_dtype(op, x, (_FLOAT,), "data")
    require_rank(op, x, 3, "data")
    inside = op.emit("Less", unsqueeze(op, indices(op, size(op, x, 0)), [1]), lengths)
    return op.emit("Where", unsqueeze(op, inside, [2]), x, op.const(0, x), shape=op.shape(x))


@family.converts("LengthsPad", expects={1: _LENGTHS})
def lengths_pad(op: Op) -> Value:
    """LengthsPad(data, lengths; target_length, padding_value=-1) -> output [S * target_length, ...].

    Each segment is padded, or cut, to target_length rows.
    """
    x, lengths = op.input(0), vector_operand(op, 1)
    require_dtype(op, x, _NUMBERS, "data")
    value = op.args.number("padding_value", default=-1.0)
    width = op.args.integer("target_length", default=-1)
    if width < 1:
        op.unsupported(
            f"target_length must be positive, not {width}", hint="set target_length=N", code="invalid-argument"
        )
    rows, present = grid(op, lengths, width)
    rows, present = (op.emit("Reshape", v, op.const([-1], np.int64)) for v in (rows, present))
    return padded_rows(op, x, rows, present, row_of(op, x, _as_element(value, op.dtype(x).numpy())))


def _as_element(value: float, dtype: np.dtype[Any]) -> float:
    """Return ``value`` as C++ converts it on x86: for an integer it is cut, or the lowest one if it does not fit."""
    if dtype.kind != "i":
        return value
    limits = np.iinfo(dtype)
    return int(value) if limits.min <= value <= limits.max else int(limits.min)


@family.converts("PadEmptySamples", expects={0: _LENGTHS})
def pad_empty_samples(op: Op) -> tuple[Value, ...]:
    """PadEmptySamples(lengths, *features) -> lengths, *features: an empty segment becomes one row of zeros."""
    original = op.input(0)
    lengths = vector_operand(op, 0)
    is_empty = op.emit("Equal", lengths, op.const([0], np.int64))
    padded = op.emit("Where", is_empty, op.const([1], np.int64), lengths)
    fields = op.inputs[1:]
    for field in fields:
        require_min_rank(op, field, 1, "features")
    if not fields:
        return (cast(op, padded, op.dtype(original)),)
    segments = row_segments(op, padded)
    rows = op.emit("Gather", starts(op, lengths), segments, axis=0)
    position = row_positions(op, padded, segments)
    present = op.emit("Less", position, op.emit("Gather", lengths, segments, axis=0))
    rows = op.emit("Add", rows, position)
    return cast(op, padded, op.dtype(original)), *(padded_rows(op, x, rows, present, zero_row(op, x)) for x in fields)


@family.converts("AddPadding", expects={1: _LENGTHS})
def add_padding(op: Op) -> tuple[Value, Value | None]:
    """AddPadding(data[, lengths, start, end]; padding_width=1, end_padding_width=-1) -> data, lengths.

    padding_width rows are added before each segment and end_padding_width after it (-1: as many), copies of the row
    start and of the row end (by default start), or zeros. Without lengths all rows are one segment.
    """
    x = op.input(0)
    before, after = _padding_widths(op)
    if before == after == 0:
        return x, op.optional(1)
    require_dtype(op, x, (*_NUMBERS, _BOOL), "data")
    require_min_rank(op, x, 1, "data")
    first = _padding_row(op, x, 2)
    last = _padding_row(op, x, 3) if op.has_input(3) else first
    widening = op.const([before + after], np.int64)
    rows = size_vector(op, x, 0)
    if not op.has_input(1):
        padded = op.emit("Concat", *_repeated(op, x, first, before), x, *_repeated(op, x, last, after), axis=0)
        return padded, cast(op, op.emit("Add", rows, widening), _INT32)
    lengths = vector_operand(op, 1, any_rank=True)
    longer = op.emit("Add", lengths, widening)
    segments = row_segments(op, longer)
    position = op.emit("Sub", row_positions(op, longer, segments), op.const([before], np.int64))
    # The source of each row: in the segment its row of x; x is followed by the rows for the start and the end.
    source = op.emit("Add", op.emit("Gather", starts(op, lengths), segments, axis=0), position)
    is_after = op.emit("GreaterOrEqual", position, op.emit("Gather", lengths, segments, axis=0))
    source = op.emit("Where", is_after, op.emit("Add", rows, op.const([1], np.int64)), source)
    source = op.emit("Where", op.emit("Less", position, op.const([0], np.int64)), rows, source)
    padded = take_rows(op, op.emit("Concat", x, first, last, axis=0), source)
    return padded, cast(op, longer, _INT32)


@family.converts("RemovePadding", expects={1: _LENGTHS})
def remove_padding(op: Op) -> tuple[Value, Value | None]:
    """RemovePadding(data[, lengths]; padding_width=1, end_padding_width=-1) -> data, lengths.

    Removes what AddPadding adds. Without lengths all rows are one segment.
    """
    x = op.input(0)
    before, after = _padding_widths(op)
    if before == after == 0:
        return x, op.optional(1)
    require_dtype(op, x, (*_NUMBERS, _BOOL), "data")
    rows = size(op, x, 0)
    lengths = vector_operand(op, 1, any_rank=True) if op.has_input(1) else vector(op, [rows])
    segments = row_segments(op, lengths, rows)
    position = row_positions(op, lengths, segments)
    end = op.emit("Sub", op.emit("Gather", lengths, segments, axis=0), op.const([after], np.int64))
    start = op.const([before], np.int64)
    kept = op.emit("And", op.emit("GreaterOrEqual", position, start), op.emit("Less", position, end))
    shorter = op.emit("Sub", lengths, op.const([before + after], np.int64))
    return op.emit("Compress", x, kept, axis=0), cast(op, shorter, _INT32)


@family.converts("GatherPadding", expects={1: _LENGTHS})
def gather_padding(op: Op) -> tuple[Value, ...]:
    """GatherPadding(data, lengths; padding_width=1, end_padding_width=-1) -> padding_sum[, end_padding_sum].

    The sum of all rows of padding; with two outputs those before and those after the segments are summed apart.
    """
    x = op.input(0)
    before, after = _padding_widths(op)
    if before == after == 0:
        none = op.const(0, np.int64)
        return (none, op.emit("Identity", none))[: op.output_count]
    require_dtype(op, x, _NUMBERS, "data")
    lengths = vector_operand(op, 1, any_rank=True)
    start = unsqueeze(op, starts(op, lengths), [1])
    end = op.emit("Add", start, unsqueeze(op, lengths, [1]))
    first = op.emit("Add", start, row_vector(op, np.arange(op.bounded(before))))
    last = op.emit("Add", end, row_vector(op, np.arange(-op.bounded(after), 0)))
    if op.wants(1):
        return _sum_of_rows(op, x, first), _sum_of_rows(op, x, last)
    return (_sum_of_rows(op, x, op.emit("Concat", first, last, axis=1)),)


def _present_rows(op: Op, x: Value, present: Value) -> Value:
    """Return the rows of ``x`` [S, M, ...] where the mask ``present`` [S, M] is true, [N, ...]."""
    count = product(op, sizes(op, x, 0, 2))
    flat = reshape(op, x, [count, *sizes(op, x, 2)])
    return op.emit("Compress", flat, op.emit("Reshape", present, op.const([-1], np.int64)), axis=0)


def _padding_widths(op: Op) -> tuple[int, int]:
    """Return the numbers of rows of padding before and after each segment."""
    before = op.args.integer("padding_width", default=1)
    after = op.args.integer("end_padding_width", default=-1)
    if before < 0:
        op.unsupported(f"padding_width must not be negative, not {before}", code="invalid-argument")
    return before, before if after < 0 else after


def _padding_row(op: Op, x: Value, index: int) -> Value:
    """Return the optional operand ``index`` as a row of the shape of those of ``x``, [1, ...]; zeros without it."""
    row = op.optional(index)
    return zero_row(op, x) if row is None else reshape(op, row, [1, *sizes(op, x, 1)])


def _repeated(op: Op, x: Value, row: Value, count: int) -> list[Value]:
    """Return a row [1, ...] of the rank of ``x``, ``count`` times, as operands of a Concat."""
    if count <= 1:
        return [row] * count
    return [op.emit("Expand", row, op.const([count, *[1] * (op.rank(x) - 1)], np.int64))]


def _sum_of_rows(op: Op, x: Value, rows: Value) -> Value:
    """Return the sum of the rows of ``x`` at indices ``rows`` [S, K]."""
    gathered = op.emit("Gather", x, rows, axis=0)
    return op.emit("ReduceSum", gathered, op.const([0, 1], np.int64), keepdims=0)
