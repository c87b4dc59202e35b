"""Adagrad on the rows of a table, fused with the gradient of SparseLengthsSum and its relatives.

The gradient has one row per segment, which updates the rows at the indices of its segment, one after another.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import mul, reshape_like, scalar
from caffe2_frontend.emit.first_element import first_element
from caffe2_frontend.emit.operand_checks import INDICES, require_dtype
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.rows.row_updates import flat_indices, rows_for, update_rows
from caffe2_frontend.emit.rows.segments import divide_by_counts, row_positions, row_segments, vector_operand, weigh
from caffe2_frontend.emit.shapes import as_vector, size
from caffe2_frontend.interop.types import FLOAT, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.training.optimizer_steps import adagrad_row_arguments, adagrad_row_step, require_no_decay

family = Family("fused_sparse_adagrad")

_TYPES: Final = tuple(
    f"{rowwise}SparseAdagradFusedWithSparseLengths{reduction}Gradient{approximate}"
    for rowwise in ("", "RowWise")
    for reduction in ("Sum", "Mean", "WeightedSum")
    for approximate in ("", "Approx")
)


def _operand(op: OpView, index: int) -> TensorInfo:
    """Describe operands: parameter, moment, weights if there are any, indices, gradient, learning rate, lengths."""
    if "Weighted" in op.type:
        if index == 2:
            return TensorInfo(FLOAT, (None,))
        index -= index > 2
    if index == 1 and op.type.startswith("RowWise"):
        return TensorInfo(FLOAT, (None,))
    others = {
        2: TensorInfo(ir.DataType.INT64, (None,)),
        4: TensorInfo(FLOAT, (1,)),
        5: TensorInfo(ir.DataType.INT32, (None,)),
    }
    return others.get(index, TensorInfo(FLOAT))


@family.converts(*_TYPES, expects=_operand)
def fused_sparse_adagrad(op: Op) -> tuple[Value, ...]:
    """[RowWise]SparseAdagradFusedWithSparseLengths<R>Gradient[Approx](param, moment, indices, grad, lr, lengths; ...).

    <R> is Sum or Mean, the arguments are epsilon=1e-5, weight_decay=0.0 and decay=1.0 (Caffe2 requires 1), and the
    outputs param and moment. RowWise has one moment per row.

    WeightedSum has weights as third operand and their gradient as third output. A weight belongs to the position in a
    segment, as in SparseLengthsPositionalWeightedSum, but has a gradient per index. That is computed with the table
    before the update, or, by Approx, with the rows as the updates for earlier indices left them.
    """
    weighted, rowwise = "Weighted" in op.type, op.type.startswith("RowWise")
    arguments = adagrad_row_arguments(op, rowwise=rowwise)
    op.args.ignore("round_option", "counter_halflife")
    if op.type == "RowWiseSparseAdagradFusedWithSparseLengthsWeightedSumGradient":
        op.args.ignore("decay")
    else:
        require_no_decay(op)
    param, moments, lr = op.input(0), op.input(1), _rate(op, op.input(4 + weighted), rowwise=rowwise)
    for value, what in ((param, "the parameter"), (moments, "the moment"), (op.input(3 + weighted), "the gradient")):
        require_dtype(op, value, (FLOAT,), what)
    require_dtype(op, op.input(2 + weighted), INDICES, "indices")
    indices, lengths = flat_indices(op, op.input(2 + weighted)), vector_operand(op, 5 + weighted)
    by_segment = rows_for(op, op.input(3 + weighted), lengths, param)
    if "Mean" in op.type:
        by_segment = divide_by_counts(op, by_segment, lengths)
    segments = row_segments(op, lengths, size(op, indices, 0))
    grads = op.emit("Gather", by_segment, segments, axis=0)
    operands, results = [grads], []
    if weighted:
        weights = op.emit("Gather", as_vector(op, op.input(2)), row_positions(op, lengths, segments), axis=0)
        operands = [weigh(op, grads, weights)]
        if op.type.endswith("Approx"):
            operands, results = [*operands, grads], [weights]

    def step(inside: Op, old: list[Value], rows: list[Value]) -> tuple[tuple[Value, Value], list[Value]]:
        of_weights = [_dot(inside, unweighted, old[0]) for unweighted in rows[1:]]
        return adagrad_row_step(inside, old[0], old[1], rows[0], lr, arguments), of_weights

    table = as_vector(op, moments) if rowwise else reshape_like(op, moments, param)
    (new, new_moments), of_weights = update_rows(op, indices, [param, table], operands, results, step)
    if weighted and not of_weights:
        of_weights = [_dot(op, grads, op.emit("Gather", param, indices, axis=0))]
    return new, reshape_like(op, new_moments, moments), *of_weights


def _rate(op: Op, lr: Value, *, rowwise: bool) -> Value:
    """Return the learning rate as a scalar: RowWise operators check that it is one number, others read the first."""
    return scalar(op, lr) if rowwise else first_element(op, lr)


def _dot(op: Op, a: Value, b: Value) -> Value:
    """Return the dot product of each row of ``a`` and ``b``, [k]."""
    return reduce_axes(op, "ReduceSum", mul(op, a, b), list(range(1, op.rank(a))))
