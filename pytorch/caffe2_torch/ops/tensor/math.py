"""Functions of one operand, element by element."""

from __future__ import annotations

import math
from typing import Final

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("math")

_FUNCTIONS: Final = {
    "Abs": torch.abs, "Acos": torch.acos, "Asin": torch.asin, "Atan": torch.atan, "Ceil": torch.ceil,
    "Cos": torch.cos, "Cosh": torch.cosh, "Erf": torch.erf, "Exp": torch.exp, "Floor": torch.floor,
    "Log": torch.log, "Log1p": torch.log1p, "Negative": torch.neg, "Reciprocal": torch.reciprocal,
    "Rsqrt": torch.rsqrt, "Sign": torch.sign, "Sin": torch.sin, "Sinh": torch.sinh, "Sqrt": torch.sqrt,
    "Sqr": torch.square, "Tan": torch.tan,
}  # fmt: skip


@family.converts(*_FUNCTIONS)
def function(op: Op) -> Value:
    return _FUNCTIONS[op.type](op.tensor(0))


@family.converts("Cube")
def cube(op: Op) -> Value:
    x = op.tensor(0)
    return x * x * x


@family.converts("Cbrt")
def cube_root(op: Op) -> Value:
    x = op.tensor(0)
    return torch.sign(x) * torch.pow(torch.abs(x), 1 / 3)


@family.converts("ReplaceNaN")
def replace_nan(op: Op) -> Value:
    x = op.tensor(0)
    return torch.where(torch.isnan(x), torch.full_like(x, op.args.number("value", default=0.0)), x)


@family.converts("IsNaN")
def is_nan(op: Op) -> Value:
    return torch.isnan(op.tensor(0)).to(torch.uint8)


@family.converts("NanCheck")
def nan_check(op: Op) -> Value:
    return op.tensor(0)


@family.converts("EnforceFinite")
def enforce_finite(op: Op) -> tuple[()]:
    op.tensor(0)
    return ()


@family.converts("StumpFunc")
def stump(op: Op) -> Value:
    x = op.tensor(0)
    low, high = (op.args.number(name, default=0.0) for name in ("low_value", "high_value"))
    return torch.where(x <= op.args.number("threshold", default=0.0), low, high).to(torch.float32)


@family.converts("StumpFuncIndex")
def stump_indices(op: Op) -> tuple[Value, Value]:
    low = op.tensor(0).reshape(-1) <= op.args.number("threshold", default=0.0)
    return low.nonzero().reshape(-1), low.logical_not().nonzero().reshape(-1)


@family.converts("SquareRootDivide")
def square_root_divide(op: Op) -> Value:
    x, scale = op.tensor(0), op.tensor(1).to(torch.float32)
    if scale.dim() != 1 or scale.shape[0] != x.shape[0]:
        op.refuse("there must be one scale for each row")
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    return x / torch.sqrt(scale).reshape(-1, *[1] * (x.dim() - 1))


@family.converts("SinusoidPositionEncoding")
def sinusoid_position_encoding(op: Op) -> Value:
    """Give all examples the encoding of the first, as in Caffe2; the exponents are a range of logarithms."""
    positions = op.tensor(0)
    count = op.args.integer("embedding_size", default=100)
    alpha, amplitude = op.args.number("alpha", default=10000.0), op.args.number("amplitude", default=1.0)
    low = torch.log(positions[:, :1].to(torch.float32)).unsqueeze(2)
    high = low - math.log(alpha) * (count - 1) / count
    step = (high - low) / max(count - 1, 1)
    inner = low + step * torch.arange(count - 1, dtype=torch.float32)
    angle = torch.exp(torch.cat([inner, high], dim=2))
    phase = (torch.arange(count) % 2) * (math.pi / 2)
    return (torch.sin(angle + phase) * amplitude).expand(*positions.shape, count)
