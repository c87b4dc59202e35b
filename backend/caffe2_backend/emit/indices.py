"""Indices into an operand whose dims are flattened into rows.

Where element [i, j, k] of a tensor of sizes [a, b, c] is meant, its row is (i * b + j) * c + k.
"""

from __future__ import annotations

import math

import numpy as np

from caffe2_backend.emit.shapes import arange, as_vector, dim_of, dims_of, known_size, product, reshape, size_list
from caffe2_backend.lowering.op import Op, index_type
from caffe2_backend.lowering.value import Value
from caffe2_bridge.bounds import MAX_FOLDED
from caffe2_frontend.interop.types import INT64


def non_negative(op: Op, indices: Value, data: Value, axis: int) -> Value:
    """Return indices into an axis of ``data`` as int64, negative ones counted from its end."""
    known, size = op.known(indices), op.static_dim(data, axis)
    if known is not None and size is not None:
        return op.const(np.where(known < 0, known.astype(np.int64) + size, known), INT64)
    if known is not None and (known >= 0).all():
        return indices
    integers = index_type(op, indices)
    length = dim_of(op, data, axis) if size is None else op.const([size], INT64)
    is_negative = (integers < 0).cast(INT64)
    if size is not None or op.rank(indices) == 0:
        length = length.reshape([])
    return integers + is_negative * length


def flat_indices(op: Op, data: Value, indices: Value, axis: int) -> Value:
    """Return the rows of the flattened operand that indices into an axis name, in their shape, as GatherElements does.

    The index along every other axis is the position in ``indices`` itself.
    """
    if op.rank(indices) != op.rank(data):
        op.unsupported(
            f"the indices must have the rank of the data ({op.rank(data)}), not {op.rank(indices)}",
            code="invalid-operands",
        )
    sizes, shape = dims_of(op, data), op.static_shape(indices)
    strides = [math.prod(known_size(size) or 0 for size in sizes[i + 1 :]) for i in range(len(sizes))]
    if max(strides, default=0) > np.iinfo(np.int64).max:
        op.unsupported("the data must have fewer elements than int64 counts", code="invalid-operands")
    if shape is None or op.static_shape(data) is None or not _is_folded(shape):
        return _flat_indices_at_run_time(op, sizes, indices, non_negative(op, indices, data, axis), axis)
    base = np.zeros(shape, np.int64)
    for i, stride in enumerate(strides):
        if i != axis:
            base += np.arange(shape[i]).reshape([-1 if k == i else 1 for k in range(len(shape))]) * stride
    return non_negative(op, indices, data, axis) * strides[axis] + op.const(base, INT64)


def _is_folded(shape: tuple[int, ...]) -> bool:
    return math.prod(dim for dim in shape if dim) <= MAX_FOLDED  # each dim is a range, whatever the others are


def _flat_indices_at_run_time(op: Op, sizes: list[Value], indices: Value, along_axis: Value, axis: int) -> Value:
    shape = dims_of(op, indices)
    rows = along_axis * as_vector(op, product(op, sizes[axis + 1 :]))
    for i, size in enumerate(shape):
        if i != axis:
            along = arange(op, size) * as_vector(op, product(op, sizes[i + 1 :]))
            rows = rows + reshape(op, along, [size, *[1] * (len(shape) - 1 - i)])
    return rows


def row_indices(op: Op, data: Value, indices: Value, batch: int = 0) -> tuple[Value, int]:
    """Return the rows that the last axis of ``indices`` names, as GatherND does, and the number of axes flattened.

    The first ``batch`` axes of both operands go together.
    """
    sizes, shape = dims_of(op, data), dims_of(op, indices)
    if not shape:
        op.unsupported("the indices must have a dim", code="invalid-operands")
    depth = known_size(shape[-1])
    if depth is None:
        op.needs_shape("the last dim of the indices must be static")
    if not 0 < depth <= len(sizes) - batch:
        op.unsupported(
            f"the last dim of the indices must be from 1 to {len(sizes) - batch}, not {depth}", code="invalid-operands"
        )
    named = sizes[batch : batch + depth]
    strides = size_list(op, [product(op, named[i + 1 :]) for i in range(depth)])
    given = index_type(op, indices)
    is_negative = (given < 0).cast(INT64)
    counted = given + is_negative * size_list(op, named)
    rows = op.emit("ReduceSum", counted * strides, axes=[len(shape) - 1], keepdims=0)
    for i, size in enumerate(shape[:batch]):
        along = arange(op, size) * as_vector(op, product(op, [*sizes[i + 1 : batch], *named]))
        rows = rows + reshape(op, along, [size, *[1] * (len(shape) - 2 - i)])
    return rows, batch + depth
