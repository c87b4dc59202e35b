"""Conversions between lengths, offsets, segment ids and ranges, and rows selected or repeated by them.

Lengths, offsets, ids and ranges are int32 in Caffe2 unless stated otherwise, and int64 while they are computed here.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.operand_checks import INDICES, require_dim, require_dtype, require_min_rank, require_rank
from caffe2_frontend.emit.rows.segments import (
    count_rows,
    ends,
    grid,
    lengths_vector,
    longest,
    padded_rows,
    range_rows,
    row_of,
    row_positions,
    row_segments,
    scatter_rows,
    segment_count,
    starts,
    take_rows,
    vector_operand,
)
from caffe2_frontend.emit.shapes import (
    Size,
    cast,
    indices,
    reshape,
    size,
    slice_axis,
    unsqueeze,
    vector,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("lengths")

_FLOAT, _INT32, _INT64 = ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64
# Element types of a count, of which Caffe2 copies the bytes.
_COUNTS: Final = (_INT32, _INT64, ir.DataType.INT16, ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.BOOL)
_LENGTHS: Final = TensorInfo(_INT32, (None,))


@family.converts("LengthsToOffsets", expects={0: _LENGTHS})
def lengths_to_offsets(op: Op) -> Value:
    """LengthsToOffsets(lengths; include_last_offset=0) -> offsets.

    The offset of a segment is its first row; the last offset is the number of rows.
    """
    lengths = vector_operand(op, 0)
    if not op.args.flag("include_last_offset", default=False):
        return cast(op, starts(op, lengths), _INT32)
    return cast(op, op.emit("Concat", op.const([0], np.int64), ends(op, lengths), axis=0), _INT32)


@family.converts("LengthsToRanges", expects={0: _LENGTHS})
def lengths_to_ranges(op: Op) -> Value:
    """LengthsToRanges(lengths) -> ranges, (start, length) pairs [S, 2]."""
    lengths = vector_operand(op, 0)
    return cast(op, _pairs(op, starts(op, lengths), lengths), _INT32)


@family.converts("LengthsToSegmentIds", expects={0: _LENGTHS})
def lengths_to_segment_ids(op: Op) -> Value:
    """LengthsToSegmentIds(lengths) -> segment_ids."""
    return cast(op, row_segments(op, vector_operand(op, 0)), _INT32)


@family.converts("LengthsRangeFill", expects={0: _LENGTHS})
def lengths_range_fill(op: Op) -> Value:
    """LengthsRangeFill(lengths) -> range_sequence: 0, 1, ..., length - 1 for each segment."""
    lengths = vector_operand(op, 0)
    return cast(op, row_positions(op, lengths, row_segments(op, lengths)), _INT32)


@family.converts("LengthsToShape", expects={0: _LENGTHS})
def lengths_to_shape(op: Op) -> Value:
    """LengthsToShape(lengths) -> [S, length], the shape of S segments of equal length."""
    lengths = vector_operand(op, 0)
    sizes = op.emit("Concat", op.emit("Shape", lengths), slice_axis(op, lengths, 0, 0, 1), axis=0, shape=[2])
    return cast(op, sizes, _INT32)


@family.converts("LengthsToWeights", expects={0: TensorInfo(None, (None,))})
def lengths_to_weights(op: Op) -> Value:
    """LengthsToWeights(lengths; power=0.5) -> weights: ``1 / length ** power`` for each row of a segment."""
    power = op.args.number("power", default=0.5)
    lengths = vector_operand(op, 0, INDICES)
    weights = op.emit("Pow", cast(op, lengths, ir.DataType.DOUBLE), op.const(-power, np.float64))
    return cast(op, op.emit("Gather", weights, row_segments(op, lengths), axis=0), _FLOAT)


@family.converts("SegmentIdsToLengths", expects={0: TensorInfo(None, (None,))})
def segment_ids_to_lengths(op: Op) -> Value:
    """SegmentIdsToLengths(segment_ids[, data]) -> lengths.

    There are as many segments as data has rows or, without it, as the maximum id plus one.
    """
    ids = op.input(0)
    require_dtype(op, ids, INDICES, "segment ids")
    if op.rank(ids) != 2:
        require_rank(op, ids, 1, "segment ids")
    ids = lengths_vector(op, ids)
    return cast(op, count_rows(op, ids, _segment_count(op, ids)), _INT32)


@family.converts("SegmentIdsToRanges", expects={0: TensorInfo(None, (None,))})
def segment_ids_to_ranges(op: Op) -> Value:
    """SegmentIdsToRanges(segment_ids[, data]) -> ranges, (start, length) pairs [S, 2].

    There are as many segments as data has rows or, without it, as the maximum id plus one. The ranges after that id
    start at 0.
    """
    ids = vector_operand(op, 0, INDICES)
    count = _segment_count(op, ids)
    lengths = count_rows(op, ids, count)
    in_use = op.emit("Less", indices(op, count), segment_count(op, ids))
    start = op.emit("Where", in_use, starts(op, lengths), op.const(0, np.int64))
    return cast(op, _pairs(op, start, lengths), _INT32)


@family.converts("LengthsGather", expects={1: _LENGTHS, 2: TensorInfo(None, (None,))})
def lengths_gather(op: Op) -> Value:
    """LengthsGather(items, lengths, indices) -> items: the rows of the segments at ``indices``, concatenated."""
    x, lengths, selected = op.input(0), vector_operand(op, 1), vector_operand(op, 2, INDICES)
    start, length = (op.emit("Gather", v, selected, axis=0) for v in (starts(op, lengths), lengths))
    return take_rows(op, x, range_rows(op, start, length))


@family.converts("GatherRanges", expects={0: TensorInfo(None, (None,)), 1: TensorInfo(_INT32, (None, None, 2))})
def gather_ranges(op: Op) -> tuple[Value, Value]:
    """GatherRanges(data, ranges) -> output, lengths.

    Ranges are (start, length) pairs [B, R, 2]; the output concatenates their elements, and lengths [B] counts those of
    each row of ranges.
    """
    x, ranges = op.input(0), op.input(1)
    require_rank(op, x, 1, "data")
    require_dtype(op, ranges, INDICES, "ranges")
    require_rank(op, ranges, 3, "ranges")
    ranges = cast(op, ranges, _INT64)
    start, length = (op.emit("Gather", ranges, op.const(i, np.int64), axis=2) for i in (0, 1))
    lengths = op.emit("ReduceSum", length, op.const([1], np.int64), keepdims=0)
    start, length = (op.emit("Reshape", v, op.const([-1], np.int64)) for v in (start, length))
    return take_rows(op, x, range_rows(op, start, length)), cast(op, lengths, _INT32)


@family.converts("LengthsTile", expects={1: _LENGTHS})
def lengths_tile(op: Op) -> Value:
    """LengthsTile(data, lengths) -> output: row ``i`` of the data, ``lengths[i]`` times."""
    x = op.input(0)
    require_min_rank(op, x, 1, "data")
    return take_rows(op, x, row_segments(op, vector_operand(op, 1)))


@family.converts("LengthsSplit", expects={0: _LENGTHS, 1: TensorInfo(None, (1,))})
def lengths_split(op: Op) -> Value:
    """LengthsSplit(lengths[, n_split]; n_split=0) -> output [S * n].

    Each length is split into n parts that differ by at most 1, larger ones first; n is the operand or the argument.
    """
    lengths = vector_operand(op, 0)
    parts = op.args.integer("n_split", default=0)
    n: Size = parts
    if op.has_input(1):
        require_dtype(op, op.input(1), _COUNTS, "n_split")
        n = cast(op, op.input(1), _INT64)
        require_rank(op, n, 1, "n_split")
        require_dim(op, n, 0, 1, "n_split")
    elif parts < 1:
        op.unsupported(f"n_split must be at least 1, not {parts}", hint="set n_split=N", code="invalid-argument")
    lengths = unsqueeze(op, lengths, [1])
    shorter, rest = (op.emit(kind, lengths, vector(op, [n])) for kind in ("Div", "Mod"))
    extra = cast(op, op.emit("Less", indices(op, n), rest), _INT64)
    return cast(op, op.emit("Reshape", op.emit("Add", shorter, extra), op.const([-1], np.int64)), _INT32)


@family.converts("LengthsTopK", expects={0: TensorInfo(_FLOAT, (None,)), 1: _LENGTHS})
def lengths_top_k(op: Op) -> tuple[Value, Value]:
    """LengthsTopK(data, lengths; k) -> values [S, k], indices [S, k].

    The k largest elements of each segment and their indices within it; segments of fewer are filled with 0 and -1.
    """
    x, lengths = op.input(0), vector_operand(op, 1)
    require_dtype(op, x, (_FLOAT,), "data")
    x = reshape(op, x, [-1])
    k = op.args.integer("k", default=-1)
    if k < 1:
        op.unsupported(f"k must be positive, not {k}", hint="set k=K", code="invalid-argument")
    width = op.emit("Max", longest(op, lengths), op.const([k], np.int64))
    rows, present = grid(op, lengths, width)
    # One row per segment, padded with -inf; an index from the length on is of padding.
    matrix = padded_rows(op, x, rows, present, row_of(op, x, float("-inf")))
    values, positions = op.emit("TopK", matrix, op.const([k], np.int64), axis=1, outputs=2)
    found = op.emit("Less", positions, unsqueeze(op, lengths, [1]))
    shape = [op.shape(lengths)[0], k]
    values = op.emit("Where", found, values, op.const(0.0, x), shape=shape)
    return values, cast(op, op.emit("Where", found, positions, op.const(-1, np.int64), shape=shape), _INT32)


@family.converts("LengthsPartition", expects={0: _LENGTHS, 1: TensorInfo(None, (None,))})
def lengths_partition(op: Op) -> tuple[Value, ...]:
    """LengthsPartition(lengths, ids, *values; pack_first_input=0) -> (lengths, ids, *values) per partition.

    The number of partitions n follows from the number of outputs. A row goes to partition ``ids mod n``; with
    pack_first_input its id becomes ``ids // n``.
    """
    lengths, ids, *extra = op.inputs
    count, rest = divmod(op.output_count, len(op.inputs))
    if rest or not count:
        op.unsupported(
            f"the outputs ({op.output_count}) must be a positive multiple of the inputs ({len(op.inputs)}) in number",
            code="invalid-argument",
        )
    pack = bool(op.args.integer("pack_first_input", default=0))
    require_dtype(op, ids, INDICES, "partitioned ids")
    require_rank(op, ids, 1, "partitioned ids")
    if count == 1:
        return (lengths, ids, *extra)
    flat = vector_operand(op, 0, any_rank=True)
    segments = row_segments(op, flat, size(op, ids, 0))
    divisor = op.const(count, ids)
    remainder = op.emit("Mod", ids, divisor)
    packed = op.emit("Div", op.emit("Sub", ids, remainder), divisor) if pack else ids
    outputs: list[Value] = []
    for partition in range(count):
        inside = op.emit("Equal", remainder, op.const(partition, ids))
        counts = scatter_rows(op, cast(op, inside, _INT64), segments, size(op, flat, 0), "add")
        outputs += [cast(op, counts, _INT32), *(op.emit("Compress", x, inside, axis=0) for x in (packed, *extra))]
    return tuple(outputs)


def _pairs(op: Op, first: Value, second: Value) -> Value:
    """Return two vectors [S] as the columns of a matrix [S, 2]."""
    return op.emit("Concat", unsqueeze(op, first, [1]), unsqueeze(op, second, [1]), axis=1)


def _segment_count(op: Op, ids: Value) -> Size:
    """Return the number of segments: the rows of the optional second operand, else the maximum id plus one."""
    return size(op, op.input(1), 0) if op.has_input(1) else segment_count(op, ids)
