"""ATen's activation functions."""

from __future__ import annotations

from caffe2_frontend.emit.arithmetic import binary, div, mul, sub
from caffe2_frontend.emit.selection import select
from caffe2_frontend.emit.shapes import unsqueeze
from caffe2_frontend.emit.slicing import split_equally
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.aten.operands import as_float, constant, name_of, number

family = Family("aten activation")


@family.converts("leaky_relu", "celu")
def one_slope(op: Op) -> Value:
    """aten::leaky_relu(self; negative_slope=0.01) | celu(self; alpha=1)."""
    if name_of(op) == "celu":
        return op.emit("Celu", op.input(0), alpha=float(number(op, "alpha", 1.0)))
    return op.emit("LeakyRelu", op.input(0), alpha=float(number(op, "negative_slope", 0.01)))


@family.converts("elu")
def convert_elu(op: Op) -> Value:
    """aten::elu(self; alpha=1, scale=1, input_scale=1).

    Above 0 ``scale * x``, else ``scale * alpha * (exp(input_scale * x) - 1)``.
    """
    x = op.input(0)
    alpha, scale, inner = (number(op, name, 1.0) for name in ("alpha", "scale", "input_scale"))
    if scale == inner == 1:
        return op.emit("Elu", x, alpha=float(alpha))
    below = mul(op, sub(op, op.emit("Exp", mul(op, binary(op, "Min", x, 0.0), inner)), 1.0), alpha * scale)
    return select(op, binary(op, "Greater", x, 0.0), mul(op, x, scale), below)


@family.converts("selu", "log_sigmoid", "silu", "gelu", "hardswish", "hardsigmoid")
def plain(op: Op) -> Value:
    """aten::selu | log_sigmoid | silu | gelu | hardswish | hardsigmoid(self)."""
    x = op.input(0)
    match name_of(op):
        case "selu":
            return op.emit("Selu", x, alpha=1.6732632423543772, gamma=1.0507009873554805)
        case "log_sigmoid":
            return op.emit("Neg", op.emit("Softplus", op.emit("Neg", x)))
        case "silu":
            return mul(op, x, op.emit("Sigmoid", x))
        case "gelu":
            return op.emit("Gelu", x)
        case "hardswish":
            return op.emit("HardSwish", x)
    return op.emit("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@family.converts("hardtanh")
def convert_hardtanh(op: Op) -> Value:
    """aten::hardtanh(self; min_val=-1, max_val=1)."""
    x = op.input(0)
    low, high = number(op, "min_val", -1), number(op, "max_val", 1)
    return op.emit("Clip", x, op.const(low, x), op.const(high, x))


@family.converts("softplus")
def convert_softplus(op: Op) -> Value:
    """aten::softplus(self; beta=1, threshold=20).

    ``log(1 + exp(beta * x)) / beta``, and x where ``beta * x`` exceeds the threshold.
    """
    x = op.input(0)
    beta, threshold = number(op, "beta", 1), number(op, "threshold", 20)
    scaled = x if beta == 1 else mul(op, x, beta)
    smooth = op.emit("Softplus", scaled)
    return select(op, binary(op, "Greater", scaled, threshold), x, smooth if beta == 1 else div(op, smooth, beta))


@family.converts("threshold")
def convert_threshold(op: Op) -> Value:
    """aten::threshold(self; threshold, value): ``value`` where an element is less or equal."""
    x = op.input(0)
    is_replaced = op.emit("LessOrEqual", x, constant(op, "threshold", x))
    return select(op, is_replaced, constant(op, "value", x), x)


@family.converts("prelu")
def convert_prelu(op: Op) -> Value:
    """aten::prelu(self, weight): a slope for all elements, or for each channel (dim 1)."""
    x, weight = op.input(0), op.input(1)
    if op.rank(x) > 2 and op.static_dim(weight, 0) != 1:
        weight = unsqueeze(op, weight, range(1, op.rank(x) - 1))
    return op.emit("PRelu", x, weight)


@family.converts("glu")
def convert_glu(op: Op) -> Value:
    """aten::glu(self; dim=-1): the first half, times the sigmoid of the second."""
    x = op.input(0)
    axis = op.axis(op.args.integer("dim", default=-1), op.rank(x), "dim")
    a, b = split_equally(op, x, axis, 2)
    return mul(op, a, op.emit("Sigmoid", b))


@family.converts("softmax", "log_softmax", "_softmax", "_log_softmax")
def softmax(op: Op) -> Value:
    """aten::softmax | log_softmax(self; dim), and with the names _softmax and _log_softmax (half_to_float=0)."""
    x = as_float(op, op.input(0))
    if op.args.flag("half_to_float", default=False):
        op.unsupported("half_to_float must be 0: it is for GPUs", hint="set half_to_float=0")
    axis = op.axis(op.args.integer("dim"), max(op.rank(x), 1), "dim")
    return op.emit("LogSoftmax" if "log" in name_of(op) else "Softmax", x, axis=axis)
