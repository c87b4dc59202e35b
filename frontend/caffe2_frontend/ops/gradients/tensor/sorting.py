"""Gradients of the selection of the largest elements."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.operand_checks import REALS, require_dtype, require_min_rank, takes
from caffe2_frontend.emit.rows.segments import filled, lengths_vector, row_segments
from caffe2_frontend.emit.shapes import as_vector, product, reshape, size, sizes, slice_axis, vector
from caffe2_frontend.interop.types import INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("sorting_gradient")

_FLOAT: Final = TensorInfo(ir.DataType.FLOAT)
_INDICES: Final = TensorInfo(INT64)


@family.converts("TopKGradient", expects={0: _FLOAT, 1: _INDICES, 2: _FLOAT})
@takes(REALS, 0)
def top_k_gradient(op: Op) -> Value:
    """TopKGradient(dvalues, indices, X; k, axis=-1) -> dX: dvalues at their indices, 0 elsewhere.

    An index of -1 stands for an element that X does not have, where the axis is shorter than ``k``.
    """
    op.args.ignore("k")
    dy, index, x = op.input(0), op.input(1), op.input(2)
    require_dtype(op, index, [INT64], "indices")
    axis = op.axis(op.args.integer("axis", default=-1), op.rank(x))
    dims = sizes(op, x)
    count, length = op.static_dim(index, axis), op.static_dim(x, axis)
    if count is not None and length is not None and count <= length:
        return op.emit("ScatterElements", filled(op, dy, dims), index, dy, axis=axis)
    # An index of -1 is that of one more element at the end, which is cut off again.
    dims[axis] = length + 1 if length is not None else op.emit("Add", vector(op, [dims[axis]]), op.const([1], np.int64))
    return slice_axis(op, op.emit("ScatterElements", filled(op, dy, dims), index, dy, axis=axis), axis, 0, -1)


@family.converts("FlexibleTopKGradient", expects={0: _FLOAT, 1: _INDICES, 2: _FLOAT, 3: _INDICES})
@takes(REALS, 0, 2)
def flexible_top_k_gradient(op: Op) -> Value:
    """FlexibleTopKGradient(X, k, dvalues, indices) -> dX: dvalues at their indices, 0 elsewhere.

    Each row along the last axis has a ``k`` of its own; the values of all rows are concatenated.
    """
    x, dy, index = op.input(0), as_vector(op, op.input(2)), as_vector(op, op.input(3))
    require_min_rank(op, x, 1, "X")
    require_dtype(op, op.input(1), [INT64], "k")
    dims = sizes(op, x)
    row = row_segments(op, lengths_vector(op, op.input(1)), size(op, index, 0))
    flat = op.emit("Add", op.emit("Mul", row, vector(op, [dims[-1]])), index)
    zeros = filled(op, dy, [product(op, dims)])
    return reshape(op, op.emit("ScatterElements", zeros, flat, dy, axis=0), dims)
