"""Gradients of ranking losses: every pair of elements of a session is compared."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import binary, div, mul
from caffe2_frontend.emit.layers.pairs import differences, ordered_labels
from caffe2_frontend.emit.operand_checks import require_rank, takes
from caffe2_frontend.emit.rows.segments import grid, longest, row_positions, row_segments, vector_operand
from caffe2_frontend.emit.shapes import as_vector, cast, reshape, size, sizes, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("ranking_gradient")

_FLOAT: Final = (ir.DataType.FLOAT,)
_SCORES: Final = TensorInfo(ir.DataType.FLOAT, (None,))
_LENGTHS: Final = TensorInfo(ir.DataType.INT32, (None,))


@family.converts("PairWiseLossGradient", expects={0: _SCORES, 1: _SCORES, 2: _SCORES, 3: _LENGTHS})
@takes(_FLOAT, 0, 1, 2)
def pair_wise_loss_gradient(op: Op) -> Value:
    """PairWiseLossGradient(X, label, dloss[, lengths]) -> dX.

    The gradient of each session's mean over its pairs with different labels; without lengths all elements are one
    session. The sessions are laid out in a matrix: one row each, as wide as the longest.
    """
    x, labels, dy = (as_vector(op, op.input(index)) for index in range(3))
    if not op.has_input(3):
        one = op.const([0], np.int64)
        present = op.emit("Expand", op.const([[True]]), op.emit("Shape", unsqueeze(op, x, [0])))
        gradient = _of_pairs(op, op.emit("Unsqueeze", x, one), op.emit("Unsqueeze", labels, one), present)
        return reshape(op, mul(op, gradient, unsqueeze(op, dy, [1])), sizes(op, op.input(0)))
    lengths = vector_operand(op, 3)
    rows, present = grid(op, lengths, longest(op, lengths))
    padded = [op.emit("Concat", v, op.const([0], v), axis=0) for v in (x, labels)]
    rows = op.emit("Where", present, rows, op.emit("Shape", x))
    scores, ranks = (op.emit("Gather", v, rows, axis=0) for v in padded)
    gradient = _of_pairs(op, scores, ranks, present)
    gradient = mul(op, gradient, unsqueeze(op, dy, [1]))
    session = row_segments(op, lengths, size(op, x, 0))
    position = unsqueeze(op, row_positions(op, lengths, session), [1])
    place = op.emit("Concat", unsqueeze(op, session, [1]), position, axis=1)
    return reshape(op, op.emit("GatherND", gradient, place), sizes(op, op.input(0)))


def _of_pairs(op: Op, x: Value, labels: Value, present: Value) -> Value:
    """Return the gradients of the mean losses of sessions with respect to their scores, both [S, elements].

    The loss of a pair is ``softplus(-sign(l_i - l_j) * (x_i - x_j))``. A session without pairs has gradients of 0.
    """
    differs, signs = ordered_labels(op, labels)
    counted = op.emit("And", differs, op.emit("And", unsqueeze(op, present, [2]), unsqueeze(op, present, [1])))
    rate = mul(op, signs, op.emit("Sigmoid", op.emit("Neg", mul(op, signs, differences(op, x)))))
    rate, weights = op.emit("Where", counted, rate, op.const(0, rate)), cast(op, counted, ir.DataType.FLOAT)
    summed = op.emit("ReduceSum", rate, op.const([2], np.int64), keepdims=0)
    # The matrix holds each pair twice.
    pairs = mul(op, op.emit("ReduceSum", weights, op.const([1, 2], np.int64), keepdims=0), -0.5)
    pairs = binary(op, "Min", pairs, -1.0)
    return div(op, summed, unsqueeze(op, pairs, [1]))


@family.converts("LambdaRankNdcgGradient", expects={0: _SCORES, 1: _LENGTHS, 2: _SCORES, 3: _SCORES})
@takes(_FLOAT, 0, 2, 3)
def lambda_rank_ndcg_gradient(op: Op) -> Value:
    """LambdaRankNdcgGradient(y, lengths, dy, dloss) -> gradient of y: dy times the gradient of its session's loss."""
    dy, dloss = op.input(2), as_vector(op, op.input(3))
    require_rank(op, dy, 1, "dy")
    session = row_segments(op, vector_operand(op, 1), size(op, op.input(0), 0))
    return mul(op, dy, op.emit("Gather", dloss, session, axis=0))
