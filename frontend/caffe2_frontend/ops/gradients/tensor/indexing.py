"""Gradients of the selection of elements by index or mask."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.emit.operand_checks import FLOATS, INDICES, NUMBERS, REALS, require_dtype, require_min_rank, takes
from caffe2_frontend.emit.rows.segments import filled, scatter_rows
from caffe2_frontend.emit.selection import true_indices
from caffe2_frontend.emit.shapes import (
    cast,
    concat_flat,
    indices,
    known_size,
    leading,
    product,
    reshape,
    size,
    sizes,
)
from caffe2_frontend.interop.types import INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("indexing_gradient")

_FLOAT: Final = TensorInfo(ir.DataType.FLOAT)
_INDICES: Final = TensorInfo(ir.DataType.INT32)


@family.converts("BatchGatherGradient", expects={0: _FLOAT, 1: _INDICES, 2: _FLOAT})
@takes(FLOATS, 0, 2)
def batch_gather_gradient(op: Op) -> Value:
    """BatchGatherGradient(data, indices, dY; axis=1, match_outer=0) -> ddata.

    The sums of the slices of dY at each index along ``axis``. With ``match_outer`` the indices have the data's dims
    before ``axis``, and each of these slices has indices of its own. This is the gradient of Gather, too.
    """
    data, index, dy = op.input(0), op.input(1), op.input(2)
    require_dtype(op, index, INDICES, "indices")
    require_min_rank(op, data, 2, "data")
    axis = op.axis(op.args.integer("axis", default=1), op.rank(data))
    match_outer = op.args.flag("match_outer", default=False)
    if match_outer and (axis == 0 or op.rank(index) < axis):
        op.unsupported(
            f"match_outer requires axis ({axis}) to be positive, and indices of at least that rank ({op.rank(index)})",
            code="invalid-argument",
        )
    dims = sizes(op, data)
    outer, inner = product(op, dims[:axis]), product(op, dims[axis + 1 :])
    count = product(op, sizes(op, index, axis if match_outer else 0))
    slices = reshape(op, dy, [outer, count, inner])
    index = reshape(op, cast(op, index, INT64), [outer if match_outer else 1, count, 1])
    index = op.emit("Expand", index, op.emit("Shape", slices))
    zeros = filled(op, data, [outer, dims[axis], inner])
    return reshape(op, op.emit("ScatterElements", zeros, index, slices, axis=1, reduction="add"), dims)


@family.converts("BooleanMaskGradient", expects={0: TensorInfo(ir.DataType.BOOL, (None,)), 1: _FLOAT})
@takes((*NUMBERS, ir.DataType.BOOL), 1)
def boolean_mask_gradient(op: Op) -> Value:
    """BooleanMaskGradient(mask, dY) -> dX: the elements of dY where the mask is true, 0 elsewhere.

    dX is a vector of the mask's first dim: Caffe2 reads as many elements of the mask, and of dY as many as are true.
    """
    mask, dy = op.input(0), op.input(1)
    if op.rank(mask) > 1:
        mask = leading(op, mask, size(op, mask, 0))
    index = true_indices(op, mask)
    if op.rank(dy) != 1 or op.rank(op.input(0)) > 1:
        dy = leading(op, dy, op.emit("Shape", index))
    return op.emit("ScatterElements", filled(op, dy, [size(op, mask, 0)]), index, dy, axis=0)


@family.converts(
    "BatchPermutationGradient", expects={0: TensorInfo(ir.DataType.INT32, (None,)), 1: TensorInfo(ir.DataType.FLOAT)}
)
@takes(REALS, 1)
def batch_permutation_gradient(op: Op) -> Value:
    """BatchPermutationGradient(indices, dY) -> dX: row i of dY as row ``indices[i]``.

    As in Caffe2 the permutation is inverted, where rows that no index names are row 0. It has the first indices in
    memory, as many as there are rows.
    """
    dy = op.input(1)
    count = size(op, dy, 0)
    index = cast(op, leading(op, op.input(0), count), INT64)
    inverse = op.emit("ScatterElements", filled(op, index, [count]), index, indices(op, count), axis=0)
    return op.emit("Gather", dy, inverse, axis=0)


@family.converts("QuantDecodeGradient", expects={0: _FLOAT})
@takes((ir.DataType.FLOAT,), 0)
def quant_decode_gradient(op: Op) -> Value:
    """QuantDecodeGradient(codebook, codes0, codes1, ..., dY0, dY1, ...) -> dcodebook: the sum of dY over each code."""
    book, *operands = op.inputs
    count = len(operands) // 2
    if not count or len(operands) % 2:
        op.unsupported(
            f"there must be as many gradients as code tensors: {len(operands)} operands given", code="invalid-operands"
        )
    codes = concat_flat(op, [cast(op, code, INT64) for code in operands[:count]])
    total = known_size(op, book)
    entries = product(op, sizes(op, book)) if total is None else total
    gradient = scatter_rows(op, concat_flat(op, operands[count:]), codes, entries, "add")
    return reshape(op, gradient, sizes(op, book))
