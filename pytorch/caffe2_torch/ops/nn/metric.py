"""Metrics of predictions: accuracies and average precision."""

from __future__ import annotations

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions import ranking

family = Family("metric")


@family.converts("Accuracy")
def accuracy(op: Op) -> Value:
    return ranking.accuracy(op.tensor(0), op.tensor(1), op.args.integer("top_k", default=1))


@family.converts("MultiClassAccuracy")
def multi_class_accuracy(op: Op) -> tuple[Value, Value]:
    scores, labels = op.tensor(0), op.tensor(1).to(torch.int64)
    best = torch.sort(scores, dim=1, descending=True, stable=True)[1][:, 0]
    zeros = torch.zeros(scores.shape[1], dtype=torch.float32)
    correct = zeros.index_add(0, labels, (best == labels).to(torch.float32))
    amounts = zeros.index_add(0, labels, torch.ones_like(labels, dtype=torch.float32))
    return correct / amounts.clamp(min=1), amounts.to(torch.int32)


@family.converts("APMeter")
def average_precision(op: Op) -> Value:
    """Average over the rows of this run: a module keeps no buffer of earlier ones."""
    buffer = op.args.integer("buffer_size", default=1000)
    scores, labels = (x[-buffer:] for x in op.tensors)
    order = torch.sort(scores, dim=0, descending=True, stable=True)[1]
    truth = labels.gather(0, order).to(torch.float32)
    ranks = torch.arange(1, scores.shape[0] + 1, dtype=torch.float32).unsqueeze(1)
    positive = (truth == 1).to(torch.float32)
    return (truth.cumsum(0) / ranks * positive).sum(0) / positive.sum(0).clamp(min=1)
