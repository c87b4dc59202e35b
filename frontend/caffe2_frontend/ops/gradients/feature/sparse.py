"""Gradients of sparse features."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.operand_checks import INDICES, require_dtype, require_min_rank, require_rank
from caffe2_frontend.emit.rows.id_columns import columns_of_ids, mask_ids
from caffe2_frontend.emit.rows.segments import padded_rows, row_segments, scatter_rows, vector_operand, zero_row
from caffe2_frontend.emit.shapes import indices, product, reshape, size, sizes, vector
from caffe2_frontend.interop.types import INT32, INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("sparse_gradient")


# Ids, the gradient, and lengths.
_OPERANDS: Final = {0: TensorInfo(INT64, (None,)), 1: TensorInfo(ir.DataType.FLOAT), 2: TensorInfo(INT32, (None,))}


@family.converts("SparseToDenseMaskGradient", expects=_OPERANDS)
def sparse_to_dense_mask_gradient(op: Op) -> Value:
    """SparseToDenseMaskGradient(indices, dY[, lengths]; mask) -> dvalues.

    The last value of a segment with an id in ``mask`` gets the row of dY at that segment and id; others get 0.
    """
    op.args.ignore("return_presence_mask", "max_skipped_indices")
    mask = mask_ids(op)
    ids, dy = op.input(0), op.input(1)
    require_dtype(op, ids, INDICES, "indices")
    require_rank(op, ids, 1, "indices")
    has_lengths = op.has_input(2)
    require_min_rank(op, dy, 2 if has_lengths else 1, "the gradient")
    column = columns_of_ids(op, ids, mask)
    found = op.emit("Less", column, op.const(len(mask), np.int64))
    target, rows = column, dy
    count = vector(op, [len(mask)])
    if has_lengths:
        lengths = vector_operand(op, 2)
        segments = row_segments(op, lengths, size(op, ids, 0))
        segment_count = vector(op, [size(op, lengths, 0)])
        # Ids beyond the last segment belong to none.
        found = op.emit("And", found, op.emit("Less", segments, segment_count))
        target = op.emit("Add", column, op.emit("Mul", segments, op.const(len(mask), np.int64)))
        dims = sizes(op, dy)
        rows = reshape(op, dy, [product(op, dims[:2]), *dims[2:]])
        count = op.emit("Mul", segment_count, count)
    # Values without a row of dY share an extra one at the end.
    target = op.emit("Where", found, target, count)
    position = indices(op, size(op, ids, 0))
    last = scatter_rows(op, position, target, op.emit("Add", count, op.const([1], np.int64)), "max", -1)
    is_last = op.emit("Equal", op.emit("Gather", last, target, axis=0), position)
    return padded_rows(op, rows, target, op.emit("And", found, is_last), zero_row(op, rows))
