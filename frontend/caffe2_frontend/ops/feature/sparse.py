"""Sparse rows and ranges made dense, and back."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.binary_search import search, with_guard
from caffe2_frontend.emit.operand_checks import INDICES, require_dtype, require_equal, require_rank, require_rank_from
from caffe2_frontend.emit.segments import (
    filled,
    padded_rows,
    range_rows,
    row_segments,
    scatter_rows,
    segment_count,
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
    size,
    size_vector,
    sizes,
    slice_axis,
    unsqueeze,
    vector,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("sparse")

_FLOAT, _INT32, _INT64 = ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64
_LENGTHS: Final = TensorInfo(_INT32, (None,))
_INT64_VECTOR: Final = TensorInfo(_INT64, (None,))


@family.converts("SparseToDense", expects={0: _INT64_VECTOR})
def sparse_to_dense(op: Op) -> Value:
    """Rows summed at their indices: as many as an argument says, or as a third operand has, or as the indices need."""
    ids, x = op.input(0), op.input(1)
    require_dtype(op, ids, INDICES, "indices")
    require_rank(op, ids, 1, "indices")
    require_dtype(op, x, (_FLOAT, _INT32, _INT64), "values")
    require_rank_from(op, x, 1, "values")
    require_equal(op, op.static_dim(ids, 0), op.static_dim(x, 0), "indices and values")
    ids = cast(op, ids, _INT64)
    rows = op.args.integer("output_first_dim", default=0)
    if rows > 0 and op.has_input(2):
        op.unsupported("output_first_dim and a third operand both say how many rows", code="invalid-argument")
    count: Size = rows
    if rows <= 0:
        count = size(op, op.input(2), 0) if op.has_input(2) else segment_count(op, ids)
    return scatter_rows(op, x, ids, count, "add")


@family.converts("SparseToDenseMask", expects={0: _INT64_VECTOR, 3: _LENGTHS})
def sparse_to_dense_mask(op: Op) -> tuple[Value, Value | None]:
    """For each id in ``mask`` the last value of a segment that has it as its index, or the default.

    Without lengths all values are one segment, and the outputs have no dim of segments. How many rows with invalid
    indices real Caffe2 bears before it refuses to go on is not counted.
    """
    op.args.ignore("max_skipped_indices")
    mask = op.args.integers("mask")
    if not mask or min(mask) < 0 or len(set(mask)) < len(mask):
        op.unsupported("mask must be ids, none of them negative or twice", code="invalid-argument")
    ids, x, default = op.input(0), op.input(1), op.input(2)
    require_dtype(op, ids, INDICES, "indices")
    require_rank(op, ids, 1, "indices")
    require_rank_from(op, x, 1, "values")
    require_rank(op, default, op.rank(x) - 1, "default")
    require_dtype(op, default, (op.dtype(x),), "default")
    column = _columns_of_ids(op, ids, mask)
    rows: list[Size] = []
    place = column
    if op.has_input(3):
        lengths = vector_operand(op, 3)
        segments = row_segments(op, lengths, size(op, ids, 0))
        place = op.emit("Add", column, op.emit("Mul", segments, op.const(len(mask), np.int64)))
        rows = [size(op, lengths, 0)]
    # What is found in no column goes behind the last place.
    places = product(op, [*rows, len(mask)])
    found = op.emit("Less", column, op.const(len(mask), np.int64))
    place = op.emit("Where", found, place, vector(op, [places]))
    behind = op.emit("Add", vector(op, [places]), op.const([1], np.int64))
    number = indices(op, size(op, ids, 0))
    last = scatter_rows(op, number, place, behind, "max", -1)
    last = reshape(op, op.emit("Slice", last, op.const([0], np.int64), vector(op, [places])), [*rows, len(mask)])
    present = op.emit("GreaterOrEqual", last, op.const(0, np.int64))
    dense = padded_rows(op, x, last, present, unsqueeze(op, default, [0]))
    return dense, present if op.args.flag("return_presence_mask", default=False) else None


def _columns_of_ids(op: Op, ids: Value, mask: tuple[int, ...]) -> Value:
    """The place of each id in the mask; as many as the mask has where it is not in there, or no valid id."""
    order = np.argsort(mask)
    names = op.const(np.array(mask)[order], np.int64)
    greatest = np.iinfo(op.dtype(ids).numpy()).max
    valid = op.emit("Less", ids, op.const(greatest, ids))
    ids = cast(op, ids, _INT64)
    place = search(op, names, ids, "left")
    found = op.emit("And", valid, op.emit("Equal", op.emit("Gather", with_guard(op, names), place), ids))
    within = op.emit("Less", place, op.const(len(mask), np.int64))
    column = op.emit("Gather", op.const([*order, len(mask)], np.int64), place)
    return op.emit("Where", op.emit("And", found, within), column, op.const(len(mask), np.int64))


@family.converts(
    "BatchSparseToDense",
    expects={0: _INT64_VECTOR, 1: _INT64_VECTOR, 2: TensorInfo(_FLOAT, (None,)), 3: TensorInfo(None, (None, None))},
)
def batch_sparse_to_dense(op: Op) -> Value:
    """Row ``i`` has the values of segment ``i`` at their indices, and ``default_value`` elsewhere."""
    values = op.input(2)
    require_dtype(op, values, (_FLOAT,), "values")
    default = op.args.number("default_value", default=0.0)
    width = op.args.integer("dense_last_dim", default=-1)
    columns: Size = width
    if op.has_input(3):
        like = op.input(3)
        require_rank(op, like, 2, "the shape operand")
        require_equal(
            op, None if width == -1 else width, op.static_dim(like, 1), "dense_last_dim and the shape operand"
        )
        columns = size(op, like, 1) if width == -1 else width
    elif width < 1:
        op.unsupported(f"dense_last_dim is {width}, at least 1 is needed", code="invalid-argument")
    rows = size(op, op.input(0), 0)
    place = _places(op, columns)
    dense = filled(op, values, [product(op, [rows, columns])], default)
    dense = op.emit("ScatterElements", dense, place, reshape(op, values, [size(op, place, 0)]), axis=0)
    return reshape(op, dense, [rows, columns])


@family.converts(
    "BatchDenseToSparse", expects={0: _INT64_VECTOR, 1: _INT64_VECTOR, 2: TensorInfo(_FLOAT, (None, None))}
)
def batch_dense_to_sparse(op: Op) -> Value:
    """Of row ``i`` the elements at the indices of segment ``i``."""
    op.args.ignore("dense_last_dim", "default_value")
    dense = op.input(2)
    require_dtype(op, dense, (_FLOAT,), "dense")
    require_rank(op, dense, 2, "dense")
    require_equal(op, op.static_dim(op.input(0), 0), op.static_dim(dense, 0), "lengths and rows")
    flat = reshape(op, dense, [product(op, sizes(op, dense))])
    return op.emit("Gather", flat, _places(op, size(op, dense, 1)), axis=0)


def _places(op: Op, columns: Size) -> Value:
    """Where the elements of segments (lengths and indices are the first operands) lie in rows of so many columns."""
    lengths, ids = (vector_operand(op, i, (_INT64,)) for i in (0, 1))
    segments = row_segments(op, lengths, size(op, ids, 0))
    return op.emit("Add", ids, op.emit("Mul", segments, vector(op, [columns])), shape=op.shape(ids))


@family.converts("GatherRangesToDense", expects={1: TensorInfo(_INT32, (None, None, 2)), 2: _INT64_VECTOR})
def gather_ranges_to_dense(op: Op) -> tuple[Value, ...]:
    """For each range of a row an output [B, length], zeros where the range has another length.

    A third operand is a key for each element: the elements of a range are sorted by it. How many ranges of another
    length, or empty ones, real Caffe2 bears before it refuses to go on is not counted.
    """
    op.args.ignore("min_observation", "max_mismatched_ratio", "max_empty_ratio")
    lengths = op.args.integers("lengths")
    x, ranges = op.input(0), op.input(1)
    require_rank(op, x, 1, "data")
    require_dtype(op, ranges, INDICES, "ranges")
    require_rank(op, ranges, 3, "ranges")
    require_equal(op, op.static_dim(ranges, 1), len(lengths), "ranges and lengths")
    if not lengths or min(lengths) < 1 or len(lengths) != op.output_count:
        op.unsupported(f"lengths {list(lengths)} for {op.output_count} outputs", code="invalid-argument")
    key = op.optional(2)
    if key is not None:
        require_dtype(op, key, (_INT64,), "key")
        require_rank(op, key, 1, "key")
    ranges = cast(op, ranges, _INT64)
    outputs = []
    for i, length in enumerate(lengths):
        range_ = op.emit("Gather", ranges, op.const(i, np.int64), axis=1)
        present = op.emit("Equal", slice_axis(op, range_, 1, 1, 2), op.const(length, np.int64))
        rows = op.emit("Add", slice_axis(op, range_, 1, 0, 1), op.const(np.arange(length), np.int64))
        if key is not None:
            keys = padded_rows(op, key, rows, present, zero_row(op, key))
            _, order = op.emit("TopK", keys, op.const([length], np.int64), axis=1, largest=0, outputs=2)
            rows = op.emit("GatherElements", rows, order, axis=1)
        outputs.append(padded_rows(op, x, rows, present, zero_row(op, x)))
    return tuple(outputs)


@family.converts("SparseDropoutWithReplacement", expects={0: _INT64_VECTOR, 1: _LENGTHS})
def sparse_dropout_with_replacement(op: Op) -> tuple[Value, Value]:
    """A segment, with the probability ``ratio``, becomes one replacement value."""
    x, lengths = op.input(0), vector_operand(op, 1)
    require_dtype(op, x, (_INT64,), "values")
    require_rank(op, x, 1, "values")
    ratio = op.args.number("ratio", default=0.0)
    replacement = op.const([op.args.integer("replacement_value", default=0)], np.int64)
    if not 0 <= ratio <= 1:
        op.unsupported(f"ratio {ratio} is no probability", code="invalid-argument")
    drawn = op.emit("RandomUniformLike", cast(op, lengths, _FLOAT), seed=op.view.random_seed)
    kept = op.emit("GreaterOrEqual", drawn, op.const(ratio, np.float32))
    start = op.emit("Where", kept, starts(op, lengths), size_vector(op, x, 0))
    lengths = op.emit("Where", kept, lengths, op.const(1, np.int64))
    rows = range_rows(op, start, lengths)
    return take_rows(op, op.emit("Concat", x, replacement, axis=0), rows), cast(op, lengths, _INT32)
