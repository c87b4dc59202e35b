"""Writes of rows and elements by index."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import mul, scalar
from caffe2_frontend.emit.operand_checks import INDICES, require_dtype, require_min_rank, require_rank
from caffe2_frontend.emit.rows.row_updates import flat_indices, rows_for
from caffe2_frontend.emit.rows.segments import add_rows, filled
from caffe2_frontend.emit.shapes import broadcast_over_rows, cast, indices, product, reshape, size, sizes, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("scatter")

_INDICES = TensorInfo(ir.DataType.INT32, (None,))


def _row_indices(op: Op, index: int, x: Value) -> Value:
    """Return operand ``index``, indices of rows of ``x``, as an int64 vector."""
    require_min_rank(op, x, 1, "the data")
    require_dtype(op, op.input(index), INDICES, "indices")
    return flat_indices(op, op.input(index))


@family.converts("ScatterAssign", expects={1: _INDICES})
def scatter_assign(op: Op) -> Value:
    """ScatterAssign(data, indices, slices) -> data.

    Of several rows for the same index the last one is kept; ONNX leaves their order undefined.
    """
    x = op.input(0)
    targets = _row_indices(op, 1, x)
    rows = rows_for(op, op.input(2), targets, x)
    # The position of the last row for each index of the data.
    order = indices(op, size(op, targets, 0))
    last = op.emit("ScatterElements", filled(op, targets, [size(op, x, 0)]), targets, order, axis=0, reduction="max")
    # Let all rows for an index equal the last one: then their order does not matter.
    rows = op.emit("Gather", rows, op.emit("Gather", last, targets), axis=0)
    return op.emit("ScatterND", x, unsqueeze(op, targets, [1]), rows)


def _weighted_rows(_: OpView, index: int) -> TensorInfo:
    if index == 2:
        return _INDICES
    return TensorInfo(None, (1,) if index == 1 or (index > 2 and index % 2 == 0) else None)


@family.converts("ScatterWeightedSum", expects=_weighted_rows)
def scatter_weighted_sum(op: Op) -> Value:
    """ScatterWeightedSum(X0, w0, indices, X1, w1, ...) -> X0.

    The rows at the indices are multiplied by ``w0``, once per occurrence of their index; then the rows of the other
    operands, times their weights, are added.
    """
    if len(op.inputs) < 3 or len(op.inputs) % 2 == 0:
        op.unsupported(
            f"the operands must be X0, w0, indices and pairs of rows and weight, not {len(op.inputs)} tensors",
            code="invalid-operands",
        )
    x, weight = op.input(0), scalar(op, op.input(1))
    targets = _row_indices(op, 2, x)
    known = op.known(op.input(1))
    if known is None or known.item() != 1:
        factors = op.emit("Expand", weight, op.emit("Shape", targets))
        ones = filled(op, x, [size(op, x, 0)], 1)
        scale = op.emit("ScatterElements", ones, targets, factors, axis=0, reduction="mul")
        x = mul(op, x, broadcast_over_rows(op, scale, x))
    added = [
        mul(op, rows_for(op, rows, targets, x), scalar(op, factor))
        for rows, factor in zip(op.inputs[3::2], op.inputs[4::2], strict=True)
    ]
    if not added:
        return x
    # One scatter into the operand itself, in Caffe2's order: a runtime can work on the few rows in place.
    rows = op.emit("Concat", *added, axis=0) if len(added) > 1 else added[0]
    targets = op.emit("Concat", *[targets] * len(added), axis=0) if len(added) > 1 else targets
    return add_rows(op, x, targets, rows)


@family.converts("Scatter", expects={1: TensorInfo(ir.DataType.INT32)})
def scatter(op: Op) -> Value:
    """Scatter(data, indices, updates; axis=1) -> Y.

    Elements are replaced along ``axis``. Unlike ScatterElements, the dims before and after the axis are flattened to
    one each before indices and data are aligned.
    """
    x, targets, updates = op.input(0), cast(op, op.input(1), ir.DataType.INT64), op.input(2)
    axis = op.axis(op.args.integer("axis", default=1), op.rank(x))
    if {op.rank(targets), op.rank(updates)} != {op.rank(x)}:
        op.unsupported("data, indices and updates must have the same rank", code="invalid-operands")
    if axis <= 1 and op.rank(x) <= axis + 2:
        return op.emit("ScatterElements", x, targets, updates, axis=axis)
    blocks = [
        reshape(op, v, [product(op, sizes(op, v, 0, axis)), size(op, v, axis), product(op, sizes(op, v, axis + 1))])
        for v in (x, targets, updates)
    ]
    return reshape(op, op.emit("ScatterElements", *blocks, axis=1), sizes(op, x))


@family.converts(
    "CopyRowsToTensor",
    expects={
        0: TensorInfo(shape=(None, None)),
        1: TensorInfo(ir.DataType.INT64, (None,)),
        2: TensorInfo(shape=(None,)),
    },
)
def copy_rows_to_tensor(op: Op) -> Value:
    """CopyRowsToTensor(tensor, indices, row) -> tensor: the row is written at every index."""
    x, targets, row = op.input(0), op.input(1), op.input(2)
    for value, rank, what in ((x, 2, "the tensor"), (targets, 1, "indices"), (row, 1, "the row")):
        require_rank(op, value, rank, what)
    width, length = op.static_dim(x, 1), op.static_dim(row, 0)
    if width is not None and length is not None and width != length:
        op.unsupported(
            f"the width of input tensor should match lengths of row, but these are {width} and {length}",
            code="invalid-operands",
        )
    targets = unsqueeze(op, cast(op, targets, ir.DataType.INT64), [1])
    rows = op.emit("Expand", row, op.emit("Concat", op.emit("Shape", targets, end=1), op.emit("Shape", row), axis=0))
    return op.emit("ScatterND", x, targets, rows)
