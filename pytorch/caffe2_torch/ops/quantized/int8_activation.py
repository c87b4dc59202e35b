"""Activations, sums and softmax of Int8 tensors. A function of one element is a table of the 256 bytes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.int8 import (
    Scaling,
    image,
    preserved,
    quantize_dnnlowp,
    relu_scaling,
    stated,
    stated_for_bytes,
    uses_dnnlowp,
)
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions.int8 import Quantized, add_quantized, softmax_quantized

family = Family("int8_activation")

# What Caffe2 requires of results between 0 and 1.
_UNIT: Final = Scaling(1 / 256, 0)


def _unit(op: Op) -> Scaling:
    op.args.ignore("order", "axis")
    if stated(op) != _UNIT:
        op.refuse("Y_scale must be 1/256 and Y_zero_point 0")
    return _UNIT


def _looked_up(x: Quantized, values: Any, how: Scaling) -> Quantized:
    table = torch.from_numpy(np.asarray(values).astype(np.uint8))
    return Quantized(table[x.data.to(torch.int64)], how.scale, how.zero_point)


@family.converts("Int8Relu")
def relu(op: Op) -> Value:
    op.args.ignore("order")
    x = image(op, 0)
    how = preserved(op, x)
    return Quantized(x.data.clamp(min=how.zero_point), how.scale, how.zero_point)


@family.converts("Int8Sigmoid")
def sigmoid(op: Op) -> Value:
    x, how = image(op, 0), _unit(op)
    reals = np.float32(x.scale) * (np.arange(256) - x.zero_point).astype(np.float32)
    values = np.float32(256) / (np.float32(1) + np.exp(-reals))
    return _looked_up(x, np.clip(np.rint(values), 0, 255), how)


@family.converts("Int8LeakyRelu")
def leaky_relu(op: Op) -> Value:
    op.args.ignore("order")
    x, how, alpha = image(op, 0), stated_for_bytes(op), np.float32(op.args.number("alpha", default=0.01))
    if not 0 < alpha < 1:
        op.refuse(f"alpha must be between 0 and 1, not {alpha}")
    steps = np.float32(x.scale) / np.float32(how.scale) * (np.arange(256) - x.zero_point).astype(np.float32)
    steps = np.where(steps < 0, steps * alpha, steps)
    return _looked_up(x, np.clip(np.rint(steps) + how.zero_point, 0, 255), how)


@family.converts("Int8Softmax")
def softmax(op: Op) -> Value:
    _unit(op)
    return softmax_quantized(image(op, 0))


@family.converts("Int8Add", "Int8AddRelu", "Int8Sum", "Int8SumRelu")
def plus(op: Op) -> Value:
    op.args.ignore("order")
    if op.count != 2:
        op.refuse(f"{op.type} must have two operands, not {op.count}")
    operands, how = [image(op, i) for i in range(2)], stated_for_bytes(op, dnnlowp=op.type != "Int8AddRelu")
    if operands[0].data.shape != operands[1].data.shape:
        op.refuse("the operands must have the same shape")
    if uses_dnnlowp(op):
        return _added(op, operands, how)
    scales = [np.float32(x.scale) / np.float32(how.scale) for x in operands]
    if min(scales) < 2**-14 or not 2**-10 <= max(scales) < 2**8:
        op.refuse("the operands' scales must be between 2**-14 and 2**8 times Y_scale")
    return add_quantized(operands[0], operands[1], *how, relu=op.type.endswith("Relu"))


def _added(op: Op, operands: list[Quantized], how: Scaling) -> Quantized:
    """Add the reals in float32 as DNNLOWP's vector instructions do: a product and a sum are rounded once."""
    if op.type.endswith("Relu"):
        how = relu_scaling(how)
    offset = np.float32(0)
    for x in operands:
        offset -= np.float32(x.scale) * np.float32(x.zero_point)
    total = torch.full(operands[0].data.shape, float(offset), dtype=torch.float64)
    for x in operands:
        total = (total + x.data.to(torch.float64) * float(np.float32(x.scale))).to(torch.float32).to(torch.float64)
    return quantize_dnnlowp(total.to(torch.float32), how)
