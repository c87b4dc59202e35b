"""Losses of predictions against labels."""

from __future__ import annotations

from typing import Final

import torch
from torch.nn import functional

from caffe2_torch.evaluation.broadcast import require_same_shape
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value
from caffe2_torch.ops.tensor.shape import flatten

family = Family("loss")

_LEAST: Final = 1e-20


def _labelled(op: Op, rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the element of each row [N, classes] that its label names, [N]."""
    index = labels.reshape(-1, 1).to(torch.int64)
    op.require_within(index, 0, rows.shape[1], f"labels must be from 0 to {rows.shape[1] - 1}")
    return rows.gather(1, index).reshape(-1)


@family.converts("CrossEntropy")
def cross_entropy(op: Op) -> Value:
    x, label = op.tensors
    require_same_shape(op, x, label)
    return -(torch.log(x.clamp(min=_LEAST)) * label).sum(1)


@family.converts("LabelCrossEntropy")
def label_cross_entropy(op: Op) -> Value:
    x = op.tensor(0)
    rows = x.unsqueeze(0) if x.dim() < 2 else x.flatten(1)
    return -torch.log(_labelled(op, rows, op.tensor(1)).clamp(min=_LEAST))


@family.converts("MakeTwoClass")
def make_two_class(op: Op) -> Value:
    x = op.tensor(0)
    return torch.stack([1 - x, x], dim=-1)


def _softplus(x: torch.Tensor) -> torch.Tensor:
    return torch.logaddexp(x, torch.zeros_like(x))


def _last_mean(x: torch.Tensor) -> torch.Tensor:
    return x if x.dim() == 0 else x.mean(-1)


@family.converts("SigmoidCrossEntropyWithLogits")
def sigmoid_cross_entropy(op: Op) -> Value:
    log_d, unjoined = (op.args.flag(name, default=False) for name in ("log_D_trick", "unjoined_lr_loss"))
    x, targets = op.tensors
    require_same_shape(op, x, targets)
    if log_d:
        return _last_mean((targets * 2 - 1) * _softplus(-x))
    if unjoined:
        return _last_mean((1 - targets) * _softplus(x) - x * targets)
    return _last_mean(_softplus(x) - x * targets)


@family.converts("WeightedSigmoidCrossEntropyWithLogits")
def weighted_sigmoid_cross_entropy(op: Op) -> Value:
    x, targets, weights = op.tensors
    require_same_shape(op, x, targets, weights)
    return _last_mean((_softplus(x) - x * targets) * weights)


@family.converts("MarginRankingCriterion")
def margin_ranking(op: Op) -> Value:
    x, y, label = op.tensors
    require_same_shape(op, x, y, label)
    return torch.relu(op.args.number("margin", default=1.0) - label.to(x.dtype) * (x - y))


@family.converts("CosineEmbeddingCriterion")
def cosine_embedding(op: Op) -> Value:
    x, label = op.tensors
    require_same_shape(op, x, label)
    return torch.where(label == 1, 1 - x, torch.relu(x - op.args.number("margin", default=0.0)))


@family.converts("SoftmaxWithLoss")
def softmax_with_loss(op: Op) -> tuple[Value, Value]:
    op.args.ignore("only_loss", "order")
    x, labels = op.tensor(0), op.tensor(1)
    axis = op.axis(op.args.integer("axis", default=1), x.dim())
    rows = flatten(op, x, axis)
    scores = torch.log_softmax(rows, 1)
    if op.args.integer("label_prob", default=0):
        losses = -(scores.exp().clamp(min=_LEAST).log() * labels.reshape(rows.shape)).sum(1)
    else:
        losses = -_labelled(op, scores, labels)
    weights = op.tensor(2).reshape(-1) if op.has(2) else None
    if op.args.integer("average_by_batch_size", default=0) and weights is not None:
        losses, weights = losses * weights, None
    scale = op.args.number("scale", default=1.0)
    return torch.softmax(rows, 1).reshape(x.shape), _average(losses, weights) * scale


def _average(losses: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
    """Return the (weighted) mean; 0 where the weights sum to 0."""
    if weights is None:
        return losses.sum() / max(losses.numel(), 1)
    total = weights.sum()
    return torch.where(total == 0, torch.zeros_like(total), (losses * weights).sum() / total)


@family.converts("SpatialSoftmaxWithLoss")
def spatial_softmax_with_loss(op: Op) -> tuple[Value, Value]:
    """Ignore pixels labelled -1, and do not scale the loss, as on the CPU."""
    op.args.ignore("only_loss", "order", "scale")
    x, labels = op.tensor(0), op.tensor(1).to(torch.int64)
    probability = torch.softmax(x, 1)
    counted = labels != -1
    picked = probability.gather(1, labels.clamp(min=0).unsqueeze(1)).squeeze(1)
    weights = counted.to(x.dtype)
    if op.has(2):
        weights = weights * op.tensor(2).reshape(labels.shape)
    return probability, _average(-torch.log(picked.clamp(min=_LEAST)), weights)


@family.converts("Perplexity")
def perplexity(op: Op) -> Value:
    x = op.tensor(0)
    count = x.shape[0]
    return torch.pow(x.reshape(-1)[:count], -1 / max(count, 1)).prod()


@family.converts("BernoulliJSD")
def bernoulli_jsd(op: Op) -> Value:
    x, y = op.tensors
    require_same_shape(op, x, y)
    return _entropy((x + y) * 0.5) - (_entropy(x) + _entropy(y)) * 0.5


def _entropy(p: torch.Tensor) -> torch.Tensor:
    """Return ``-p log p - q log q`` with ``q = 1 - p``; 0 where either is below 1e-20."""
    q = 1 - p
    return torch.where((p < _LEAST) | (q < _LEAST), torch.zeros_like(p), -(p * torch.log(p) + q * torch.log(q)))


@family.converts("PairWiseLoss")
def pair_wise_loss(op: Op) -> Value:
    """Take all elements as one session without lengths."""
    x, labels = op.tensor(0), op.tensor(1).reshape(-1)
    if x.dim() == 0 or x.numel() == 0:
        return x.new_zeros(0)
    x = x.reshape(-1)
    lengths = op.tensor(2).reshape(-1).tolist() if op.has(2) else [x.numel()]
    losses = []
    for scores, truth in zip(torch.split(x, lengths), torch.split(labels, lengths), strict=True):
        sign = torch.sign(truth.unsqueeze(1) - truth)
        counted = sign != 0
        loss = functional.softplus(-sign * (scores.unsqueeze(1) - scores))
        losses.append(torch.where(counted, loss, 0).sum() / counted.sum().clamp(min=1))
    return torch.stack(losses) if losses else x.new_zeros(0)
