"""Losses of predictions against labels."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add, binary, div, mul, sub
from caffe2_frontend.emit.broadcast import require_same_shape
from caffe2_frontend.emit.operand_checks import REALS, require_rank, takes
from caffe2_frontend.emit.shapes import cast, flatten, reshape, size, size_vector, sizes, squeeze, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.tensor.reduction import mean_of_all, rowwise

family = Family("loss")

_FLOAT: Final = TensorInfo(ir.DataType.FLOAT)
_INT32: Final = TensorInfo(ir.DataType.INT32)
# Logarithms are of this at least.
_LEAST: Final = 1e-20
_DONT_CARE: Final = -1


@family.converts("CrossEntropy", expects={0: TensorInfo(ir.DataType.FLOAT, (None, None)), 1: _FLOAT})
@takes(REALS, 0, 1)
def cross_entropy(op: Op) -> Value:
    x, label = op.input(0), op.input(1)
    require_rank(op, x, 2, "the input")
    require_same_shape(op, (x, label))
    return rowwise(op, "ReduceSum", mul(op, _negative_log(op, x), label))


@family.converts("LabelCrossEntropy", expects={0: _FLOAT, 1: TensorInfo(ir.DataType.INT32, (None,))})
@takes(REALS, 0)
def label_cross_entropy(op: Op) -> Value:
    """A vector is one row."""
    x = op.input(0)
    rows = unsqueeze(op, x, [0]) if op.rank(x) < 2 else flatten(op, x, 1)
    return _negative_log(op, _labelled(op, rows, op.input(1)))


@family.converts("MakeTwoClass", expects={0: _FLOAT})
@takes(REALS, 0)
def make_two_class(op: Op) -> Value:
    """``1 - x`` and ``x`` side by side, in a new last dim."""
    x = op.input(0)
    last = op.rank(x)
    return op.emit("Concat", *(unsqueeze(op, v, [last]) for v in (sub(op, 1.0, x), x)), axis=last)


@family.converts("SigmoidCrossEntropyWithLogits", expects={0: _FLOAT, 1: _FLOAT})
@takes(REALS, 0, 1)
def sigmoid_cross_entropy(op: Op) -> Value:
    """The mean over the last dim; ``log_D_trick`` and ``unjoined_lr_loss`` are losses of other forms."""
    log_d, unjoined = (op.args.flag(name, default=False) for name in ("log_D_trick", "unjoined_lr_loss"))
    logits, targets = op.input(0), op.input(1)
    if log_d and unjoined:
        op.unsupported("log_D_trick and unjoined_lr_loss are both set", code="invalid-argument")
    if log_d:
        loss = mul(op, sub(op, mul(op, targets, 2.0), 1.0), op.emit("Softplus", op.emit("Neg", logits)))
    elif unjoined:
        rest = mul(op, sub(op, 1.0, targets), op.emit("Softplus", logits))
        loss = sub(op, rest, mul(op, logits, targets))
    else:
        loss = _sigmoid_loss(op, logits, targets)
    return _last_mean(op, loss)


@family.converts("WeightedSigmoidCrossEntropyWithLogits", expects={0: _FLOAT, 1: _FLOAT, 2: _FLOAT})
@takes(REALS, 0, 1, 2)
def weighted_sigmoid_cross_entropy(op: Op) -> Value:
    """The mean over the last dim, not divided by the weights."""
    require_same_shape(op, op.inputs)
    return _last_mean(op, mul(op, _sigmoid_loss(op, op.input(0), op.input(1)), op.input(2)))


@family.converts("MarginRankingCriterion", expects={0: _FLOAT, 1: _FLOAT, 2: _INT32})
@takes(REALS, 0, 1)
def margin_ranking(op: Op) -> Value:
    """``max(0, margin - label * (x - y))``."""
    require_same_shape(op, op.inputs)
    x, y = op.input(0), op.input(1)
    ranked = mul(op, cast(op, op.input(2), op.dtype(x)), sub(op, x, y))
    return op.emit("Relu", sub(op, op.args.number("margin", default=1.0), ranked))


@family.converts("CosineEmbeddingCriterion", expects={0: _FLOAT, 1: _INT32})
@takes(REALS, 0)
def cosine_embedding(op: Op) -> Value:
    """``1 - x`` where the label is 1, elsewhere ``max(0, x - margin)``."""
    require_same_shape(op, op.inputs)
    x = op.input(0)
    apart = op.emit("Relu", sub(op, x, op.args.number("margin", default=0.0)))
    return op.emit("Where", binary(op, "Equal", op.input(1), 1), sub(op, 1.0, x), apart)


def _softmax_operand(op: OpView, index: int) -> TensorInfo:
    labels = TensorInfo(ir.DataType.FLOAT if op.args.integer("label_prob", default=0) else ir.DataType.INT32)
    return (_FLOAT, labels, _FLOAT)[index] if index < 3 else TensorInfo()


@family.converts("SoftmaxWithLoss", expects=_softmax_operand)
@takes(REALS, 0, 2)
def softmax_with_loss(op: Op) -> tuple[Value, Value]:
    """The dims from ``axis`` on are one, the classes; labels are class numbers, or probabilities if ``label_prob``.

    The loss is the mean weighted by the third operand, 0 where the weights sum to 0; with ``average_by_batch_size`` the
    sum is divided by the number of rows.
    """
    _require_nchw(op)
    op.args.ignore("only_loss")
    x, labels = op.input(0), op.input(1)
    rank = op.rank(x)
    axis = op.axis(op.args.integer("axis", default=1), rank)
    rows = x if axis == rank - 1 else op.emit("Flatten", x, axis=axis)
    probability = op.emit("Softmax", rows, axis=-1)
    if op.args.integer("label_prob", default=0):
        likely = reshape(op, labels, sizes(op, rows)) if op.rank(labels) != op.rank(rows) else labels
        entropy = mul(op, _negative_log(op, probability), likely)
        losses = op.emit("ReduceSum", entropy, op.const([-1], np.int64), keepdims=0)
    else:
        scores = flatten(op, op.emit("LogSoftmax", rows, axis=-1), op.rank(rows) - 1)
        losses = op.emit("Neg", _labelled(op, scores, labels))
    losses = losses if op.rank(losses) == 1 else reshape(op, losses, [-1])
    weights = reshape(op, op.input(2), [-1]) if op.has_input(2) else None
    if weights is not None and op.args.integer("average_by_batch_size", default=0):
        losses, weights = mul(op, losses, weights), None
    op.args.ignore("average_by_batch_size")
    loss, scale = _average(op, losses, weights), _scale(op)
    loss = loss if scale == 1.0 else mul(op, loss, scale)
    return (probability if rows is x else reshape(op, probability, sizes(op, x))), loss


@family.converts(
    "SpatialSoftmaxWithLoss",
    expects={0: TensorInfo(ir.DataType.FLOAT, (None,) * 4), 1: TensorInfo(ir.DataType.INT32, (None,) * 3), 2: _FLOAT},
)
@takes(REALS, 0, 2)
def spatial_softmax_with_loss(op: Op) -> tuple[Value, Value]:
    """The classes are the second dim; places labelled -1 do not count. Caffe2 heeds ``scale`` on GPUs only."""
    _require_nchw(op)
    op.args.ignore("only_loss", "scale")
    x = op.input(0)
    require_rank(op, x, 4, "the input")
    labels = cast(op, _places(op, op.input(1), x), ir.DataType.INT64)
    probability = op.emit("Softmax", x, axis=1)
    counts = op.emit("Not", binary(op, "Equal", labels, _DONT_CARE))
    picked = op.emit("GatherElements", probability, unsqueeze(op, binary(op, "Max", labels, 0), [1]), axis=1)
    losses = _negative_log(op, squeeze(op, picked, [1]))
    weights = cast(op, counts, ir.DataType.FLOAT)
    if op.has_input(2):
        weights = mul(op, weights, _places(op, op.input(2), x))
    return probability, _average(op, losses, weights)


@family.converts("Perplexity", expects={0: TensorInfo(ir.DataType.FLOAT, (None,))})
@takes(REALS, 0)
def perplexity(op: Op) -> Value:
    """The geometric mean of the reciprocals; of a matrix, of as many elements as it has rows."""
    x = op.input(0)
    if op.rank(x) > 1:
        x = op.emit("Slice", reshape(op, x, [-1]), op.const([0], np.int64), size_vector(op, x, 0))
    return op.emit("Exp", op.emit("Neg", mean_of_all(op, op.emit("Log", x))))


@family.converts("BernoulliJSD", expects={0: _FLOAT, 1: _FLOAT})
@takes(REALS, 0, 1)
def bernoulli_jsd(op: Op) -> Value:
    """The Jensen-Shannon divergence of two coins, element by element."""
    require_same_shape(op, op.inputs)
    x, y = op.input(0), op.input(1)
    middle = _entropy(op, mul(op, add(op, x, y), 0.5))
    return sub(op, middle, mul(op, add(op, _entropy(op, x), _entropy(op, y)), 0.5))


def _entropy(op: Op, p: Value) -> Value:
    """``-p log p - q log q`` with ``q = 1 - p``; 0 where either is next to 0."""
    q = sub(op, 1.0, p)
    certain = op.emit("Or", *(binary(op, "Less", v, _LEAST) for v in (p, q)))
    terms = (mul(op, v, op.emit("Log", v)) for v in (p, q))
    return op.emit("Where", certain, op.const(0.0, p), op.emit("Neg", add(op, *terms)))


def _negative_log(op: Op, x: Value) -> Value:
    return op.emit("Neg", op.emit("Log", binary(op, "Max", x, _LEAST)))


def _labelled(op: Op, rows: Value, labels: Value) -> Value:
    """The element of each row that its label says, a vector."""
    place = cast(op, reshape(op, labels, [-1, 1]), ir.DataType.INT64)
    return squeeze(op, op.emit("GatherElements", rows, place, axis=1), [1])


def _sigmoid_loss(op: Op, logits: Value, targets: Value) -> Value:
    require_same_shape(op, (logits, targets))
    return sub(op, op.emit("Softplus", logits), mul(op, logits, targets))


def _last_mean(op: Op, x: Value) -> Value:
    return x if op.rank(x) == 0 else op.emit("ReduceMean", x, op.const([-1], np.int64), keepdims=0)


def _scale(op: Op) -> float:
    scale = op.args.number("scale", default=1.0)
    if scale < 0:
        op.unsupported(f"scale is negative: {scale}", code="invalid-argument")
    return scale


def _average(op: Op, losses: Value, weights: Value | None) -> Value:
    """The mean, weighted; 0 where the weights sum to 0."""
    if weights is None:
        return mean_of_all(op, losses)
    total, whole = (op.emit("ReduceSum", v, keepdims=0, shape=[]) for v in (mul(op, losses, weights), weights))
    return op.emit("Where", binary(op, "Equal", whole, 0.0), op.const(0.0, whole), div(op, total, whole))


def _places(op: Op, values: Value, x: Value) -> Value:
    """One value for each place of the images ``x``, [N, H, W]."""
    return values if op.rank(values) == 3 else reshape(op, values, [size(op, x, 0), *sizes(op, x, 2)])


def _require_nchw(op: Op) -> None:
    if op.args.text("order", default="NCHW") != "NCHW":
        op.unsupported("only the order NCHW is supported, by Caffe2 too", code="invalid-argument")
