"""Normalization: by the moments of a batch, an image, a group of channels or a layer; and by neighbouring channels."""

from __future__ import annotations

from math import prod

import torch
from torch.nn import functional

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.layout import channels_last, move_first, move_last, over_channels
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("normalization")


def _affine(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Scale and shift each channel of ``x`` [N, C, ...]."""
    return x * over_channels(scale, x) + over_channels(bias, x)


@family.converts("SpatialBN")
def spatial_bn(op: Op) -> tuple[Value, ...]:
    """Normalize by the moments of the batch while a module of a net for training trains, and update the running ones.

    A module in ``eval()`` normalizes by the running moments, as PyTorch's layers do.
    """
    x, last = op.tensor(0), channels_last(op)
    x = move_first(x, when=last)
    scale, bias, mean, var = (op.tensor(i).reshape(-1) for i in range(1, 5))
    epsilon, momentum = op.args.number("epsilon", default=1e-5), op.args.number("momentum", default=0.9)
    batches = op.args.integer("num_batches", default=1)
    test = op.args.flag("is_test", default=False)
    if test or not op.context.training:
        y = functional.batch_norm(x, mean, var, scale, bias, training=False, eps=epsilon)
        return (move_last(y, when=last), mean, var, mean, torch.rsqrt(var + epsilon))[: op.output_count]
    axes = [0, *range(2, x.dim())]
    count = x.numel() * batches / scale.numel()
    if x.shape[0] == 0:
        return move_last(x, when=last), mean, var, torch.zeros_like(mean), torch.zeros_like(var)
    if batches > 1:
        batch_mean = op.tensor(5) / count
        batch_var = op.tensor(6) / count - batch_mean**2
    else:
        batch_mean, batch_var = x.mean(axes), x.var(axes, unbiased=False)
    rstd = torch.rsqrt(batch_var + epsilon)
    y = _affine(x - over_channels(batch_mean, x), scale * rstd, bias)
    # Of one element real Caffe2 divides by 0.
    unbiased = batch_var * (count / (count - 1)) if count != 1 else batch_var * float("inf")
    running = [old * momentum + new * (1 - momentum) for old, new in ((mean, batch_mean), (var, unbiased))]
    return move_last(y, when=last), *running, batch_mean, rstd


@family.converts("InstanceNorm")
def instance_norm(op: Op) -> tuple[Value, ...]:
    x, scale, bias = op.tensors
    last, epsilon = channels_last(op), op.args.number("epsilon", default=1e-5)
    x = move_first(x, when=last)
    axes = list(range(2, x.dim()))
    mean, var = x.mean(axes), x.var(axes, unbiased=False)
    rstd = torch.rsqrt(var + epsilon)
    shape = (*mean.shape, *[1] * (x.dim() - 2))
    y = _affine((x - mean.reshape(shape)) * rstd.reshape(shape), scale, bias)
    return move_last(y, when=last), mean, rstd


@family.converts("GroupNorm")
def group_norm(op: Op) -> tuple[Value, ...]:
    op.args.ignore("is_test")
    x, scale, bias = op.tensors
    last, group = channels_last(op), op.args.integer("group", default=32)
    epsilon = op.args.number("epsilon", default=1e-5)
    x = move_first(x, when=last)
    if x.shape[1] % group:
        op.refuse(f"the channels ({x.shape[1]}) must be a multiple of group ({group})")
    groups = x.reshape(x.shape[0], group, prod(x.shape[1:]) // group)
    mean, var = groups.mean(2), groups.var(2, unbiased=False)
    rstd = torch.rsqrt(var + epsilon)
    y = ((groups - mean.unsqueeze(2)) * rstd.unsqueeze(2)).reshape(x.shape)
    return move_last(_affine(y, scale, bias), when=last), mean, rstd


@family.converts("LayerNorm", "C10LayerNorm_DontUseThisOpYet")
def layer_norm(op: Op) -> tuple[Value, ...]:
    """Return the standard deviation as the second moment."""
    x = op.tensor(0)
    axis, epsilon = op.axis(op.args.integer("axis", default=1), x.dim()), op.args.number("epsilon", default=1e-5)
    if set(op.view.inputs) & set(op.view.outputs[1:]):
        op.refuse("the moments must not be written over an input")
    axes = list(range(axis, x.dim()))
    mean, var = x.mean(axes, keepdim=True), x.var(axes, unbiased=False, keepdim=True)
    rstd = torch.rsqrt(var + epsilon)
    deviation = rstd * (var + epsilon)  # as Caffe2 computes it: of no variance, or an infinite one, it is NaN
    y = (x - mean) * rstd
    if op.args.flag("elementwise_affine", default=False):
        tail = x.shape[axis:]
        y = y * op.tensor(1).reshape(tail) + op.tensor(2).reshape(tail)
    shape = (*x.shape[:axis], 1)
    return y, mean.reshape(shape), deviation.reshape(shape)


@family.converts("RMSNorm")
def rms_norm(op: Op) -> tuple[Value, ...]:
    x, gamma, beta = op.tensors
    axis, epsilon = op.axis(op.args.integer("axis", default=1), x.dim()), op.args.number("eps", default=0.0)
    tail = x.shape[axis:]
    rrms = torch.rsqrt((x * x).mean(list(range(axis, x.dim())), keepdim=True) + epsilon)
    return x * rrms * gamma.reshape(tail) + beta.reshape(tail), rrms.reshape(x.shape[:axis])


@family.converts("LRN")
def local_response(op: Op) -> tuple[Value, ...]:
    x, last = op.tensor(0), channels_last(op)
    size = op.args.integer("size", default=0)
    alpha, beta = (op.args.number(name, default=0.0) for name in ("alpha", "beta"))
    bias = op.args.number("bias", default=1.0)
    if size < 1 or x.dim() != 4:
        op.refuse(f"size must be positive ({size}), and X must have rank 4 ({x.dim()})")
    x = move_first(x, when=last)
    before = (size - 1) // 2
    squares = functional.pad(x * x, (0, 0, 0, 0, before, size - 1 - before))
    scale = squares.unfold(1, size, 1).sum(-1) * (alpha / size) + bias
    return move_last(x * scale**-beta, when=last), move_last(scale, when=last)


@family.converts("AffineChannel")
def affine_channel(op: Op) -> Value:
    op.args.ignore("is_learnable")
    x, scale, bias = op.tensors
    return x * scale + bias if channels_last(op) else _affine(x, scale, bias)
