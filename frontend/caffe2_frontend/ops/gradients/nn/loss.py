"""Gradients of losses of predictions against labels."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, binary, div, mul, reshape_like, scalar, sub
from caffe2_frontend.emit.broadcast import require_same_shape
from caffe2_frontend.emit.layers.losses import MIN_PROBABILITY, one_hot
from caffe2_frontend.emit.operand_checks import REALS, require_dim, require_min_rank, require_rank, takes
from caffe2_frontend.emit.shapes import (
    as_vector,
    cast,
    flatten,
    reshape,
    size,
    sizes,
    slice_axis,
    squeeze,
    unsqueeze,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("loss_gradient")

_FLOAT: Final = TensorInfo(ir.DataType.FLOAT)
_ROW: Final = TensorInfo(ir.DataType.FLOAT, (None,))
_MATRIX: Final = TensorInfo(ir.DataType.FLOAT, (None, None))
_INT32: Final = TensorInfo(ir.DataType.INT32)


@family.converts("CrossEntropyGradient", expects={0: _MATRIX, 1: _FLOAT, 2: _ROW})
@takes(REALS, 0, 1, 2)
def cross_entropy_gradient(op: Op) -> Value:
    """CrossEntropyGradient(X, label, dY) -> dX: ``-dY * label / X`` [N, classes]; X counts as 1e-20 at least."""
    x, label, dy = op.input(0), op.input(1), op.input(2)
    require_rank(op, x, 2, "the input")
    require_same_shape(op, (x, label))
    rates = div(op, label, binary(op, "Max", x, MIN_PROBABILITY))
    return mul(op, rates, unsqueeze(op, op.emit("Neg", as_vector(op, dy)), [1]))


@family.converts("LabelCrossEntropyGradient", expects={0: _FLOAT, 1: TensorInfo(ir.DataType.INT32, (None,)), 2: _ROW})
@takes(REALS, 0, 2)
def label_cross_entropy_gradient(op: Op) -> Value:
    """LabelCrossEntropyGradient(X, label, dY) -> dX: ``-dY / X`` at the label of each row, 0 elsewhere.

    The labels are class indices [N]; a vector X is one row. Probabilities count as 1e-20 at least.
    """
    x = op.input(0)
    rows = unsqueeze(op, x, [0]) if op.rank(x) < 2 else flatten(op, x, 1)
    hot = one_hot(op, reshape(op, op.input(1), [-1]), rows, axis=-1)
    shares = unsqueeze(op, op.emit("Neg", as_vector(op, op.input(2))), [1])
    dx = div(op, mul(op, hot, shares), binary(op, "Max", rows, MIN_PROBABILITY))
    return reshape_like(op, dx, x)


@family.converts("MakeTwoClassGradient", expects={0: _MATRIX})
@takes(REALS, 0)
def make_two_class_gradient(op: Op) -> Value:
    """MakeTwoClassGradient(dY) -> dX: the second element along the last dim, which is 2, minus the first."""
    dy = op.input(0)
    require_min_rank(op, dy, 1, "the gradient")
    last = op.rank(dy) - 1
    require_dim(op, dy, last, 2, "the gradient")
    first, second = (squeeze(op, slice_axis(op, dy, last, k, k + 1), [last]) for k in range(2))
    return sub(op, second, first)


@family.converts("SigmoidCrossEntropyWithLogitsGradient", expects={0: _ROW, 1: _FLOAT, 2: _FLOAT})
@takes(REALS, 0, 1, 2)
def sigmoid_cross_entropy_gradient(op: Op) -> Value:
    """SigmoidCrossEntropyWithLogitsGradient(dY, logits, targets; log_D_trick=0, unjoined_lr_loss=0) -> dlogits.

    dY over the size of the last dim, times ``sigmoid(x) - t``; with unjoined_lr_loss times
    ``(1 - t) * sigmoid(x) - t``, else with log_D_trick times ``(1 - 2 t) * sigmoid(-x)``.
    """
    dy, logits, targets = op.input(0), op.input(1), op.input(2)
    unjoined, log_d = (op.args.flag(name, default=False) for name in ("unjoined_lr_loss", "log_D_trick"))
    if unjoined:
        rate = sub(op, mul(op, sub(op, 1.0, targets), op.emit("Sigmoid", logits)), targets)
    elif log_d:
        rate = mul(op, sub(op, 1.0, mul(op, targets, 2.0)), op.emit("Sigmoid", op.emit("Neg", logits)))
    else:
        rate = sub(op, op.emit("Sigmoid", logits), targets)
    require_same_shape(op, (logits, targets))
    return mul(op, rate, _shares(op, dy, logits))


@family.converts("WeightedSigmoidCrossEntropyWithLogitsGradient", expects={0: _ROW, 1: _FLOAT, 2: _FLOAT, 3: _FLOAT})
@takes(REALS, 0, 1, 2, 3)
def weighted_sigmoid_cross_entropy_gradient(op: Op) -> Value:
    """WeightedSigmoidCrossEntropyWithLogitsGradient(dY, logits, targets, weights) -> dlogits.

    dY over the size of the last dim, times ``(sigmoid(x) - t) * w``.
    """
    op.args.ignore("log_D_trick", "unjoined_lr_loss")
    dy, logits, targets, weights = (op.input(index) for index in range(4))
    require_same_shape(op, (logits, targets, weights))
    rate = mul(op, sub(op, op.emit("Sigmoid", logits), targets), weights)
    return mul(op, rate, _shares(op, dy, logits))


def _shares(op: Op, dy: Value, logits: Value) -> Value:
    """Return the gradient of a mean over the last dim, which broadcasts over that dim."""
    rank = op.rank(logits)
    if rank == 0:
        return scalar(op, dy)
    count = size(op, logits, rank - 1)
    if op.rank(dy) == rank - 1:
        dy = unsqueeze(op, dy, [rank - 1])
    else:
        dy = reshape(op, dy, [*sizes(op, logits, 0, rank - 1), 1])
    if isinstance(count, int):
        return dy if count <= 1 else div(op, dy, float(count))
    return div(op, dy, cast(op, count, op.dtype(dy)))


@family.converts("MarginRankingCriterionGradient", expects={0: _FLOAT, 1: _FLOAT, 2: _INT32, 3: _FLOAT})
@takes(REALS, 0, 1, 3)
def margin_ranking_gradient(op: Op) -> tuple[Value, Value]:
    """MarginRankingCriterionGradient(X1, X2, Y, dloss; margin=1.0) -> dX1, dX2.

    ``-Y * dloss`` and ``Y * dloss``, where ``margin - Y * (X1 - X2)`` is not negative.
    """
    x, y, label, dy = op.inputs
    require_same_shape(op, op.inputs)
    sign = cast(op, label, op.dtype(x))
    is_beyond = binary(op, "Greater", mul(op, sign, sub(op, x, y)), op.args.number("margin", default=1.0))
    second = op.emit("Where", is_beyond, op.const(0.0, dy), mul(op, sign, dy))
    return op.emit("Neg", second), second


@family.converts("CosineEmbeddingCriterionGradient", expects={0: _FLOAT, 1: _INT32, 2: _FLOAT})
@takes(REALS, 0, 2)
def cosine_embedding_gradient(op: Op) -> Value:
    """CosineEmbeddingCriterionGradient(S, Y, dY; margin=0.0) -> dS.

    ``-dY`` where the label Y is 1; elsewhere dY if S is at least ``margin``.
    """
    x, label, dy = op.inputs
    require_same_shape(op, op.inputs)
    is_near = binary(op, "GreaterOrEqual", x, op.args.number("margin", default=0.0))
    dissimilar = op.emit("Where", is_near, dy, op.const(0.0, dy))
    return op.emit("Where", binary(op, "Equal", label, 1), op.emit("Neg", dy), dissimilar)


@family.converts("BernoulliJSDGradient", expects={0: _FLOAT, 1: _FLOAT, 2: _FLOAT})
@takes(REALS, 0, 1, 2)
def bernoulli_jsd_gradient(op: Op) -> Value:
    """BernoulliJSDGradient(dL, T, S) -> dT: ``dL / 2 * (logit(T) - logit((T + S) / 2))``.

    Probabilities count as 1e-20 at least; the logit of 1 is infinite.
    """
    dl, x, y = op.inputs
    require_same_shape(op, op.inputs)
    middle = mul(op, add(op, x, y), 0.5)
    return mul(op, mul(op, dl, 0.5), sub(op, _logit(op, x), _logit(op, middle)))


def _logit(op: Op, p: Value) -> Value:
    """Return ``log(p / (1 - p))``."""
    p = binary(op, "Min", binary(op, "Max", p, MIN_PROBABILITY), 1.0)
    return op.emit("Log", div(op, p, sub(op, 1.0, p)))
