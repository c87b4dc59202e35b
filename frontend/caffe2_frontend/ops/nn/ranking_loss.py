"""Ranking losses: every pair of elements of a session is compared.

A session is a segment of the scores. Sessions are processed by a Loop, which appends the results to vectors that it
carries: a Loop's scan outputs would need equal lengths, and runtimes disagree on the shape of stacked scalars.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import binary, div, mul, sub, total
from caffe2_frontend.emit.layers.pairs import differences, ordered_labels
from caffe2_frontend.emit.operand_checks import require_rank, takes
from caffe2_frontend.emit.shapes import as_vector, cast, indices, size, size_vector, unsqueeze
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("ranking")

_FLOAT: Final = (ir.DataType.FLOAT,)
_SCORES: Final = TensorInfo(ir.DataType.FLOAT, (None,))
_OPERANDS: Final = {0: _SCORES, 1: _SCORES, 2: TensorInfo(ir.DataType.INT32, (None,))}


@family.converts("PairWiseLoss", expects=_OPERANDS)
@takes(_FLOAT, 0, 1)
def pair_wise_loss(op: Op) -> Value:
    """PairWiseLoss(X, label[, lengths]) -> loss.

    One loss per session; without lengths all elements are one session. Of no elements, or of a scalar, Caffe2 returns
    no loss, whatever the lengths are.
    """
    x, labels = (as_vector(op, v) for v in (op.input(0), op.input(1)))
    if not op.rank(op.input(0)):
        return op.emit("Identity", op.const(np.zeros(0, np.float32)))
    if not op.has_input(2):
        loss = unsqueeze(op, _pair_loss(op, x, labels), [0])
        return op.emit("Slice", loss, op.const([0], np.int64), size_vector(op, x, 0), shape=[None])
    lengths = cast(op, as_vector(op, op.input(2)), ir.DataType.INT64)

    def session(body: Op, states: list[Value], rows: list[Value]) -> tuple[list[Value], list[Value]]:
        start, losses = states
        end = _end(body, start, lengths, rows[0])
        loss = _pair_loss(body, *(_slice(body, v, start, end) for v in (x, labels)))
        return [_true(body), end, _append(body, losses, unsqueeze(body, loss, [0]))], []

    states = [op.const([0], np.int64), _empty(op)]
    (_, losses), _ = loop(op, size(op, lengths, 0), _true(op), states, session)
    return losses


@family.converts("LambdaRankNdcg", expects=_OPERANDS)
@takes(_FLOAT, 0, 1)
def lambda_rank_ndcg(op: Op) -> tuple[Value, Value]:
    """LambdaRankNdcg(y, r, lengths; use_ndcg_as_loss=0, use_idcg_normalization=1, use_exp_gain=1) -> loss, dy.

    One loss per session, and its gradient with respect to each score. (C. Burges, "From RankNet to LambdaRank to
    LambdaMART", 2010.)
    """
    y, ratings, lengths = op.input(0), op.input(1), cast(op, as_vector(op, op.input(2)), ir.DataType.INT64)
    require_rank(op, y, 1, "the scores")

    def session(body: Op, states: list[Value], rows: list[Value]) -> tuple[list[Value], list[Value]]:
        start, losses, gradients = states
        end = _end(body, start, lengths, rows[0])
        loss, gradient = _lambda_rank(body, *(_slice(body, v, start, end) for v in (y, ratings)))
        appended = _append(body, losses, unsqueeze(body, loss, [0])), _append(body, gradients, gradient)
        return [_true(body), end, *appended], []

    states = [op.const([0], np.int64), _empty(op), _empty(op)]
    (_, losses, gradients), _ = loop(op, size(op, lengths, 0), _true(op), states, session)
    return losses, gradients


def _empty(op: Op) -> Value:
    """Return an empty float vector of unknown length, the initial state of a growing one."""
    empty = op.emit("Identity", op.const(np.zeros(0, np.float32)))
    empty.shape = ir.Shape([None])
    return empty


def _append(op: Op, values: Value, more: Value) -> Value:
    """Append a vector to another."""
    return op.emit("Concat", values, more, axis=0, shape=[None])


def _true(op: Op) -> Value:
    """Return the condition of a Loop that always continues."""
    return op.const(np.array(True))  # noqa: FBT003 - the value of a constant


def _end(op: Op, start: Value, lengths: Value, session: Value) -> Value:
    """Return the end of a session that begins at ``start``, [1]."""
    return op.emit("Add", start, op.emit("Gather", lengths, unsqueeze(op, session, [0]), axis=0))


def _slice(op: Op, x: Value, start: Value, end: Value) -> Value:
    """Return the elements of ``x`` from ``start`` up to ``end``."""
    return op.emit("Slice", x, start, end, shape=[None])


def _pair_loss(op: Op, x: Value, labels: Value) -> Value:
    """Return the mean logistic loss over the pairs with different labels, a scalar.

    For a pair (i, j) it is ``softplus(-sign(l_i - l_j) * (x_i - x_j))``: small if the higher label has the higher
    score.
    """
    counted, signs = ordered_labels(op, labels)
    # The matrix holds each pair twice, with the same loss: the mean is not affected.
    loss = op.emit("Softplus", op.emit("Neg", mul(op, signs, differences(op, x))))
    loss, pairs = op.emit("Where", counted, loss, op.const(0, loss)), total(op, cast(op, counted, ir.DataType.FLOAT))
    return div(op, total(op, loss), binary(op, "Max", pairs, 1.0))


def _lambda_rank(op: Op, y: Value, ratings: Value) -> tuple[Value, Value]:
    """Return the loss of one session, a scalar, and its gradient [N].

    The weight of a pair is how much the DCG would change if its two elements were swapped:
    ``|gain_i - gain_j| * |discount_i - discount_j|``, over the ideal DCG. The loss is the weighted logistic loss of all
    pairs, or ``1 - NDCG``; the gradient is that of the logistic loss in both cases.
    """
    as_ndcg = op.args.flag("use_ndcg_as_loss", default=False)
    exponential = op.args.flag("use_exp_gain", default=True) or not as_ndcg
    gain = op.emit("Exp", mul(op, ratings, math.log(2))) if exponential else ratings
    discount = _discounts(op, y)
    ideal_dcg, dcg = (total(op, mul(op, gain, d)) for d in (_discounts(op, ratings), discount))
    weight = op.emit("Abs", mul(op, differences(op, gain), differences(op, discount)))
    if op.args.flag("use_idcg_normalization", default=True):
        norm = binary(op, "Max", ideal_dcg, 1e-5)
        weight = div(op, weight, norm)
    else:
        norm = op.const(1.0, ideal_dcg)
    order = op.emit("Sign", differences(op, ratings))
    # How far each pair is ordered wrongly; negative where it is ordered right.
    margin = op.emit("Neg", mul(op, order, differences(op, y)))
    if as_ndcg:
        loss = div(op, sub(op, ideal_dcg, dcg), norm)
    else:
        loss = total(op, mul(op, weight, op.emit("Softplus", margin)))
    lambdas = mul(op, weight, order, op.emit("Sigmoid", margin))
    gradient = op.emit("Neg", op.emit("ReduceSum", lambdas, op.const([1], np.int64), keepdims=0))
    return loss, gradient


def _discounts(op: Op, values: Value) -> Value:
    """Return ``1 / log2(2 + rank)`` for each element [N].

    The maximum has rank 0, and of equal elements the first has the lower rank: TopK sorts so, and the discounts are
    scattered back to the elements' positions.
    """
    count = op.emit("Shape", values)
    _, order = op.emit("TopK", values, count, outputs=2)
    ranks = cast(op, indices(op, count), ir.DataType.FLOAT)
    by_rank = binary(op, "Div", math.log(2), op.emit("Log", binary(op, "Add", ranks, 2.0)))
    return op.emit("ScatterElements", values, order, by_rank, axis=0)
