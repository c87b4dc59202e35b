"""Writing rows of a tensor by index."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import mul, scalar
from caffe2_frontend.emit.operand_checks import INDICES, require_dtype, require_equal, require_rank, require_rank_from
from caffe2_frontend.emit.segments import filled, scatter_rows
from caffe2_frontend.emit.shapes import cast, indices, product, reshape, size, sizes, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.training.row_updates import flat_indices, rows_for

family = Family("scatter")

_INDICES = TensorInfo(ir.DataType.INT32, (None,))


def _targets(op: Op, index: int, x: Value) -> Value:
    """Indices of rows of ``x``, [K] int64."""
    require_rank_from(op, x, 1, "the data")
    require_dtype(op, op.input(index), INDICES, "indices")
    return flat_indices(op, op.input(index))


@family.converts("ScatterAssign", expects={1: _INDICES})
def scatter_assign(op: Op) -> Value:
    """Rows are overwritten; of several for the same index the last one stays."""
    x = op.input(0)
    places = _targets(op, 1, x)
    rows = rows_for(op, op.input(2), places, x)
    order = indices(op, size(op, places, 0))
    last = op.emit("ScatterElements", filled(op, places, [size(op, x, 0)]), places, order, axis=0, reduction="max")
    # All rows for an index hold the same then: it does not matter which is written last.
    rows = op.emit("Gather", rows, op.emit("Gather", last, places), axis=0)
    return op.emit("ScatterND", x, unsqueeze(op, places, [1]), rows)


@family.converts("ScatterWeightedSum", expects={2: _INDICES})
def scatter_weighted_sum(op: Op) -> Value:
    """The rows at the indices are scaled by the first weight, each time they are named; then rows are added."""
    if len(op.inputs) < 3 or len(op.inputs) % 2 == 0:
        op.unsupported(f"{len(op.inputs)} operands are no pairs of rows and weight", code="invalid-operands")
    x, weight = op.input(0), scalar(op, op.input(1))
    places = _targets(op, 2, x)
    known = op.known(op.input(1))
    if known is None or known.item() != 1:
        factors = op.emit("Expand", weight, op.emit("Shape", places))
        ones = filled(op, x, [size(op, x, 0)], 1)
        scale = op.emit("ScatterElements", ones, places, factors, axis=0, reduction="mul")
        x = mul(op, x, unsqueeze(op, scale, range(1, op.rank(x))))
    for rows, factor in zip(op.inputs[3::2], op.inputs[4::2], strict=True):
        added = mul(op, rows_for(op, rows, places, x), scalar(op, factor))
        x = op.emit("Add", x, scatter_rows(op, added, places, size(op, x, 0), "add"))
    return x


@family.converts("Scatter", expects={1: TensorInfo(ir.DataType.INT32)})
def scatter(op: Op) -> Value:
    """Elements are overwritten along ``axis`` (1); dims before and behind it count as one each."""
    x, places, updates = op.input(0), cast(op, op.input(1), ir.DataType.INT64), op.input(2)
    axis = op.axis(op.args.integer("axis", default=1), op.rank(x))
    if {op.rank(places), op.rank(updates)} != {op.rank(x)}:
        op.unsupported("data, indices and updates must have the same rank", code="invalid-operands")
    if axis <= 1 and op.rank(x) <= axis + 2:
        return op.emit("ScatterElements", x, places, updates, axis=axis)
    blocks = [
        reshape(op, v, [product(op, sizes(op, v, 0, axis)), size(op, v, axis), product(op, sizes(op, v, axis + 1))])
        for v in (x, places, updates)
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
    """The one row of the third operand is written at every index."""
    x, places, row = op.input(0), op.input(1), op.input(2)
    for value, rank, what in ((x, 2, "the tensor"), (places, 1, "indices"), (row, 1, "the row")):
        require_rank(op, value, rank, what)
    require_equal(op, op.static_dim(x, 1), op.static_dim(row, 0), "the width of the tensor and of the row")
    places = unsqueeze(op, cast(op, places, ir.DataType.INT64), [1])
    rows = op.emit("Expand", row, op.emit("Concat", op.emit("Shape", places, end=1), op.emit("Shape", row), axis=0))
    return op.emit("ScatterND", x, places, rows)
