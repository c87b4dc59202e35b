"""Activation functions, dropout and clipping, element by element; and softmax."""

from __future__ import annotations

from typing import Final

import torch
from torch.nn import functional

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.layout import channels_last
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value
from caffe2_torch.ops.tensor.shape import flatten

family = Family("activation")

_FUNCTIONS: Final = {
    "Relu": torch.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Softplus": functional.softplus,
    "Softsign": functional.softsign, "Mish": functional.mish, "Swish": functional.silu,
}  # fmt: skip


@family.converts(*_FUNCTIONS)
def function(op: Op) -> Value:
    if op.type == "Softplus":
        return torch.logaddexp(op.tensor(0), torch.zeros_like(op.tensor(0)))
    return _FUNCTIONS[op.type](op.tensor(0))


@family.converts("Elu")
def elu(op: Op) -> Value:
    return functional.elu(op.tensor(0), op.args.number("alpha", default=1.0))


@family.converts("HardSigmoid")
def hard_sigmoid(op: Op) -> Value:
    alpha, beta = op.args.number("alpha", default=0.2), op.args.number("beta", default=0.5)
    return (op.tensor(0) * alpha + beta).clamp(0.0, 1.0)


@family.converts("LeakyRelu")
def leaky_relu(op: Op) -> Value:
    return functional.leaky_relu(op.tensor(0), op.args.number("alpha", default=0.01))


@family.converts("Selu")
def selu(op: Op) -> Value:
    x = op.tensor(0)
    alpha, scale = (
        op.args.number("alpha", default=1.6732632423543772),
        op.args.number("scale", default=1.0507009873554805),
    )
    return scale * torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0)))


@family.converts("ThresholdedRelu")
def thresholded_relu(op: Op) -> Value:
    return functional.threshold(op.tensor(0), op.args.number("alpha", default=1.0), 0.0)


@family.converts("Gelu")
def gelu(op: Op) -> Value:
    fast = op.args.flag("fast_gelu", default=False)
    return functional.gelu(op.tensor(0), approximate="tanh" if fast else "none")


@family.converts("Clip")
def clip(op: Op) -> Value:
    return _clipped(op, op.tensor(0))


def _clipped(op: Op, x: torch.Tensor) -> torch.Tensor:
    limits = torch.finfo(x.dtype)
    return x.clamp(op.args.number("min", default=limits.min), op.args.number("max", default=limits.max))


@family.converts("ReluN")
def relu_n(op: Op) -> Value:
    return op.tensor(0).clamp(0.0, op.args.number("n", default=6.0))


@family.converts("Logit")
def logit(op: Op) -> Value:
    eps = op.args.number("eps", default=1e-6)
    x = op.tensor(0).clamp(eps, 1 - eps)
    return torch.log(x / (1 - x))


@family.converts("PRelu")
def prelu(op: Op) -> Value:
    op.args.ignore("alpha")
    x, slope = op.tensor(0), op.tensor(1).reshape(-1)
    if not channels_last(op) and slope.numel() != 1:
        slope = slope.reshape(-1, *[1] * (x.dim() - 2))
    return torch.where(x > 0, x, x * slope)


@family.converts("Glu")
def gated_linear_unit(op: Op) -> Value:
    x = op.tensor(0)
    return functional.glu(x, op.axis(op.args.integer("dim", default=-1), x.dim()))


@family.converts("Softmax")
def softmax(op: Op) -> Value:
    """Normalize the dims from ``axis`` on together."""
    x = op.tensor(0)
    axis = op.axis(op.args.integer("axis", default=1), x.dim())
    return torch.softmax(flatten(op, x, axis), 1).reshape(x.shape)


@family.converts("Dropout")
def dropout(op: Op) -> tuple[Value, Value]:
    """Drop elements in a net for training, while the module trains."""
    x, ratio = op.tensor(0), op.args.number("ratio", default=0.5)
    if op.args.flag("is_test") or not op.context.training:
        return x, None
    mask = torch.rand_like(x) >= ratio
    return x * mask * (1 / (1 - ratio)), mask


@family.converts("EnsureClipped")
def ensure_clipped(op: Op) -> Value:
    x = op.tensor(0)
    if not op.has(1):
        return _clipped(op, x)
    rows = op.tensor(1).reshape(-1).to(torch.int64)
    return x.index_copy(0, rows, _clipped(op, x[rows]))


@family.converts("ClipTensorByScaling")
def clip_by_scaling(op: Op) -> Value:
    x, norm = op.tensor(0), op.tensor(1).reshape(())
    limit: torch.Tensor | float = op.args.number("threshold", default=0.0)
    limit = limit * op.tensor(2).reshape(()) if op.has(2) else limit
    return torch.where(norm > limit, x * (limit / norm), x)
