"""Distances and similarities between the rows of two tensors."""

from __future__ import annotations

import torch

from caffe2_torch.evaluation.broadcast import require_same_shape
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("distance")


def _rows(op: Op, *, same: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = op.tensors
    if same:
        require_same_shape(op, x, y)
    if not (x.numel() and y.numel()):
        op.refuse("rows without elements are not supported")
    return _matrix(x), _matrix(y)


def _matrix(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(x.shape[0] if x.dim() else 1, -1)


@family.converts("SquaredL2Distance")
def squared_l2_distance(op: Op) -> Value:
    x, y = _rows(op)
    return ((x - y) ** 2).sum(1) * 0.5


@family.converts("L1Distance")
def l1_distance(op: Op) -> Value:
    x, y = _rows(op)
    return (x - y).abs().sum(1)


@family.converts("DotProduct")
def dot_product(op: Op) -> Value:
    x, y = _rows(op)
    return (x * y).sum(1)


@family.converts("CosineSimilarity")
def cosine_similarity(op: Op) -> Value:
    x, y = _rows(op)
    squares = (x * x).sum(1).clamp(min=1e-12) * (y * y).sum(1).clamp(min=1e-12)
    return (x * y).sum(1) / torch.sqrt(squares)


@family.converts("DotProductWithPadding")
def dot_product_with_padding(op: Op) -> Value:
    pad, replicate = op.args.number("pad_value", default=0.0), op.args.flag("replicate", default=False)
    x, y = _rows(op, same=False)
    short, long = min(x.shape[1], y.shape[1]), max(x.shape[1], y.shape[1])
    if replicate:
        used = short * (long // short)
        x, y = (v.repeat(1, long // v.shape[1])[:, :used] for v in (x, y))
    else:
        # The elements beyond the shorter rows are added before they are multiplied, as in Caffe2.
        beyond = x[:, short:].sum(1) + y[:, short:].sum(1)
        x, y = x[:, :short], y[:, :short]
        return (x * y).sum(1) + (beyond * pad if long > short else 0)
    return (x * y).sum(1)
