"""Matrix products: fully connected layers, (batched) products, and products with factored matrices."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value
from caffe2_torch.ops.tensor.shape import flatten

family = Family("linear")


@family.converts("FC", "FCTransposed")
def fully_connected(op: Op) -> Value:
    """Count the dims of X from ``axis`` on as one, K; those of W from ``axis_w`` on likewise."""
    x, w, b = op.tensor(0), op.tensor(1), op.tensor(2)
    op.args.ignore("freeze_bias")
    axis = op.axis(op.args.integer("axis", default=1), x.dim())
    w = flatten(op, w, op.axis(op.args.integer("axis_w", default=1), w.dim()))
    w = w.t() if op.type == "FCTransposed" else w
    lead = x.shape[:axis]
    if math.prod(x.shape[axis:]) != w.shape[1] or b.numel() != w.shape[0]:
        op.refuse(f"X {tuple(x.shape)}, W {tuple(w.shape)} and b {tuple(b.shape)} do not fit together")
    return functional.linear(x.reshape(*lead, w.shape[1]), w, b.reshape(-1))


@family.converts("MatMul")
def matmul(op: Op) -> Value:
    a, b = (flatten(op, op.tensor(i), op.args.integer(name, default=1)) for i, name in enumerate(("axis_a", "axis_b")))
    a = a.t() if op.args.flag("trans_a", default=False) else a
    b = b.t() if op.args.flag("trans_b", default=False) else b
    y = a @ b
    return y.reshape(op.tensor(2).shape) if op.has(2) else y


@family.converts("BatchMatMul")
def batch_matmul(op: Op) -> Value:
    """Require equal dims before the last two without ``broadcast``; with it follow NumPy's rules."""
    op.args.ignore("use_scratch")
    a, b = op.tensor(0), op.tensor(1)
    broadcast = op.args.flag("broadcast", default=False)
    if not broadcast and (a.dim() != b.dim() or a.shape[:-2] != b.shape[:-2] or a.dim() < 2):
        op.refuse("the dims before the last two must be equal, unless broadcast=1")
    if op.args.flag("trans_a", default=False) and a.dim() > 1:
        a = a.transpose(-1, -2)
    if op.args.flag("trans_b", default=False) and b.dim() > 1:
        b = b.transpose(-1, -2)
    y = a @ b
    return y.reshape(1) if y.dim() == 0 else y


@family.converts("ElementwiseLinear")
def elementwise_linear(op: Op) -> Value:
    x, w, b = op.tensors
    axis = op.axis(op.args.integer("axis", default=1), x.dim())
    tail = x.shape[axis:]
    return x * w.reshape(tail) + b.reshape(tail)


@family.converts("ConcatBatchMatMulBatchGatherOp")
def pairwise_products(op: Op) -> Value:
    rows = torch.stack(op.tensors[1:], dim=1)
    return (rows @ rows.transpose(1, 2)).flatten(1)[:, op.tensor(0).to(torch.int64)]


@family.converts("TT")
def tensor_train(op: Op) -> Value:
    x, bias, cores = op.tensors
    inputs, outputs, ranks = (op.args.integers(name) for name in ("inp_sizes", "out_sizes", "tt_ranks"))
    y, start = x, 0
    for i in reversed(range(len(inputs))):
        rows, columns = inputs[i] * ranks[i + 1], ranks[i] * outputs[i]
        core = cores[start : start + rows * columns].reshape(rows, columns)
        y = (y.reshape(-1, rows) @ core).reshape(-1, outputs[i]).t()
        start += rows * columns
    width = math.prod(outputs)
    return y.reshape(-1, width).t().reshape(x.shape[0], width) + bias[:width]
