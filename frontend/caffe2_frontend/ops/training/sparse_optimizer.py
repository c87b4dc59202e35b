"""Optimizers on rows of tables: one gradient row per index; an index that occurs twice is updated twice.

Caffe2 updates one index after another, so that a repeated index sees the row as the previous update left it.
emit.rows.row_updates runs the step on all distinct indices at once, as often as the most frequent index is repeated. A
step receives the tables' rows and the gradient rows [k, ...], and returns the tables' new rows and result rows.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import (
    add,
    aligned,
    binary,
    blend,
    div,
    mul,
    reshape_like,
    scalar,
    sqrt,
    square,
    sub,
    total,
)
from caffe2_frontend.emit.first_element import first_element
from caffe2_frontend.emit.operand_checks import SINGLE, takes
from caffe2_frontend.emit.rows.row_updates import as_table, flat_indices, rows_for, update_rows
from caffe2_frontend.emit.shapes import as_vector, broadcast_over_rows, cast, unsqueeze
from caffe2_frontend.interop.types import FLOAT, TensorInfo
from caffe2_frontend.lowering.family import Expectation, Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.training.optimizer_steps import (
    adadelta_arguments,
    adadelta_step,
    adagrad_row_arguments,
    adagrad_row_step,
    adam_corrections,
    ftrl_alpha,
    ftrl_arguments,
    ftrl_pairs,
    ftrl_step,
    mean_square,
    momentum_arguments,
    momentum_step,
    require_no_decay,
    storm_rates,
)

family = Family("sparse_optimizer")


def _operands(indices: int, lr: int | None = None, iteration: int | None = None) -> Expectation:
    """Describe operands: float tensors, but for indices, a learning rate of one element and an iteration number.

    Of RowWise operators the last state, ahead of the indices, has one element per row.
    """

    def expected(op: OpView, index: int) -> TensorInfo:
        if index == indices:
            return TensorInfo(ir.DataType.INT64, (None,))
        if index == iteration:
            return TensorInfo(ir.DataType.INT64, (1,))
        by_row = op.type.startswith("RowWise") and index == indices - 1
        return TensorInfo(FLOAT, (1,) if index == lr else (None,) if by_row else None)

    return expected


def _indices_and_rows(op: Op, indices: int, grad: int, table: Value) -> tuple[Value, Value]:
    """Return the indices as a vector, and the gradient with one row per index."""
    flat = flat_indices(op, op.input(indices))
    return flat, rows_for(op, op.input(grad), flat, table)


@family.converts("SparseAdagrad", "RowWiseSparseAdagrad", expects=_operands(indices=2, lr=4))
@takes(SINGLE, 0, 1, 3, 4)
def sparse_adagrad(op: Op) -> tuple[Value, Value]:
    """SparseAdagrad(param, moment, indices, grad, lr; epsilon=1e-5, weight_decay=0.0, decay=1.0) -> param, moment.

    Caffe2 requires that ``decay`` is 1. RowWiseSparseAdagrad likewise, without ``decay``, and with one moment per row,
    which grows by the mean of the row's squares.
    """
    rowwise = op.type == "RowWiseSparseAdagrad"
    arguments = adagrad_row_arguments(op, rowwise=rowwise)
    if rowwise:
        op.args.ignore("decay", "counter_halflife")
    else:
        require_no_decay(op)
    param = op.input(0) if rowwise else as_table(op, op.input(0))
    moments, lr = op.input(1), scalar(op, op.input(4))
    table = as_vector(op, moments) if rowwise else reshape_like(op, moments, param)
    indices, grads = _indices_and_rows(op, 2, 3, param)

    def step(inside: Op, old: list[Value], operands: list[Value]) -> tuple[tuple[Value, Value], list[Value]]:
        return adagrad_row_step(inside, old[0], old[1], operands[0], lr, arguments), []

    (new, new_moments), _ = update_rows(op, indices, [param, table], [grads], [], step)
    return aligned(op, new, op.input(0)), reshape_like(op, new_moments, moments)


@family.converts("SparseAdam", "RowWiseSparseAdam", expects=_operands(indices=3, lr=5, iteration=6))
@takes(SINGLE, 0, 1, 2, 4, 5)
def sparse_adam(op: Op) -> tuple[Value, ...]:
    """SparseAdam(param, m1, m2, indices, grad, lr, iter; beta1=0.9, beta2=0.999, epsilon=1e-5, ...) -> param, m1, m2.

    A fourth output is the step; ``enableRAdam`` is 0 by default. RowWiseSparseAdam likewise, with
    one second moment per row, of the mean of the row's squares, and without ``enableRAdam``.
    """
    rowwise = op.type == "RowWiseSparseAdam"
    beta1, beta2 = op.args.number("beta1", default=0.9), op.args.number("beta2", default=0.999)
    epsilon = op.args.number("epsilon", default=1e-5)
    rectified = not rowwise and op.args.flag("enableRAdam", default=False)
    param, lr = op.input(0), scalar(op, op.input(5))
    both, first, power2 = adam_corrections(op, op.input(6), beta1, beta2)
    rectification = _rectification(op, power2, beta2) if rectified else None
    moment1 = reshape_like(op, op.input(1), param)
    moment2 = as_vector(op, op.input(2)) if rowwise else reshape_like(op, op.input(2), param)
    indices, grads = _indices_and_rows(op, 3, 4, param)

    def step(inside: Op, old: list[Value], operands: list[Value]) -> tuple[list[Value], list[Value]]:
        (row, m1, m2), (grad,) = old, operands
        m1 = blend(inside, m1, grad, beta1)
        m2 = blend(inside, m2, mean_square(inside, grad) if rowwise else square(inside, grad), beta2)
        root = broadcast_over_rows(inside, sqrt(inside, m2), row) if rowwise else sqrt(inside, m2)
        divisor = add(inside, root, epsilon)
        if rectification is None and not op.wants(3):  # Caffe2 multiplies in another order then
            return [add(inside, row, div(inside, mul(inside, m1, mul(inside, lr, both)), divisor)), m1, m2], []
        change = div(inside, mul(inside, m1, both), divisor)
        if rectification is not None:
            usable, factor = rectification
            change = inside.emit("Where", usable, mul(inside, change, factor), mul(inside, m1, first))
        return [add(inside, row, mul(inside, change, lr)), m1, m2], [change] if op.wants(3) else []

    results = [grads] if op.wants(3) else []
    tables, changes = update_rows(op, indices, [param, moment1, moment2], [grads], results, step)
    return (
        tables[0],
        reshape_like(op, tables[1], op.input(1)),
        reshape_like(op, tables[2], op.input(2)),
        *(reshape_like(op, change, op.input(4)) for change in changes),
    )


def _rectification(op: Op, power2: Value, beta2: float) -> tuple[Value, Value]:
    """Return RAdam's rectification: whether the second moment is usable yet, and the factor of the step if it is.

    The length of the approximated simple moving average is ``limit - 2 * t * beta2 ** t / (1 - beta2 ** t)``. From 5 on
    the step is rectified; before, it is the bias-corrected first moment. (L. Liu et al., "On the Variance of the
    Adaptive Learning Rate and Beyond", 2019.)
    """
    with np.errstate(all="ignore"):  # beta2 may be 1
        limit = np.float64(2.0) / (1.0 - beta2) - 1.0
        scale = 1.0 / ((limit - 4.0) * (limit - 2.0)) * limit
        root = np.sqrt(scale)
    step = cast(op, add(op, first_element(op, op.input(6)), 1), ir.DataType.DOUBLE)
    length = sub(op, float(limit), div(op, mul(op, step, power2, 2.0), sub(op, 1.0, power2)))
    square_of_factor = div(op, mul(op, sub(op, length, 4.0), sub(op, length, 2.0)), length)
    factor = mul(op, sqrt(op, square_of_factor), float(root))
    return op.emit("GreaterOrEqual", length, op.const(5.0, length)), cast(op, factor, FLOAT)


@family.converts("SparseAdadelta", expects=_operands(indices=3, lr=5))
@takes(SINGLE, 0, 1, 2, 4, 5)
def sparse_adadelta(op: Op) -> tuple[Value, ...]:
    """SparseAdadelta(param, moment, delta, indices, grad, lr; epsilon=1e-5, decay=0.95) -> param, moment, delta."""
    epsilon, decay = adadelta_arguments(op)
    param, lr = as_table(op, op.input(0)), scalar(op, op.input(5))
    moment, delta = (reshape_like(op, op.input(i), param) for i in (1, 2))
    indices, grads = _indices_and_rows(op, 3, 4, param)

    def step(inside: Op, old: list[Value], operands: list[Value]) -> tuple[tuple[Value, ...], list[Value]]:
        return adadelta_step(inside, old[0], old[1], old[2], operands[0], lr, epsilon, decay), []

    tables, _ = update_rows(op, indices, [param, moment, delta], [grads], [], step)
    return (
        aligned(op, tables[0], op.input(0)),
        reshape_like(op, tables[1], op.input(1)),
        reshape_like(op, tables[2], op.input(2)),
    )


@family.converts("SparseFtrl", expects=_operands(indices=2))
@takes(SINGLE, 0, 1, 3, 4)
def sparse_ftrl(op: Op) -> tuple[Value, ...]:
    """SparseFtrl(param, nz, indices, grad[, alpha]; alpha=0.005, beta=1, lambda1=0.001, lambda2=0.001) -> param, nz."""
    alpha_inverse, arguments = ftrl_alpha(op, 4), ftrl_arguments(op)
    param, state = op.input(0), op.input(1)
    indices, grads = _indices_and_rows(op, 2, 3, param)

    def step(inside: Op, old: list[Value], operands: list[Value]) -> tuple[tuple[Value, ...], list[Value]]:
        return ftrl_step(inside, old[0], operands[0], old[1], alpha_inverse, arguments), []

    (new, pairs), _ = update_rows(op, indices, [param, ftrl_pairs(op, state, param)], [grads], [], step)
    return new, reshape_like(op, pairs, state)


@family.converts("SparseMomentumSGDUpdate", expects=_operands(indices=4, lr=2))
@takes(SINGLE, 0, 1, 2, 3)
def sparse_momentum(op: Op) -> tuple[Value, ...]:
    """SparseMomentumSGDUpdate(grad, moment, lr, param, indices; momentum=0.0, nesterov=0) -> grad, moment, param."""
    momentum, nesterov = momentum_arguments(op)
    param, lr = op.input(3), scalar(op, op.input(2))
    moments = reshape_like(op, op.input(1), param)
    indices, grads = _indices_and_rows(op, 4, 0, param)

    def step(inside: Op, old: list[Value], operands: list[Value]) -> tuple[list[Value], list[Value]]:
        adjusted, moment = momentum_step(inside, operands[0], old[0], lr, momentum, nesterov=nesterov)
        return [moment, sub(inside, old[1], adjusted)], [adjusted]

    (new_moments, new), (adjusted,) = update_rows(op, indices, [moments, param], [grads], [grads], step)
    return reshape_like(op, adjusted, op.input(0)), reshape_like(op, new_moments, op.input(1)), new


@family.converts("SparseStorm", expects=_operands(indices=4, lr=5))
@takes(SINGLE, 0, 1, 2, 3, 5)
def sparse_storm(op: Op) -> tuple[Value, ...]:
    """SparseStorm(param, moment, sum, grad, indices, lr; momentum=10.0, beta=0.1) -> param, moment, sum.

    All rows have the same rate, that of the sum of all squared gradients.
    """
    param, lr = as_table(op, op.input(0)), scalar(op, op.input(5))
    moments = reshape_like(op, op.input(1), param)
    indices, grads = _indices_and_rows(op, 4, 3, param)
    squares = add(op, op.input(2), total(op, square(op, grads)))
    rate, share = storm_rates(op, scalar(op, squares), lr)

    def step(inside: Op, old: list[Value], operands: list[Value]) -> tuple[list[Value], list[Value]]:
        (row, moment), (grad,) = old, operands
        moment = add(inside, moment, mul(inside, sub(inside, grad, moment), share))
        return [add(inside, row, mul(inside, moment, rate)), moment], []

    (new, new_moments), _ = update_rows(op, indices, [param, moments], [grads], [], step)
    return aligned(op, new, op.input(0)), reshape_like(op, new_moments, op.input(1)), squares


@family.converts("SparseWngrad", expects=_operands(indices=2, lr=4))
@takes(SINGLE, 0, 1, 3, 4)
def sparse_wngrad(op: Op) -> tuple[Value, Value]:
    """SparseWngrad(param, seq_b, indices, grad, lr; epsilon=1e-5) -> param, seq_b.

    A step does not depend on the parameter, so that the steps of a repeated index are just added. Unlike Wngrad, the
    sum of squares is divided by ``b`` without epsilon.
    """
    epsilon = op.args.number("epsilon", default=1e-5)
    param, sequence, lr = as_table(op, op.input(0)), op.input(1), scalar(op, op.input(4))
    indices, grads = _indices_and_rows(op, 2, 3, param)
    steps = div(op, mul(op, grads, lr), scalar(op, add(op, sequence, epsilon)))
    new = op.emit("ScatterND", param, unsqueeze(op, indices, [1]), steps, reduction="add")
    return aligned(op, new, op.input(0)), add(op, sequence, div(op, total(op, square(op, grads)), sequence))


@family.converts("SparseLpRegularizer", expects={0: TensorInfo(FLOAT), 1: TensorInfo(ir.DataType.INT64, (None,))})
@takes(SINGLE, 0)
def sparse_lp_regularizer(op: Op) -> Value:
    """SparseLpRegularizer(param, indices[, grad]; p=2.0, reg_lambda=1e-5) -> param.

    p=1 moves elements by ``reg_lambda`` towards 0, but not beyond (soft thresholding); p=2 scales them by
    ``1 - reg_lambda``. The gradient is not used.
    """
    p, strength = op.args.number("p", default=2.0), op.args.number("reg_lambda", default=1e-5)
    if p not in (1.0, 2.0):
        op.unsupported(f"p must be 1 or 2, not {p:g}", code="invalid-argument")
    if not 0 < strength < 1:
        op.unsupported(f"reg_lambda must be between 0 and 1 (exclusive), not {strength:g}", code="invalid-argument")

    def step(inside: Op, old: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        if p == 2.0:
            return [mul(inside, old[0], 1.0 - strength)], []
        return [inside.emit("Shrink", old[0], lambd=strength, bias=strength)], []

    (new,), _ = update_rows(op, flat_indices(op, op.input(1)), [as_table(op, op.input(0))], [], [], step)
    return aligned(op, new, op.input(0))


def _normalized(op: OpView, index: int) -> TensorInfo:
    if index == 1:
        return TensorInfo(ir.DataType.INT64, (None,))
    return TensorInfo(ir.DataType.FLOAT16 if op.type == "Float16SparseNormalize" else FLOAT)


@family.converts("SparseNormalize", "Float16SparseNormalize", expects=_normalized)
@takes(SINGLE, 0)
def sparse_normalize(op: Op) -> Value:
    """SparseNormalize | Float16SparseNormalize(param, indices[, grad]; norm=1.0, use_max_norm=1) -> param.

    Rows are scaled to the 2-norm ``norm``; with ``use_max_norm`` not those that are at most as long. The gradient is
    not used.
    """
    norm, longer_only = op.args.number("norm", default=1.0), op.args.flag("use_max_norm", default=True)
    if not norm >= 0:  # nor a NaN
        op.unsupported(f"norm must not be negative: {norm}", code="invalid-argument")
    param, indices = as_table(op, op.input(0)), flat_indices(op, op.input(1))
    rows = cast(op, op.emit("Gather", param, indices, axis=0), FLOAT)
    axes = op.const(list(range(1, op.rank(param))), np.int64)
    length = op.emit("ReduceL2", rows, axes, keepdims=1) if op.rank(param) > 1 else op.emit("Abs", rows)
    factor = div(op, norm, add(op, length, 1e-12))
    if longer_only:
        factor = op.emit("Where", binary(op, "LessOrEqual", length, norm), op.const(1.0, rows), factor)
    scaled = cast(op, mul(op, rows, factor), op.dtype(param))
    return aligned(op, op.emit("ScatterND", param, unsqueeze(op, indices, [1]), scaled), op.input(0))


@family.converts(
    "RowWiseCounter",
    expects={
        0: TensorInfo(ir.DataType.INT64),
        1: TensorInfo(ir.DataType.DOUBLE),
        2: TensorInfo(ir.DataType.INT64, (None,)),
        3: TensorInfo(ir.DataType.INT64, (1,)),
    },
)
@takes((ir.DataType.INT64,), 0)
@takes((ir.DataType.DOUBLE,), 1)
def row_wise_counter(op: Op) -> tuple[Value, Value]:
    """RowWiseCounter(prev_iter, counter, indices, iter; counter_halflife=-1) -> prev_iter, counter.

    A count per row, incremented for each of its indices, which decays by half every ``counter_halflife`` iterations;
    without effect if that is not positive.
    """
    halflife = op.args.integer("counter_halflife", default=-1)
    last, counts = op.input(0), op.input(1)
    if halflife <= 0:
        return last, counts
    now = scalar(op, op.input(3))
    indices = flat_indices(op, op.input(2))

    def step(inside: Op, old: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        before, count = old
        passed = inside.emit("Max", sub(inside, now, before), inside.const(0, np.int64))
        decay = inside.emit("Exp", mul(inside, cast(inside, passed, ir.DataType.DOUBLE), -math.log(2.0) / halflife))
        return [inside.emit("Max", now, before), add(inside, mul(inside, decay, count), 1.0)], []

    (new_last, new_counts), _ = update_rows(op, indices, [as_vector(op, last), as_vector(op, counts)], [], [], step)
    return reshape_like(op, new_last, last), reshape_like(op, new_counts, counts)
