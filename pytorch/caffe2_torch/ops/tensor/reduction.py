"""Reductions over axes, over the first or the last dims, and over all elements; and ranges."""

from __future__ import annotations

import math
from typing import Final

import torch

from caffe2_torch.evaluation.broadcast import align, broadcast_axis
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("reduction")

_BY_AXES: Final = ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMin")


def _limits(dtype: torch.dtype) -> tuple[float, float]:
    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return info.min, info.max


def _total(x: torch.Tensor, axes: list[int], *, keep: bool = False) -> torch.Tensor:
    """Return the sum in the type of the operand, over no axes the operand."""
    return x.sum(axes, keepdim=keep, dtype=x.dtype) if axes else x


@family.converts(*_BY_AXES)
def over_axes(op: Op) -> Value:
    x = op.tensor(0)
    axes = sorted({op.axis(axis, x.dim()) for axis in op.args.integers("axes", default=())}) or list(range(x.dim()))
    keep = op.args.flag("keepdims", default=True)
    kind = op.type.removeprefix("Reduce")
    if kind == "Sum":
        return _total(x, axes, keep=keep)
    if kind == "L1":
        return _total(x.abs(), axes, keep=keep)
    if kind == "L2":
        return torch.sqrt(_total(x * x, axes, keep=keep))
    count = math.prod(x.shape[axis] for axis in axes)
    if kind == "Mean":
        return _total(x, axes, keep=keep) / max(count, 1)
    return _extreme(x, axes, keep=keep, largest=kind == "Max")


def _extreme(
    x: torch.Tensor, axes: list[int], *, keep: bool = False, largest: bool = True, empty: float | None = None
) -> torch.Tensor:
    """Return the largest or smallest elements; of no elements the limit of the type, or ``empty``."""
    if not axes:
        return x
    if math.prod(x.shape[axis] for axis in axes):
        return (torch.amax if largest else torch.amin)(x, axes, keepdim=keep)
    fill = _limits(x.dtype)[0 if largest else 1] if empty is None else empty
    return torch.full_like(x.sum(axes, keepdim=keep, dtype=x.dtype), fill)


@family.converts(
    "ReduceFrontSum", "ReduceFrontMean", "ReduceFrontMax", "ReduceBackSum", "ReduceBackMean", "ReduceBackMax"
)
def front_or_back(op: Op) -> Value:
    """Reduce, with lengths, as many elements for each result as its length says, but at least one."""
    x, count = op.tensor(0), op.args.integer("num_reduce_dim", default=1)
    rank, front = x.dim(), op.type.startswith("ReduceFront")
    if not 0 <= count <= rank:
        op.refuse(f"num_reduce_dim must be between 0 and the rank ({rank}), not {count}")
    axes = list(range(count)) if front else list(range(rank - count, rank))
    kind = op.type.removeprefix("ReduceFront").removeprefix("ReduceBack")
    lengths = None
    if op.has(1):
        if count != 1:
            op.refuse(f"num_reduce_dim must be 1 with lengths, not {count}")
        lengths = op.tensor(1).reshape(x.shape[1:] if front else x.shape[:-1])
        limit = lengths.clamp(min=1).unsqueeze(0 if front else rank - 1)
        index = torch.arange(x.shape[axes[0]], device=x.device).reshape(-1, *[1] * (rank - 1 - axes[0]))
        x = torch.where(index < limit, x, torch.full_like(x, -math.inf if kind == "Max" else 0))
    if kind == "Max":
        return _extreme(x, axes, empty=0).to(torch.float32)
    total = _total(x, axes)
    if kind == "Sum":
        return total
    elements = math.prod(x.shape[axis] for axis in axes)
    if elements == 0:
        return torch.zeros_like(total)
    divisor: torch.Tensor | int = elements if lengths is None else lengths.to(x.dtype)
    return total / divisor if x.is_floating_point() else torch.div(total, divisor, rounding_mode="trunc")


@family.converts("ReduceFrontWeightedSum")
def front_weighted_sum(op: Op) -> Value:
    op.args.ignore("grad_on_weights")
    x, weights, count = op.tensor(0), op.tensor(1), op.args.integer("num_reduce_dim", default=1)
    if weights.dim() != count or not 1 <= count <= x.dim():
        op.refuse(f"the weights must have {count} dims, not {weights.dim()}")
    return (x * weights.reshape(*x.shape[:count], *[1] * (x.dim() - count))).sum(list(range(count)))


@family.converts("Summarize")
def summarize(op: Op) -> Value:
    op.args.ignore("to_file")
    x = op.tensor(0)
    mean = x.mean()
    deviation = torch.sqrt(((x - mean) ** 2).sum() / max(x.numel() - 1, 1))
    return torch.stack([x.min(), x.max(), mean, deviation])


@family.converts("SumElements", "SumSqrElements", "AveragedLoss")
def over_all(op: Op) -> Value:
    x = op.tensor(0)
    x = x * x if op.type == "SumSqrElements" else x
    average = op.type == "AveragedLoss" or op.args.flag("average", default=False)
    return x.sum() / max(x.numel(), 1) if average else x.sum()


@family.converts("SumElementsInt")
def sum_integers(op: Op) -> Value:
    return op.tensor(0).sum(dtype=torch.int64).to(torch.int32)


@family.converts("ReduceTailSum")
def tail_sum(op: Op) -> Value:
    x = op.tensor(0)
    return x.reshape(x.shape[0], -1).sum(1) if x.numel() else x.new_zeros(x.shape[0])


@family.converts("RowwiseMax", "ColwiseMax")
def matrix_max(op: Op) -> Value:
    x = op.tensor(0)
    if x.dim() != 3:
        op.refuse(f"the input must have rank 3, not {x.dim()}")
    return _extreme(x, [2 if op.type == "RowwiseMax" else 1])


@family.converts("SumReduceLike")
def sum_like(op: Op) -> Value:
    op.args.ignore("broadcast")
    x, like = op.tensor(0), op.tensor(1)
    aligned = align(op, x, like, broadcast_axis(op))
    lead = x.dim() - aligned.dim()
    axes = [*range(lead), *(lead + i for i, d in enumerate(aligned.shape) if d == 1 and x.shape[lead + i] != 1)]
    return _total(x, axes, keep=True).reshape(like.shape)


@family.converts("Range")
def count(op: Op) -> Value:
    """Return floats ``start + i * step``; of integers the quotient is rounded to zero, plus one if it falls short."""
    bounds = [x.reshape(()) for x in op.tensors]
    dtype = bounds[0].dtype
    start = bounds[0].item() if len(bounds) > 1 else 0
    stop = bounds[min(len(bounds), 2) - 1].item()
    step = bounds[2].item() if len(bounds) > 2 else 1
    if step == 0:
        op.refuse("the step must not be 0")
    span = stop - start
    if dtype.is_floating_point:
        steps = math.ceil(torch.tensor(span, dtype=dtype) / torch.tensor(step, dtype=dtype))
    else:
        steps = math.trunc(span / step)
        steps += steps * step < span
    return torch.arange(max(int(steps), 0), device=bounds[0].device).to(dtype) * step + start
