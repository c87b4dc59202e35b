"""Moments, sums and norms of tensors, and scaling by norms."""

from __future__ import annotations

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.layout import channels_last, over_channels
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("statistics")


def _but_channels(op: Op, x: torch.Tensor) -> list[int]:
    channel = x.dim() - 1 if channels_last(op) else 1
    return [axis for axis in range(x.dim()) if axis != channel]


@family.converts("BatchMoments", "ChannelStats")
def channel_moments(op: Op) -> tuple[Value, Value]:
    x = op.tensor(0)
    axes = _but_channels(op, x)
    count = 1 if op.type == "ChannelStats" else max(x.numel() // max(x.shape[-1 if channels_last(op) else 1], 1), 1)
    if not axes:
        return x, x * x
    return x.sum(axes) / count, (x * x).sum(axes) / count


@family.converts("ChannelBackpropStats")
def channel_backprop_stats(op: Op) -> tuple[Value, Value]:
    x, mean, rstd, dy = op.tensors
    axes = _but_channels(op, x)
    normal = (x - over_channels(mean, x)) * over_channels(rstd, x)
    return (normal * dy).sum(axes), dy.sum(axes)


@family.converts("Moments")
def mean_and_variance(op: Op) -> tuple[Value, Value]:
    x, keep = op.tensor(0), op.args.flag("keepdims", default=True)
    axes = sorted(op.args.integers("axes", default=())) or list(range(x.dim()))
    return x.mean(axes, keepdim=keep), x.var(axes, unbiased=False, keepdim=keep)


@family.converts("LpNorm")
def lp_norm(op: Op) -> Value:
    x, p = op.tensor(0), op.args.integer("p", default=2)
    if p not in (1, 2):
        op.refuse(f"p must be 1 or 2, not {p}")
    powers = x.abs() if p == 1 else x * x
    return (powers.mean() if op.args.flag("average", default=False) else powers.sum()).reshape(1)


@family.converts("Normalize", "NormalizeL1")
def normalize(op: Op) -> Value:
    x = op.tensor(0)
    axis = op.axis(op.args.integer("axis", default=-1), x.dim())
    if op.type == "Normalize":
        norm = torch.sqrt((x * x).sum(axis, keepdim=True))
        return x / norm.clamp(min=1e-12)
    norm = x.abs().sum(axis, keepdim=True)
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)
