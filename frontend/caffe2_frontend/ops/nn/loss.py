"""Losses of predictions against labels."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add, binary, div, mul, negative_log, scalar, sub, total
from caffe2_frontend.emit.broadcast import require_same_shape
from caffe2_frontend.emit.layers.losses import (
    MIN_PROBABILITY,
    loss_scale,
    pixel_classes,
    pixel_weights,
)
from caffe2_frontend.emit.layout import require_nchw
from caffe2_frontend.emit.operand_checks import REALS, require_min_rank, require_rank, takes
from caffe2_frontend.emit.reductions import mean_of_all, reduce_all, reduce_each_row
from caffe2_frontend.emit.shapes import (
    as_vector,
    cast,
    flatten,
    reshape,
    size,
    size_vector,
    sizes,
    squeeze,
    unsqueeze,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("loss")

_FLOAT: Final = TensorInfo(ir.DataType.FLOAT)
_INT32: Final = TensorInfo(ir.DataType.INT32)


@family.converts("CrossEntropy", expects={0: TensorInfo(ir.DataType.FLOAT, (None, None)), 1: _FLOAT})
@takes(REALS, 0, 1)
def cross_entropy(op: Op) -> Value:
    """CrossEntropy(X, label) -> Y. X and label are [N, classes]; probabilities count as 1e-20 at least."""
    x, label = op.input(0), op.input(1)
    require_rank(op, x, 2, "the input")
    require_same_shape(op, (x, label))
    return reduce_each_row(op, "ReduceSum", mul(op, negative_log(op, x, MIN_PROBABILITY), label))


@family.converts("LabelCrossEntropy", expects={0: _FLOAT, 1: TensorInfo(ir.DataType.INT32, (None,))})
@takes(REALS, 0)
def label_cross_entropy(op: Op) -> Value:
    """LabelCrossEntropy(X, label) -> Y. The labels are class indices [N]; a vector X is one row."""
    x = op.input(0)
    rows = unsqueeze(op, x, [0]) if op.rank(x) < 2 else flatten(op, x, 1)
    return negative_log(op, _labelled(op, rows, op.input(1)), MIN_PROBABILITY)


@family.converts("MakeTwoClass", expects={0: _FLOAT})
@takes(REALS, 0)
def make_two_class(op: Op) -> Value:
    """MakeTwoClass(X) -> Y: ``1 - x`` and ``x`` along a new last dim."""
    x = op.input(0)
    last = op.rank(x)
    return op.emit("Concat", *(unsqueeze(op, v, [last]) for v in (sub(op, 1.0, x), x)), axis=last)


@family.converts("SigmoidCrossEntropyWithLogits", expects={0: _FLOAT, 1: _FLOAT})
@takes(REALS, 0, 1)
def sigmoid_cross_entropy(op: Op) -> Value:
    """SigmoidCrossEntropyWithLogits(logits, targets; log_D_trick=0, unjoined_lr_loss=0) -> xentropy.

    The mean over the last dim of ``softplus(x) - x * t``; with log_D_trick of ``(2 * t - 1) * softplus(-x)``, with
    unjoined_lr_loss of ``(1 - t) * softplus(x) - x * t``.
    """
    log_d, unjoined = (op.args.flag(name, default=False) for name in ("log_D_trick", "unjoined_lr_loss"))
    logits, targets = op.input(0), op.input(1)
    if log_d and unjoined:
        op.unsupported(
            "log_D_trick and unjoined_lr_loss must not both be set",
            hint="set one of them to 0",
            code="invalid-argument",
        )
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
    """WeightedSigmoidCrossEntropyWithLogits(logits, targets, weights) -> xentropy.

    The mean over the last dim is not divided by the weights.
    """
    require_same_shape(op, op.inputs)
    return _last_mean(op, mul(op, _sigmoid_loss(op, op.input(0), op.input(1)), op.input(2)))


@family.converts("MarginRankingCriterion", expects={0: _FLOAT, 1: _FLOAT, 2: _INT32})
@takes(REALS, 0, 1)
def margin_ranking(op: Op) -> Value:
    """MarginRankingCriterion(X1, X2, Y; margin=1.0) -> loss: ``max(0, margin - Y * (X1 - X2))``."""
    require_same_shape(op, op.inputs)
    x, y = op.input(0), op.input(1)
    ranked = mul(op, cast(op, op.input(2), op.dtype(x)), sub(op, x, y))
    return op.emit("Relu", sub(op, op.args.number("margin", default=1.0), ranked))


@family.converts("CosineEmbeddingCriterion", expects={0: _FLOAT, 1: _INT32})
@takes(REALS, 0)
def cosine_embedding(op: Op) -> Value:
    """CosineEmbeddingCriterion(S, Y; margin=0.0) -> output.

    ``1 - S`` where the label Y is 1, ``max(0, S - margin)`` elsewhere.
    """
    require_same_shape(op, op.inputs)
    x = op.input(0)
    dissimilar = op.emit("Relu", sub(op, x, op.args.number("margin", default=0.0)))
    return op.emit("Where", binary(op, "Equal", op.input(1), 1), sub(op, 1.0, x), dissimilar)


def _softmax_operand(op: OpView, index: int) -> TensorInfo:
    """Describe the labels: probabilities (float) with ``label_prob``, else class indices (int32)."""
    labels = TensorInfo(ir.DataType.FLOAT if op.args.integer("label_prob", default=0) else ir.DataType.INT32)
    return (_FLOAT, labels, _FLOAT)[index] if index < 3 else TensorInfo()


@family.converts("SoftmaxWithLoss", expects=_softmax_operand)
@takes(REALS, 0, 2)
def softmax_with_loss(op: Op) -> tuple[Value, Value]:
    """SoftmaxWithLoss(X, labels[, weights]; axis=1, label_prob=0, scale=1.0, ...) -> softmax, loss.

    The dims of X from ``axis`` on count as one, the classes. Labels are class indices, or probabilities with
    ``label_prob``. The loss is the mean over rows, weighted by the third operand, and 0 where the weights sum to 0;
    with average_by_batch_size=1 (default 0) the weighted sum is divided by the number of rows instead. ``order`` must
    be NCHW.
    """
    require_nchw(op)
    op.args.ignore("only_loss")
    x, labels = op.input(0), op.input(1)
    rank = op.rank(x)
    axis = op.axis(op.args.integer("axis", default=1), rank)
    rows = x if axis == rank - 1 else op.emit("Flatten", x, axis=axis)
    probability = op.emit("Softmax", rows, axis=-1)
    if op.args.integer("label_prob", default=0):
        likely = reshape(op, labels, sizes(op, rows)) if op.rank(labels) != op.rank(rows) else labels
        entropy = mul(op, negative_log(op, probability, MIN_PROBABILITY), likely)
        losses = op.emit("ReduceSum", entropy, op.const([-1], np.int64), keepdims=0)
    else:
        scores = flatten(op, op.emit("LogSoftmax", rows, axis=-1), op.rank(rows) - 1)
        losses = op.emit("Neg", _labelled_column(op, scores, labels))
    losses = as_vector(op, losses) if op.has_input(2) else losses
    weights = as_vector(op, op.input(2)) if op.has_input(2) else None
    if op.args.integer("average_by_batch_size", default=0) and weights is not None:
        losses, weights = mul(op, losses, weights), None
    loss, scale = _average(op, losses, weights), loss_scale(op)
    loss = loss if scale == 1.0 else mul(op, loss, scale)
    return (probability if rows is x else reshape(op, probability, sizes(op, x))), loss


@family.converts(
    "SpatialSoftmaxWithLoss",
    expects={0: TensorInfo(ir.DataType.FLOAT, (None,) * 4), 1: TensorInfo(ir.DataType.INT32, (None,) * 3), 2: _FLOAT},
)
@takes(REALS, 0, 2)
def spatial_softmax_with_loss(op: Op) -> tuple[Value, Value]:
    """SpatialSoftmaxWithLoss(X, labels[, weights]; order="NCHW", scale=1.0) -> softmax, loss.

    The classes are the channels of X [N, classes, H, W]. Pixels labelled -1 do not count. Caffe2 multiplies the loss by
    ``scale`` on CUDA only, and the gradient always; here it is checked alone.
    """
    require_nchw(op)
    op.args.ignore("only_loss")
    loss_scale(op)
    x = op.input(0)
    require_rank(op, x, 4, "the input")
    labels = cast(op, op.input(1), ir.DataType.INT64)
    require_rank(op, labels, 3, "the labels")
    probability = op.emit("Softmax", x, axis=1)
    classes, counts = pixel_classes(op, labels)
    picked = op.emit("GatherElements", probability, unsqueeze(op, classes, [1]), axis=1)
    losses = negative_log(op, squeeze(op, picked, [1]), MIN_PROBABILITY)
    weights = cast(op, counts, ir.DataType.FLOAT)
    if op.has_input(2):
        weights = mul(op, weights, pixel_weights(op, op.input(2), x))
    return probability, _average(op, losses, weights)


@family.converts("Perplexity", expects={0: TensorInfo(ir.DataType.FLOAT, (None,))})
@takes(REALS, 0)
def perplexity(op: Op) -> Value:
    """Perplexity(P) -> perplexity: the product of all ``p ** (-1 / N)``, which is defined also where a log is not.

    Of a matrix, only the first N elements count, N being the number of its rows: Caffe2 expects a vector.
    """
    x = op.input(0)
    require_min_rank(op, x, 1, "the operand")
    if op.rank(x) > 1:
        x = op.emit("Slice", reshape(op, x, [-1]), op.const([0], np.int64), size_vector(op, x, 0))
    count = size(op, x, 0)
    if isinstance(count, int):
        exponent = op.const(-1.0 / max(count, 1), x)
    else:
        exponent = div(op, -1.0, scalar(op, cast(op, count, op.dtype(x))))
    return reduce_all(op, "ReduceProd", op.emit("Pow", x, exponent))


@family.converts("BernoulliJSD", expects={0: _FLOAT, 1: _FLOAT})
@takes(REALS, 0, 1)
def bernoulli_jsd(op: Op) -> Value:
    """BernoulliJSD(T, S) -> L: the Jensen-Shannon divergence of two Bernoulli distributions, element by element."""
    require_same_shape(op, op.inputs)
    x, y = op.input(0), op.input(1)
    middle = _entropy(op, mul(op, add(op, x, y), 0.5))
    return sub(op, middle, mul(op, add(op, _entropy(op, x), _entropy(op, y)), 0.5))


def _entropy(op: Op, p: Value) -> Value:
    """Return ``-p log p - q log q`` with ``q = 1 - p``; 0 where either is below 1e-20."""
    q = sub(op, 1.0, p)
    certain = op.emit("Or", *(binary(op, "Less", v, MIN_PROBABILITY) for v in (p, q)))
    terms = (mul(op, v, op.emit("Log", v)) for v in (p, q))
    return op.emit("Where", certain, op.const(0.0, p), op.emit("Neg", add(op, *terms)))


def _labelled(op: Op, rows: Value, labels: Value) -> Value:
    """Return the element of each row [N, classes] that its label names, [N]."""
    return squeeze(op, _labelled_column(op, rows, labels), [1])


def _labelled_column(op: Op, rows: Value, labels: Value) -> Value:
    """Return the element of each row [N, classes] that its label names, [N, 1]."""
    column = reshape(op, cast(op, labels, ir.DataType.INT64), [-1, 1])
    return op.emit("GatherElements", rows, column, axis=1)


def _sigmoid_loss(op: Op, logits: Value, targets: Value) -> Value:
    """Return ``softplus(x) - x * t``, the cross entropy of a sigmoid."""
    require_same_shape(op, (logits, targets))
    return sub(op, op.emit("Softplus", logits), mul(op, logits, targets))


def _last_mean(op: Op, x: Value) -> Value:
    """Return the mean over the last dim."""
    return x if op.rank(x) == 0 else op.emit("ReduceMean", x, op.const([-1], np.int64), keepdims=0)


def _average(op: Op, losses: Value, weights: Value | None) -> Value:
    """Return the (weighted) mean; 0 where the weights sum to 0."""
    if weights is None:
        return mean_of_all(op, losses)
    total_weight = total(op, weights)
    mean = div(op, total(op, mul(op, losses, weights)), total_weight)
    return op.emit("Where", binary(op, "Equal", total_weight, 0.0), op.const(0.0, total_weight), mean)
