"""Writes of rows and elements by index."""

from __future__ import annotations

import math

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("scatter")


@family.converts("ScatterAssign")
def scatter_assign(op: Op) -> Value:
    """Keep the last of several rows for the same index."""
    x, index, rows = op.tensor(0).clone(), op.tensor(1).reshape(-1).to(torch.int64), op.tensor(2)
    rows = rows.reshape(index.shape[0], *x.shape[1:])
    last = {item: position for position, item in enumerate(index.tolist())}
    if not last:
        return x
    targets = torch.tensor(list(last), device=x.device)
    return x.index_copy(0, targets, rows[torch.tensor(list(last.values()), device=x.device)])


@family.converts("ScatterWeightedSum")
def scatter_weighted_sum(op: Op) -> Value:
    x, index = op.tensor(0), op.tensor(2).reshape(-1).to(torch.int64)
    if op.count < 3 or op.count % 2 == 0:
        op.refuse("the operands must be X0, w0, indices and pairs of rows and weight")
    times = torch.bincount(index, minlength=x.shape[0]).to(x.dtype)
    scale = torch.pow(op.tensor(1).reshape(()), times)
    x = x * scale.reshape(-1, *[1] * (x.dim() - 1))
    for rows, weight in zip(op.tensors[3::2], op.tensors[4::2], strict=True):
        x = x.index_add(0, index, rows.reshape(index.shape[0], *x.shape[1:]) * weight.reshape(()))
    return x


@family.converts("Scatter")
def scatter(op: Op) -> Value:
    """Flatten the dims before and after the axis to one each before indices and data are aligned."""
    x, index, updates = op.tensor(0), op.tensor(1).to(torch.int64), op.tensor(2)
    axis = op.axis(op.args.integer("axis", default=1), x.dim())

    def blocks(value: torch.Tensor) -> torch.Tensor:
        return value.reshape(math.prod(value.shape[:axis]), value.shape[axis], math.prod(value.shape[axis + 1 :]))

    return blocks(x).scatter(1, blocks(index), blocks(updates)).reshape(x.shape)


@family.converts("CopyRowsToTensor")
def copy_rows_to_tensor(op: Op) -> Value:
    x, index, row = op.tensor(0), op.tensor(1).to(torch.int64), op.tensor(2)
    if x.dim() != 2 or row.shape != x.shape[1:]:
        op.refuse("the row must be as wide as the tensor")
    return x.index_copy(0, index.unique(), row.expand(index.unique().shape[0], -1))
