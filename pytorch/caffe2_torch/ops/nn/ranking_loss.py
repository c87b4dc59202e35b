"""Ranking losses: every pair of elements of a session is compared."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.segments import lengths_of, require_rows
from caffe2_torch.evaluation.values import Value

family = Family("ranking")


@family.converts("LambdaRankNdcg")
def lambda_rank_ndcg(op: Op) -> tuple[Value, Value]:
    """Return one loss per session, and its gradient with respect to each score."""
    y, ratings, lengths = op.tensor(0), op.tensor(1), lengths_of(op, 2)
    require_rows(op, lengths, y)
    sizes = lengths.tolist()
    results = [_session(op, *own) for own in zip(torch.split(y, sizes), torch.split(ratings, sizes), strict=True)]
    if not results:
        return y.new_zeros(0), y.new_zeros(0)
    return torch.stack([loss for loss, _ in results]), torch.cat([gradient for _, gradient in results])


def _session(op: Op, y: torch.Tensor, ratings: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight a pair by how much the DCG would change if its elements were swapped, over the ideal DCG."""
    as_ndcg = op.args.flag("use_ndcg_as_loss", default=False)
    exponential = op.args.flag("use_exp_gain", default=True) or not as_ndcg
    gain = torch.exp(ratings * math.log(2)) if exponential else ratings
    discount = _discounts(y)
    ideal, dcg = (gain * _discounts(ratings)).sum(), (gain * discount).sum()
    weight = (_differences(gain) * _differences(discount)).abs()
    norm = torch.ones_like(ideal)
    if op.args.flag("use_idcg_normalization", default=True):
        norm = ideal.clamp(min=1e-5)
        weight = weight / norm
    order = torch.sign(_differences(ratings))
    margin = -(order * _differences(y))
    loss = (ideal - dcg) / norm if as_ndcg else (weight * functional.softplus(margin)).sum()
    return loss, -(weight * order * torch.sigmoid(margin)).sum(1)


def _differences(x: torch.Tensor) -> torch.Tensor:
    return x.unsqueeze(1) - x


def _discounts(values: torch.Tensor) -> torch.Tensor:
    """Return ``1 / log2(2 + rank)`` for each element; of equal elements the first has the lower rank."""
    order = torch.sort(values, descending=True, stable=True)[1]
    by_rank = math.log(2) / torch.log(torch.arange(values.shape[0], dtype=torch.float32) + 2.0)
    return torch.empty_like(by_rank).index_copy(0, order, by_rank)
