"""Order: the largest elements, and quantiles by bisection."""

from __future__ import annotations

import math

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions import ranking

family = Family("sorting")


@family.converts("TopK")
def top_k(op: Op) -> tuple[Value, ...]:
    """Put the first of equal elements first; pad an axis shorter than ``k`` with 0, indices with -1."""
    x, k = op.tensor(0), op.args.integer("k", default=-1)
    if k < 1:
        op.refuse(f"k must be positive, not {k}")
    axis = op.axis(op.args.integer("axis", default=-1), x.dim())
    values, index = ranking.top_k(x, k, axis)
    stride = math.prod(x.shape[axis + 1 :])
    outer = torch.arange(math.prod(x.shape[:axis])).reshape(-1, 1, 1) * (x.shape[axis] * stride)
    inner = torch.arange(stride).reshape(1, 1, -1)
    flat = (outer + index.reshape(outer.shape[0], k, stride) * stride + inner).reshape(index.shape)
    return values, index, torch.where(index < 0, -1, flat).reshape(-1)


@family.converts("FlexibleTopK")
def flexible_top_k(op: Op) -> tuple[Value, Value]:
    x = op.tensor(0)
    values, index = torch.sort(x, dim=-1, descending=True, stable=True)
    chosen = torch.arange(x.shape[-1]) < op.tensor(1).reshape(*x.shape[:-1], 1)
    return values[chosen], index[chosen]


@family.converts("ArgMax", "ArgMin")
def arg_extreme(op: Op) -> Value:
    """Return the first of equal elements."""
    x, axis = op.tensor(0), op.axis(op.args.integer("axis", default=-1), op.tensor(0).dim())
    keep = op.args.flag("keepdims", default=True)
    if x.shape[axis] == 0:
        index = x.sum(axis, keepdim=True).to(torch.int64) * 0
    else:
        index = torch.sort(x, dim=axis, descending=op.type == "ArgMax", stable=True)[1].narrow(axis, 0, 1)
    return index if keep else index.squeeze(axis)


@family.converts("Quantile")
def quantile(op: Op) -> Value:
    """Bisect between the extremes, up to the relative tolerance ``tol``, as Caffe2 does."""
    fraction, tolerance = op.args.number("quantile", default=-1.0), op.args.number("tol", default=1e-3)
    if not 0 <= fraction <= 1 or tolerance <= 0:
        op.refuse("quantile must be between 0 and 1, and tol positive")
    x = torch.cat([each.reshape(-1) for each in op.tensors])
    x = x.abs() if op.args.flag("abs", default=True) else x
    low, high = x.min(), x.max()
    wanted = int(torch.ceil(torch.tensor(float(x.numel()), dtype=torch.float32) * fraction))

    def below(limit: torch.Tensor) -> int:
        return int((x <= limit).sum())

    if wanted == 0:
        return low.reshape(1)
    if wanted == x.numel():
        return high.reshape(1)
    if below(low) >= wanted:
        return low.reshape(1)
    while abs(high - low) > tolerance * (abs(high) + abs(low)):
        middle = low + (high - low) * 0.5
        count = below(middle)
        if count == wanted:
            return middle.reshape(1)
        if middle in ((low,) if count < wanted else (high,)):
            break
        low, high = (middle, high) if count < wanted else (low, middle)
    return high.reshape(1)
