"""Losses of classes of anchors, and their gradients: Detectron's focal losses and its sigmoid cross entropy.

Logits are [N, A * classes, H, W] and labels [N, A, H, W], for A anchors per pixel; label -1 does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import (
    add,
    aligned,
    binary,
    div,
    mul,
    negative_log,
    reshape_like,
    scalar,
    sub,
    total,
)
from caffe2_frontend.emit.layers.losses import loss_scale
from caffe2_frontend.emit.layout import require_nchw
from caffe2_frontend.emit.operand_checks import SINGLE, require_groups, require_rank, takes
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.shapes import cast, quotient, reshape, sizes, unsqueeze
from caffe2_frontend.interop.types import FLOAT, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("focal_loss")

_FLOAT: Final = TensorInfo(FLOAT)
_IMAGE: Final = TensorInfo(FLOAT, (None,) * 4)
_LABELS: Final = TensorInfo(ir.DataType.INT32, (None,) * 4)
_INT32: Final = TensorInfo(ir.DataType.INT32)
_SMALLEST: Final = float(np.finfo(np.float32).tiny)
# The number of labels that count is this at least.
_MIN_COUNT: Final = 1e-5


@family.converts("SigmoidCrossEntropyLoss", expects={0: _FLOAT, 1: _INT32})
@takes(SINGLE, 0)
def sigmoid_cross_entropy_loss(op: Op) -> Value:
    """SigmoidCrossEntropyLoss(X, targets; scale=1.0, normalize=1) -> loss.

    The sum of ``softplus(x) - x * t`` over targets t other than -1, divided by their number with ``normalize``.
    """
    x, targets, counts = _binary_targets(op)
    losses = mul(op, sub(op, op.emit("Softplus", x), mul(op, x, targets)), counts)
    return mul(op, total(op, losses), _normalizer(op, counts))


@family.converts("SigmoidCrossEntropyLossGradient", expects={0: _FLOAT, 1: _INT32, 2: _FLOAT})
@takes(SINGLE, 0, 2)
def sigmoid_cross_entropy_loss_gradient(op: Op) -> Value:
    """SigmoidCrossEntropyLossGradient(X, targets, d_loss; scale=1.0, normalize=1) -> dX."""
    x, targets, counts = _binary_targets(op)
    factor = mul(op, scalar(op, op.input(2)), _normalizer(op, counts))
    return mul(op, sub(op, op.emit("Sigmoid", x), targets), counts, factor)


def _binary_targets(op: Op) -> tuple[Value, Value, Value]:
    """Return the logits, the targets as floats, and 1 for those that count, else 0."""
    x = op.input(0)
    labels = aligned(op, op.input(1), x)
    counts = op.emit("Not", binary(op, "Equal", labels, -1))
    return x, cast(op, labels, op.dtype(x)), cast(op, counts, op.dtype(x))


def _normalizer(op: Op, counts: Value) -> Value:
    """Return ``scale``, divided by the number of targets that count with ``normalize``."""
    scale = loss_scale(op)
    if not op.args.flag("normalize", default=True):
        return op.const(scale, counts)
    return div(op, scale, binary(op, "Max", total(op, counts), _MIN_COUNT))


@dataclass(frozen=True)
class _Focal:
    """The operands and arguments of a focal loss.

    Attributes:
        logits: [N, A, classes, H, W].
        labels: [N, A, 1, H, W], int64.
        gamma: the exponent that focuses on uncertain predictions.
        alpha: the weight of positive labels; that of negative ones is ``1 - alpha``.
        factor: what all losses are multiplied by, ``scale`` over the number of positive labels.
        classes: the number of classes.
    """

    logits: Value
    labels: Value
    gamma: float
    alpha: float
    factor: Value
    classes: int


def _read_focal(op: Op, classes: int) -> _Focal:
    x, labels = op.input(0), op.input(1)
    for value, what in ((x, "the logits"), (labels, "the labels")):
        require_rank(op, value, 4, what)
    gamma, alpha = op.args.number("gamma", default=1.0), op.args.number("alpha", default=0.25)
    classes = _classes(op, x, classes)
    weight = binary(op, "Max", scalar(op, op.input(2)), 1.0)
    return _Focal(
        _by_class(op, x, classes),
        unsqueeze(op, cast(op, labels, ir.DataType.INT64), [2]),
        gamma,
        alpha,
        div(op, loss_scale(op), weight),
        classes,
    )


def _classes(op: Op, x: Value, default: int) -> int:
    """Return ``num_classes``, which must divide the number of channels."""
    classes = op.args.integer("num_classes", default=default)
    require_groups(op, op.static_dim(x, 1), classes, "channels")
    return classes


def _by_class(op: Op, x: Value, classes: int) -> Value:
    """[N, A * classes, H, W] as [N, A, classes, H, W]."""
    n, channels, h, w = sizes(op, x)
    return reshape(op, x, [n, quotient(op, channels, classes), classes, h, w])


_FOCAL: Final = {0: _IMAGE, 1: _LABELS, 2: _FLOAT, 3: _FLOAT}


@family.converts("SigmoidFocalLoss", expects=_FOCAL)
@takes(SINGLE, 0, 2)
def sigmoid_focal_loss(op: Op) -> Value:
    """SigmoidFocalLoss(X, labels, count; scale=1.0, gamma=1.0, alpha=0.25, num_classes=80) -> loss.

    Classes are labelled from 1 on, and each is a prediction of its own: with w the logit of the wrong answer, the loss
    is ``sigmoid(w) ** gamma * softplus(w)``.
    """
    focal = _read_focal(op, 80)
    wrong, weights, _ = _wrong_logits(op, focal)
    certainty = _power(op, op.emit("Sigmoid", wrong), focal.gamma)
    losses = mul(op, op.emit("Softplus", wrong), weights, *certainty)
    return mul(op, total(op, losses), focal.factor)


@family.converts("SigmoidFocalLossGradient", expects=_FOCAL)
@takes(SINGLE, 0, 2, 3)
def sigmoid_focal_loss_gradient(op: Op) -> Value:
    """SigmoidFocalLossGradient(X, labels, count, d_loss; scale=1.0, gamma=1.0, alpha=0.25, num_classes=80) -> dX."""
    focal = _read_focal(op, 80)
    wrong, weights, positive = _wrong_logits(op, focal)
    p = op.emit("Sigmoid", wrong)
    slope = mul(op, sub(op, 1.0, p), op.emit("Softplus", wrong))
    slope = add(op, p, mul(op, slope, focal.gamma))
    signed = op.emit("Where", positive, op.emit("Neg", weights), weights)
    factor = mul(op, focal.factor, scalar(op, op.input(3)))
    return reshape_like(op, mul(op, slope, signed, factor, *_power(op, p, focal.gamma)), op.input(0))


def _wrong_logits(op: Op, focal: _Focal) -> tuple[Value, Value, Value]:
    """Return the logits of the wrong answers, their weights, and the mask of the classes that are labelled."""
    x = focal.logits
    classes = np.arange(1, op.bounded(focal.classes) + 1).reshape(-1, 1, 1)
    positive = op.emit("Equal", focal.labels, op.const(classes, np.int64))
    wrong = op.emit("Where", positive, op.emit("Neg", x), x)
    weights = op.emit("Where", positive, op.const(focal.alpha, x), op.const(1.0 - focal.alpha, x))
    counts = op.emit("Not", binary(op, "Equal", focal.labels, -1))
    return wrong, mul(op, weights, cast(op, counts, op.dtype(x))), positive


@family.converts("SoftmaxFocalLoss", expects=_FOCAL)
@takes(SINGLE, 0, 2)
def softmax_focal_loss(op: Op) -> tuple[Value, Value]:
    """SoftmaxFocalLoss(X, labels, count; scale=1.0, gamma=1.0, alpha=0.25, num_classes=81, order="NCHW") -> loss, P.

    ``-(1 - p) ** gamma * log(p)`` for the probability p of the label; class 0 is the background. P is flat.
    """
    require_nchw(op)
    focal = _read_focal(op, 81)
    probabilities = op.emit("Softmax", focal.logits, axis=2)
    p = _labelled(op, focal, probabilities)
    certainty = _power(op, sub(op, 1.0, p), focal.gamma)
    losses = mul(op, negative_log(op, p, _SMALLEST), _label_weights(op, focal), *certainty)
    return mul(op, total(op, losses), focal.factor), reshape(op, probabilities, [-1])


@family.converts("SoftmaxFocalLossGradient", expects={**_FOCAL, 3: TensorInfo(FLOAT, (None,)), 4: _FLOAT})
@takes(SINGLE, 0, 2, 3, 4)
def softmax_focal_loss_gradient(op: Op) -> Value:
    """SoftmaxFocalLossGradient(X, labels, count, P, d_loss; scale=1.0, gamma=1.0, alpha=0.25, ...) -> dX.

    The remaining arguments are num_classes=81 and order="NCHW".
    """
    require_nchw(op)
    focal = _read_focal(op, 81)
    probabilities = reshape_like(op, op.input(3), focal.logits)
    p = _labelled(op, focal, probabilities)
    rest = sub(op, 1.0, p)
    slope = mul(op, p, negative_log(op, p, _SMALLEST), *_power(op, rest, focal.gamma - 1.0))
    (focus,) = _power(op, rest, focal.gamma) or [op.const(1.0, p)]
    slope = add(op, mul(op, slope, focal.gamma), focus)
    factor = mul(op, focal.factor, scalar(op, op.input(4)))
    weights = mul(op, slope, _label_weights(op, focal), factor)
    classes = np.arange(op.bounded(focal.classes)).reshape(-1, 1, 1)
    chosen = cast(op, op.emit("Equal", focal.labels, op.const(classes, np.int64)), op.dtype(p))
    return reshape_like(op, mul(op, sub(op, probabilities, chosen), weights), op.input(0))


def _labelled(op: Op, focal: _Focal, probabilities: Value) -> Value:
    """Return the probabilities of the labels [N, A, 1, H, W]; of those that do not count, of class 0."""
    return op.emit("GatherElements", probabilities, op.emit("Max", focal.labels, op.const(0, np.int64)), axis=2)


def _label_weights(op: Op, focal: _Focal) -> Value:
    """Return ``alpha`` for labels from 1 on, ``1 - alpha`` for 0, and 0 for negative ones."""
    zero, alpha, rest = (op.const(value, focal.logits) for value in (0.0, focal.alpha, 1.0 - focal.alpha))
    background = op.emit("Where", binary(op, "Equal", focal.labels, 0), rest, zero)
    return op.emit("Where", binary(op, "Greater", focal.labels, 0), alpha, background)


def _power(op: Op, x: Value, exponent: float) -> list[Value]:
    """Return ``x ** exponent`` as a factor; none for an exponent of 0."""
    if exponent == 1.0:
        return [x]
    return [binary(op, "Pow", x, exponent)] if exponent else []


@family.converts("GroupSpatialSoftmax", expects={0: _IMAGE})
@takes(SINGLE, 0)
def group_spatial_softmax(op: Op) -> Value:
    """GroupSpatialSoftmax(X; num_classes=81, order="NCHW") -> P: the softmax over the classes of each anchor."""
    require_nchw(op)
    x = op.input(0)
    require_rank(op, x, 4, "the logits")
    return reshape_like(op, op.emit("Softmax", _by_class(op, x, _classes(op, x, 81)), axis=2), x)


@family.converts("GroupSpatialSoftmaxGradient", expects={0: _IMAGE, 1: _IMAGE})
@takes(SINGLE, 0, 1)
def group_spatial_softmax_gradient(op: Op) -> Value:
    """GroupSpatialSoftmaxGradient(P, dP; num_classes=81, order="NCHW") -> dX."""
    require_nchw(op)
    for value, what in zip(op.inputs, ("the probabilities", "the gradient"), strict=True):
        require_rank(op, value, 4, what)
    classes = _classes(op, op.input(0), 81)
    p, dp = (_by_class(op, value, classes) for value in op.inputs)
    mean = reduce_axes(op, "ReduceSum", mul(op, p, dp), [2], keep=True)
    return reshape_like(op, mul(op, p, sub(op, dp, mean)), op.input(0))
