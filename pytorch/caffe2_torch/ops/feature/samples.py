"""Samples of records, and lists of ids of dense vectors."""

from __future__ import annotations

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("samples")


@family.converts("DenseVectorToIdList")
def dense_vector_to_id_list(op: Op) -> tuple[Value, Value]:
    """The columns of each row whose element is 1 when it is rounded towards zero after 0.5 is added."""
    x = op.tensor(0)
    nonzero = (x >= 0.5) | (x <= -1.5)
    return nonzero.sum(1).to(torch.int32), nonzero.nonzero()[:, 1].to(torch.int32)


@family.converts("WeightedSample")
def weighted_sample(op: Op) -> tuple[Value, Value]:
    weights = op.tensor(0)
    if weights.numel() == 0:
        return torch.zeros(0, dtype=torch.int32), torch.zeros(0)
    sums = weights.cumsum(1)
    drawn = torch.rand(weights.shape[0], 1, dtype=weights.dtype) * sums[:, -1:]
    index = torch.searchsorted(sums, drawn).clamp(max=weights.shape[1] - 1)
    return index.to(torch.int32), op.tensor(1).gather(1, index) if op.has(1) else None


@family.converts("WeightedMultiSampling")
def weighted_multi_sampling(op: Op) -> Value:
    """The operand holds cumulative sums."""
    sums, count = op.tensor(0), op.args.integer("num_samples", default=0)
    shape = list(op.tensor(1).shape) if op.has(1) else [count]
    if sums.numel() == 0:
        return torch.zeros(0, dtype=torch.int32)
    drawn = torch.rand(shape, dtype=sums.dtype) * sums[-1]
    return torch.searchsorted(sums, drawn).clamp(max=sums.numel() - 1).to(torch.int32)
