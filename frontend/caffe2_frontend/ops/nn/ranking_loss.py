"""Losses of the order within sessions: every pair of elements of a session is compared."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import binary, div, mul, sub
from caffe2_frontend.emit.operand_checks import require_rank, takes
from caffe2_frontend.emit.shapes import cast, indices, reshape, size, size_vector, unsqueeze
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
    """One loss a session; without lengths all elements are one session, and none where there are no elements."""
    x, labels = (reshape(op, v, [-1]) if op.rank(v) != 1 else v for v in (op.input(0), op.input(1)))
    if not op.has_input(2):
        loss = unsqueeze(op, _pair_loss(op, x, labels), [0])
        return op.emit("Slice", loss, op.const([0], np.int64), size_vector(op, x, 0), shape=[None])
    lengths = cast(op, op.input(2), ir.DataType.INT64)

    def session(body: Op, states: list[Value], rows: list[Value]) -> tuple[list[Value], list[Value]]:
        start, losses = states
        end = _end(body, start, lengths, rows[0])
        loss = _pair_loss(body, *(_slice(body, v, start, end) for v in (x, labels)))
        return [_go(body), end, _append(body, losses, unsqueeze(body, loss, [0]))], []

    states = [op.const([0], np.int64), _none(op)]
    (_, losses), _ = loop(op, size(op, lengths, 0), _go(op), states, session)
    return losses


@family.converts("LambdaRankNdcg", expects=_OPERANDS)
@takes(_FLOAT, 0, 1)
def lambda_rank_ndcg(op: Op) -> tuple[Value, Value]:
    """One loss a session, and what its gradient is by each score."""
    y, ratings, lengths = op.input(0), op.input(1), cast(op, op.input(2), ir.DataType.INT64)
    require_rank(op, y, 1, "the scores")

    def session(body: Op, states: list[Value], rows: list[Value]) -> tuple[list[Value], list[Value]]:
        start, losses, slopes = states
        end = _end(body, start, lengths, rows[0])
        loss, slope = _lambda_rank(body, *(_slice(body, v, start, end) for v in (y, ratings)))
        appended = _append(body, losses, unsqueeze(body, loss, [0])), _append(body, slopes, slope)
        return [_go(body), end, *appended], []

    states = [op.const([0], np.int64), _none(op), _none(op)]
    (_, losses, slopes), _ = loop(op, size(op, lengths, 0), _go(op), states, session)
    return losses, slopes


# Results of sessions are appended to one vector: what runtimes make of a Loop's stacked scalars differs.


def _none(op: Op) -> Value:
    """A vector without elements, which is to grow."""
    none = op.emit("Identity", op.const(np.zeros(0, np.float32)))
    none.shape = ir.Shape([None])
    return none


def _append(op: Op, values: Value, more: Value) -> Value:
    return op.emit("Concat", values, more, axis=0, shape=[None])


def _go(op: Op) -> Value:
    """Go on, always."""
    return op.const(np.array(True))  # noqa: FBT003 - the value of a constant


def _end(op: Op, start: Value, lengths: Value, session: Value) -> Value:
    return op.emit("Add", start, op.emit("Gather", lengths, unsqueeze(op, session, [0]), axis=0))


def _slice(op: Op, x: Value, start: Value, end: Value) -> Value:
    return op.emit("Slice", x, start, end, shape=[None])


def _pair_loss(op: Op, x: Value, labels: Value) -> Value:
    """The mean over pairs of different labels: how far the higher label has not the higher score."""
    order = _differences(op, labels)
    # Each pair appears twice here, and its loss is the same both times.
    loss = op.emit("Softplus", op.emit("Neg", mul(op, op.emit("Sign", order), _differences(op, x))))
    counts = binary(op, "GreaterOrEqual", op.emit("Abs", order), float(np.finfo(np.float32).eps))
    counts = cast(op, counts, ir.DataType.FLOAT)
    total, pairs = (op.emit("ReduceSum", v, keepdims=0, shape=[]) for v in (mul(op, loss, counts), counts))
    return div(op, total, binary(op, "Max", pairs, 1.0))


def _lambda_rank(op: Op, y: Value, ratings: Value) -> tuple[Value, Value]:
    """The loss of one session, a scalar, and its gradient."""
    as_ndcg = op.args.flag("use_ndcg_as_loss", default=False)
    exponential = op.args.flag("use_exp_gain", default=True) or not as_ndcg
    gain = op.emit("Exp", mul(op, ratings, math.log(2))) if exponential else ratings
    discount = _discounts(op, y)
    best, reached = (
        op.emit("ReduceSum", mul(op, gain, d), keepdims=0, shape=[]) for d in (_discounts(op, ratings), discount)
    )
    weight = op.emit("Abs", mul(op, _differences(op, gain), _differences(op, discount)))
    if op.args.flag("use_idcg_normalization", default=True):
        whole = binary(op, "Max", best, 1e-5)
        weight = div(op, weight, whole)
    else:
        whole = op.const(1.0, best)
    order = op.emit("Sign", _differences(op, ratings))
    wrong = op.emit("Neg", mul(op, order, _differences(op, y)))
    if as_ndcg:
        loss = div(op, sub(op, best, reached), whole)
    else:
        loss = op.emit("ReduceSum", mul(op, weight, op.emit("Softplus", wrong)), keepdims=0, shape=[])
    pulls = mul(op, weight, order, op.emit("Sigmoid", wrong))
    slope = op.emit("Neg", op.emit("ReduceSum", pulls, op.const([1], np.int64), keepdims=0))
    return loss, slope


def _discounts(op: Op, values: Value) -> Value:
    """``1 / log2(2 + rank)`` of each element, the greatest having rank 0 and the earlier of equal ones the lower."""
    count = op.emit("Shape", values)
    _, order = op.emit("TopK", values, count, outputs=2)
    ranks = cast(op, indices(op, count), ir.DataType.FLOAT)
    by_rank = binary(op, "Div", math.log(2), op.emit("Log", binary(op, "Add", ranks, 2.0)))
    return op.emit("ScatterElements", values, order, by_rank, axis=0)


def _differences(op: Op, x: Value) -> Value:
    """Each element less each other, [N, N]."""
    return sub(op, unsqueeze(op, x, [1]), unsqueeze(op, x, [0]))
