"""Arithmetic, comparison and logic of two operands, and reductions over many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Final

import torch

from caffe2_torch.evaluation.broadcast import operands, require_same_shape
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("elementwise")


def _divide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.div(a, b, rounding_mode=None if a.is_floating_point() else "trunc")


_ARITHMETIC: Final[Mapping[str, Callable[..., torch.Tensor]]] = {
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "Div": _divide,
}
_COMPARED: Final = {
    "EQ": torch.eq, "NE": torch.ne, "GT": torch.gt, "GE": torch.ge, "LT": torch.lt, "LE": torch.le,
}  # fmt: skip
_LOGICAL: Final = {
    "And": torch.logical_and, "Or": torch.logical_or, "Xor": torch.logical_xor, "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or, "BitwiseXor": torch.bitwise_xor,
}  # fmt: skip


@family.converts(*_ARITHMETIC)
def arithmetic(op: Op) -> Value:
    op.args.ignore("use_grad_hack", "allow_broadcast_fastpath")
    a, b = operands(op)
    return _ARITHMETIC[op.type](a, b)


@family.converts(*_COMPARED)
def comparison(op: Op) -> Value:
    return _COMPARED[op.type](*operands(op))


@family.converts(*_LOGICAL)
def logical(op: Op) -> Value:
    return _LOGICAL[op.type](*operands(op))


@family.converts("Not")
def negation(op: Op) -> Value:
    return torch.logical_not(op.tensor(0))


@family.converts("Pow")
def power(op: Op) -> Value:
    if not op.has(1):
        op.args.ignore("broadcast", "axis", "axis_str", "order")
        return torch.pow(op.tensor(0), op.args.number("exponent"))
    op.args.ignore("exponent")
    if not op.args.flag("broadcast", default=False):
        require_same_shape(op, *op.tensors)
    return torch.pow(*operands(op))


@family.converts("Mod")
def modulo(op: Op) -> Value:
    x, divisor = op.tensor(0), op.args.integer("divisor")
    if divisor == 0:
        op.refuse("argument 'divisor' must not be 0")
    follows = op.args.flag("sign_follow_divisor", default=False)
    wide = x.to(torch.int64)
    return (torch.remainder(wide, divisor) if follows else torch.fmod(wide, divisor)).to(x.dtype)


@family.converts("Sum", "SumInt")
def total(op: Op) -> Value:
    require_same_shape(op, *op.tensors)
    return reduce(torch.add, op.tensors)


@family.converts("SumRelu")
def sum_relu(op: Op) -> Value:
    require_same_shape(op, *op.tensors)
    return reduce(torch.add, op.tensors).relu()


@family.converts("Mean")
def mean(op: Op) -> Value:
    require_same_shape(op, *op.tensors)
    return reduce(torch.add, op.tensors) * (1 / op.count)


@family.converts("Max", "Min")
def extreme(op: Op) -> Value:
    require_same_shape(op, *op.tensors)
    return reduce(torch.maximum if op.type == "Max" else torch.minimum, op.tensors)


@family.converts("WeightedSum")
def weighted_sum(op: Op) -> Value:
    op.args.ignore("grad_on_w")
    tensors = op.tensors
    if len(tensors) % 2:
        op.refuse("the operands must be pairs of a tensor and its weight")
    first = tensors[0]
    return reduce(
        torch.add, (x.reshape(first.shape) * w.reshape(()) for x, w in zip(tensors[::2], tensors[1::2], strict=True))
    )


@family.converts("ScaleBlobs")
def scale_blobs(op: Op) -> tuple[Value, ...]:
    scale = op.args.number("scale", default=1.0)
    return tuple(x * scale for x in op.tensors)


@family.converts("RowMul")
def row_mul(op: Op) -> Value:
    x, w = op.tensor(0), op.tensor(1)
    return x * w.reshape(-1, *[1] * (x.dim() - 1))


@family.converts("Where", "Conditional")
def where(op: Op) -> Value:
    condition, a, b = op.tensors
    require_same_shape(op, a, b)
    if a.dtype != b.dtype:
        op.refuse("both operands must have one element type")
    by_rows = op.type == "Conditional" or op.args.flag("broadcast_on_rows", default=False)
    if by_rows:
        if condition.dim() != 1 or a.dim() < 1 or condition.shape[0] != a.shape[0]:
            op.refuse("the condition must be a vector with one element per row")
        condition = condition.reshape(-1, *[1] * (a.dim() - 1))
    else:
        require_same_shape(op, condition, a)
    return torch.where(condition.to(torch.bool), a, b)
