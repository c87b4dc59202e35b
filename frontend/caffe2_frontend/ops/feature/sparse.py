"""Conversion of sparse rows and ranges to dense tensors, and back."""

from __future__ import annotations

from typing import Final

import numpy as np

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.operand_checks import INDICES, require_dtype, require_equal, require_min_rank, require_rank
from caffe2_frontend.emit.rows.id_columns import columns_of_ids, mask_ids
from caffe2_frontend.emit.rows.segments import (
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
from caffe2_frontend.interop.types import FLOAT, INT32, INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("sparse")

_LENGTHS: Final = TensorInfo(INT32, (None,))
_ID_VECTOR: Final = TensorInfo(INT64, (None,))


@family.converts("SparseToDense", expects={0: _ID_VECTOR})
def sparse_to_dense(op: Op) -> Value:
    """SparseToDense(indices, values[, shape_like]; output_first_dim=0) -> dense.

    Values are summed at their indices. The number of rows is the argument, that of the third operand, or the maximum
    index plus one.
    """
    ids, x = op.input(0), op.input(1)
    require_dtype(op, ids, INDICES, "indices")
    require_rank(op, ids, 1, "indices")
    require_dtype(op, x, (FLOAT, INT32, INT64), "values")
    require_min_rank(op, x, 1, "values")
    require_equal(op, op.static_dim(ids, 0), op.static_dim(x, 0), "indices and values")
    ids = cast(op, ids, INT64)
    rows = op.args.integer("output_first_dim", default=0)
    if rows > 0 and op.has_input(2):
        op.unsupported(
            "output_first_dim and a third operand must not both be given", hint="remove one", code="invalid-argument"
        )
    count: Size = rows
    if rows <= 0:
        count = size(op, op.input(2), 0) if op.has_input(2) else segment_count(op, ids)
    return scatter_rows(op, x, ids, count, "add")


@family.converts("SparseToDenseMask", expects={0: _ID_VECTOR, 3: _LENGTHS})
def sparse_to_dense_mask(op: Op) -> tuple[Value, Value | None]:
    """SparseToDenseMask(indices, values, default[, lengths]; mask, return_presence_mask=0) -> dense[, presence].

    For each id in ``mask``, the last value of a segment with that index, or the default. Without lengths all values are
    one segment, and the outputs lack the dim of segments. ``max_skipped_indices``, the number of invalid indices after
    which Caffe2 stops, is ignored.
    """
    op.args.ignore("max_skipped_indices")
    mask = mask_ids(op)
    ids, x, default = op.input(0), op.input(1), op.input(2)
    require_dtype(op, ids, INDICES, "indices")
    require_rank(op, ids, 1, "indices")
    require_min_rank(op, x, 1, "values")
    require_rank(op, default, op.rank(x) - 1, "default")
    require_dtype(op, default, (op.dtype(x),), "default")
    column = columns_of_ids(op, ids, mask)
    rows: list[Size] = []
    target = column
    if op.has_input(3):
        lengths = vector_operand(op, 3)
        segments = row_segments(op, lengths, size(op, ids, 0))
        target = op.emit("Add", column, op.emit("Mul", segments, op.const(len(mask), np.int64)))
        rows = [size(op, lengths, 0)]
    # Values whose id is not in the mask go to an extra row at the end, which is cut off again.
    count = product(op, [*rows, len(mask)])
    found = op.emit("Less", column, op.const(len(mask), np.int64))
    target = op.emit("Where", found, target, vector(op, [count]))
    extended = op.emit("Add", vector(op, [count]), op.const([1], np.int64))
    index = indices(op, size(op, ids, 0))
    last = scatter_rows(op, index, target, extended, "max", -1)
    last = reshape(op, op.emit("Slice", last, op.const([0], np.int64), vector(op, [count])), [*rows, len(mask)])
    present = op.emit("GreaterOrEqual", last, op.const(0, np.int64))
    dense = padded_rows(op, x, last, present, unsqueeze(op, default, [0]))
    return dense, present if op.args.flag("return_presence_mask", default=False) else None


@family.converts(
    "BatchSparseToDense",
    expects={0: _ID_VECTOR, 1: _ID_VECTOR, 2: TensorInfo(FLOAT, (None,)), 3: TensorInfo(None, (None, None))},
)
def batch_sparse_to_dense(op: Op) -> Value:
    """BatchSparseToDense(lengths, indices, values[, shape_like]; dense_last_dim=-1, default_value=0.0) -> dense.

    Row i has the values of segment i at their indices, and ``default_value`` elsewhere.
    """
    values = op.input(2)
    require_dtype(op, values, (FLOAT,), "values")
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
        op.unsupported(
            f"dense_last_dim must be positive without a fourth operand, not {width}", code="invalid-argument"
        )
    rows = size(op, op.input(0), 0)
    positions = _flat_positions(op, columns)
    dense = filled(op, values, [product(op, [rows, columns])], default)
    dense = op.emit("ScatterElements", dense, positions, reshape(op, values, [size(op, positions, 0)]), axis=0)
    return reshape(op, dense, [rows, columns])


@family.converts("BatchDenseToSparse", expects={0: _ID_VECTOR, 1: _ID_VECTOR, 2: TensorInfo(FLOAT, (None, None))})
def batch_dense_to_sparse(op: Op) -> Value:
    """BatchDenseToSparse(lengths, indices, dense) -> values.

    The elements of row i at the indices of segment i.
    """
    op.args.ignore("dense_last_dim", "default_value")
    dense = op.input(2)
    require_dtype(op, dense, (FLOAT,), "dense")
    require_rank(op, dense, 2, "dense")
    require_equal(op, op.static_dim(op.input(0), 0), op.static_dim(dense, 0), "lengths and rows")
    flat = reshape(op, dense, [product(op, sizes(op, dense))])
    return op.emit("Gather", flat, _flat_positions(op, size(op, dense, 1)), axis=0)


def _flat_positions(op: Op, columns: Size) -> Value:
    """Return the positions of the elements of segments in a flattened matrix of so many columns.

    The first two operands are the lengths of the segments, and the columns of their elements.
    """
    lengths, ids = (vector_operand(op, i, (INT64,)) for i in (0, 1))
    segments = row_segments(op, lengths, size(op, ids, 0))
    return op.emit("Add", ids, op.emit("Mul", segments, vector(op, [columns])), shape=op.shape(ids))


def _ranges_to_dense(op: OpView, index: int) -> TensorInfo:
    if index == 1:
        return TensorInfo(INT32, (None, len(op.args.integers("lengths", default=())) or None, 2))
    return _ID_VECTOR if index == 2 else TensorInfo()


@family.converts("GatherRangesToDense", expects=_ranges_to_dense)
def gather_ranges_to_dense(op: Op) -> tuple[Value, ...]:
    """GatherRangesToDense(data, ranges[, keys]; lengths) -> Y0, Y1, ...

    An output [B, length] for each of the ranges (start, length) of an example, zeros where its length differs from the
    argument. With keys the elements of a range are sorted by them. The limits after which Caffe2 stops
    (min_observation, max_mismatched_ratio, max_empty_ratio) are ignored.
    """
    op.args.ignore("min_observation", "max_mismatched_ratio", "max_empty_ratio")
    lengths = op.args.integers("lengths")
    x, ranges = op.input(0), op.input(1)
    require_rank(op, x, 1, "data")
    require_dtype(op, ranges, INDICES, "ranges")
    require_rank(op, ranges, 3, "ranges")
    require_equal(op, op.static_dim(ranges, 1), len(lengths), "ranges and lengths")
    if not lengths or min(lengths) < 1 or len(lengths) != op.output_count:
        op.unsupported(
            f"lengths must hold {op.output_count} positive elements, one per output, not {list(lengths)}",
            code="invalid-argument",
        )
    key = op.optional(2)
    if key is not None:
        require_dtype(op, key, (INT64,), "key")
        require_rank(op, key, 1, "key")
    ranges = cast(op, ranges, INT64)
    outputs = []
    for i, length in enumerate(lengths):
        range_ = op.emit("Gather", ranges, op.const(i, np.int64), axis=1)
        present = op.emit("Equal", slice_axis(op, range_, 1, 1, 2), op.const(length, np.int64))
        rows = op.emit("Add", slice_axis(op, range_, 1, 0, 1), op.const(np.arange(op.bounded(length)), np.int64))
        if key is not None:
            keys = padded_rows(op, key, rows, present, zero_row(op, key))
            _, order = op.emit("TopK", keys, op.const([length], np.int64), axis=1, largest=0, outputs=2)
            rows = op.emit("GatherElements", rows, order, axis=1)
        outputs.append(padded_rows(op, x, rows, present, zero_row(op, x)))
    return tuple(outputs)


@family.converts("SparseDropoutWithReplacement", expects={0: _ID_VECTOR, 1: _LENGTHS})
def sparse_dropout_with_replacement(op: Op) -> tuple[Value, Value]:
    """SparseDropoutWithReplacement(X, lengths; ratio=0.0, replacement_value=0) -> Y, lengths.

    With the probability ``ratio`` a segment is replaced by a single replacement value: it is appended to the values,
    and the segment's range is set to it.
    """
    x, lengths = op.input(0), vector_operand(op, 1)
    require_dtype(op, x, (INT64,), "values")
    require_rank(op, x, 1, "values")
    ratio = op.args.number("ratio", default=0.0)
    replacement = op.const([op.args.integer("replacement_value", default=0)], np.int64)
    if not 0 <= ratio <= 1:
        op.unsupported(f"ratio must be between 0 and 1, not {ratio}", code="invalid-argument")
    drawn = op.emit("RandomUniformLike", cast(op, lengths, FLOAT), seed=op.view.random_seed)
    kept = op.emit("GreaterOrEqual", drawn, op.const(ratio, np.float32))
    start = op.emit("Where", kept, starts(op, lengths), size_vector(op, x, 0))
    lengths = op.emit("Where", kept, lengths, op.const(1, np.int64))
    rows = range_rows(op, start, lengths)
    return take_rows(op, op.emit("Concat", x, replacement, axis=0), rows), cast(op, lengths, INT32)
