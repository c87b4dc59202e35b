"""Gradients of activation functions, element by element, as functions of the operand or of the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import Operand, add, aligned, binary, div, mul, reshape_like, square, sub
from caffe2_frontend.emit.broadcast import paired_operands
from caffe2_frontend.emit.layout import channels_last
from caffe2_frontend.emit.operand_checks import FLOATS, SINGLE, require_dtype, require_equal, require_min_rank
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.shapes import (
    as_vector,
    broadcast_over_channels,
    known_size,
    reshape,
    size,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("activation_gradient")

_TWO: Final = {0: TensorInfo(ir.DataType.FLOAT), 1: TensorInfo(ir.DataType.FLOAT)}
_FOUR: Final = {index: TensorInfo(ir.DataType.FLOAT) for index in range(4)}


def _where(op: Op, condition: Value, then: Operand, otherwise: Operand) -> Value:
    """Select element by element between values and numbers, of which at least one is a value."""
    like = then if isinstance(then, Value) else otherwise
    if not isinstance(like, Value):
        raise TypeError("one operand must be a value")
    sides = (side if isinstance(side, Value) else op.const(side, like) for side in (then, otherwise))
    return op.emit("Where", condition, *sides)


def _passed(op: Op, dy: Value, *conditions: Value) -> Value:
    """Return the gradient where all conditions hold, else 0."""
    passed = conditions[0]
    for condition in conditions[1:]:
        passed = op.emit("And", passed, condition)
    return _where(op, passed, dy, 0.0)


@family.converts("ReluGradient", expects=_TWO)
def relu_gradient(op: Op) -> Value:
    """ReluGradient(Y, dY) -> dX. At 0 the derivative is 0."""
    y, dy = paired_operands(op, 0, 1, SINGLE)
    return _passed(op, dy, binary(op, "Greater", y, 0.0))


@family.converts("ReluNGradient", expects=_TWO)
def relu_n_gradient(op: Op) -> Value:
    """ReluNGradient(Y, dY; n=6.0) -> dX. At 0 and ``n`` the derivative is 0."""
    n = op.args.number("n", default=6.0)
    if n <= 0:
        op.unsupported(f"n must be positive, not {n}", code="invalid-argument")
    y, dy = paired_operands(op, 0, 1, SINGLE)
    return _passed(op, dy, binary(op, "Greater", y, 0.0), binary(op, "Less", y, n))


@family.converts("ClipGradient", expects=_TWO)
def clip_gradient(op: Op) -> Value:
    """ClipGradient(Y, dY; min, max) -> dX. At the bounds the derivative is 0.

    Either bound may be left out: it is then the last number of the type.
    """
    y, dy = paired_operands(op, 0, 1, SINGLE)
    limits = np.finfo(op.dtype(y).numpy())
    low = op.args.number("min", default=float(limits.min))
    high = op.args.number("max", default=float(limits.max))
    return _passed(op, dy, binary(op, "Greater", y, low), binary(op, "Less", y, high))


@family.converts("HardSigmoidGradient", expects=_TWO)
def hard_sigmoid_gradient(op: Op) -> Value:
    """HardSigmoidGradient(Y, dY; alpha=0.2) -> dX. At 0 and 1 the derivative is 0."""
    op.args.ignore("beta")
    y, dy = paired_operands(op, 0, 1, SINGLE)
    scaled = mul(op, dy, op.args.number("alpha", default=0.2))
    return _passed(op, scaled, binary(op, "Greater", y, 0.0), binary(op, "Less", y, 1.0))


@family.converts("ThresholdedReluGradient", expects=_TWO)
def thresholded_relu_gradient(op: Op) -> Value:
    """ThresholdedReluGradient(Y, dY; alpha=1.0) -> dX: ``dY * sign(Y)``, whatever ``alpha`` is."""
    op.args.ignore("alpha")
    y, dy = paired_operands(op, 0, 1, SINGLE)
    return mul(op, dy, op.emit("Sign", y))


@family.converts("LeakyReluGradient", expects=_TWO)
def leaky_relu_gradient(op: Op) -> Value:
    """LeakyReluGradient(Y, dY; alpha=0.01) -> dX. At 0 the derivative is 1."""
    alpha = op.args.number("alpha", default=0.01)
    y, dy = paired_operands(op, 0, 1, SINGLE)
    return _where(op, binary(op, "GreaterOrEqual", y, 0.0), dy, mul(op, dy, alpha))


@family.converts("EluGradient", expects=_TWO)
def elu_gradient(op: Op) -> Value:
    """EluGradient(Y, dY; alpha=1.0) -> dX."""
    alpha = op.args.number("alpha", default=1.0)
    y, dy = paired_operands(op, 0, 1, SINGLE)
    return _where(op, binary(op, "Less", y, 0.0), mul(op, dy, add(op, y, alpha)), dy)


@family.converts("SeluGradient", expects=_TWO)
def selu_gradient(op: Op) -> Value:
    """SeluGradient(Y, dY; alpha=1.67326..., scale=1.05070...) -> dX."""
    alpha = op.args.number("alpha", default=1.6732632423543772)
    scale = op.args.number("scale", default=1.0507009873554805)
    if scale <= 1.0:
        op.unsupported(f"scale must be greater than 1, not {scale}", code="invalid-argument")
    y, dy = paired_operands(op, 0, 1, SINGLE)
    positive = binary(op, "Greater", y, 0.0)
    return _where(op, positive, mul(op, dy, scale), mul(op, dy, add(op, y, alpha * scale)))


_OF_RESULT: Final[dict[str, Callable[[Op, Value], Value]]] = {
    "SoftplusGradient": lambda op, y: sub(op, 1.0, op.emit("Exp", op.emit("Neg", y))),
    "TanhGradient": lambda op, y: sub(op, 1.0, square(op, y)),
}


@family.converts(*_OF_RESULT, expects=_TWO)
def from_result(op: Op) -> Value:
    """SoftplusGradient | TanhGradient(Y, dY) -> dX."""
    y, dy = paired_operands(op, 0, 1, SINGLE)
    return mul(op, dy, _OF_RESULT[op.type](op, y))


@family.converts("SigmoidGradient", expects=_TWO)
def sigmoid_gradient(op: Op) -> Value:
    """SigmoidGradient(Y, dY) -> dX, the product in Caffe2's order: a Y of 0 is 0, however large dY is."""
    y, dy = paired_operands(op, 0, 1, SINGLE)
    return mul(op, dy, y, sub(op, 1.0, y))


@family.converts("GeluGradient", expects=_TWO)
def gelu_gradient(op: Op) -> Value:
    """GeluGradient(dY, X; fast_gelu=0) -> dX, exact or of the approximation by tanh (Hendrycks and Gimpel, 2016)."""
    dy, x = paired_operands(op, 0, 1, SINGLE)
    if op.args.flag("fast_gelu", default=False):
        return mul(op, dy, _derivative_by_tanh(op, x))
    distribution = mul(op, add(op, op.emit("Erf", mul(op, x, math.sqrt(0.5))), 1.0), 0.5)
    density = mul(op, op.emit("Exp", mul(op, square(op, x), -0.5)), 1.0 / math.sqrt(2.0 * math.pi))
    return mul(op, dy, add(op, distribution, mul(op, x, density)))


def _derivative_by_tanh(op: Op, x: Value) -> Value:
    """Return the derivative of ``0.5 x (1 + tanh(u))`` with ``u = sqrt(2 / pi) (x + 0.044715 x^3)``."""
    slope, cubic = math.sqrt(2.0 / math.pi), 0.044715
    squared = square(op, x)
    tanh = op.emit("Tanh", mul(op, x, add(op, mul(op, squared, slope * cubic), slope)))
    inner = mul(op, x, add(op, mul(op, squared, 3.0 * slope * cubic), slope))
    return mul(op, add(op, mul(op, inner, sub(op, 1.0, square(op, tanh))), add(op, tanh, 1.0)), 0.5)


@family.converts("LogitGradient", expects=_TWO)
def logit_gradient(op: Op) -> Value:
    """LogitGradient(X, dY; eps=1e-6) -> dX: 0 outside of [eps, 1 - eps]."""
    eps = np.float32(op.args.number("eps", default=1e-6))
    x, dy = paired_operands(op, 0, 1, SINGLE)
    gradient = div(op, dy, mul(op, x, sub(op, 1.0, x)))
    outside = op.emit("Or", binary(op, "Less", x, float(eps)), binary(op, "Greater", x, float(np.float32(1) - eps)))
    return _where(op, outside, 0.0, gradient)


@family.converts("SwishGradient", expects={index: TensorInfo(ir.DataType.FLOAT) for index in range(3)})
def swish_gradient(op: Op) -> Value:
    """SwishGradient(X, Y, dY) -> dX: ``dY * (Y + sigmoid(X) * (1 - Y))``."""
    x, dy = paired_operands(op, 0, 2, FLOATS)
    y = reshape_like(op, op.input(1), x)
    return mul(op, dy, add(op, y, mul(op, op.emit("Sigmoid", x), sub(op, 1.0, y))))


@family.converts("MishGradient", expects={index: TensorInfo(ir.DataType.FLOAT) for index in range(3)})
def mish_gradient(op: Op) -> Value:
    """MishGradient(X, Y, dY) -> dX. Only X and dY matter.

    With ``t = tanh(softplus(X))`` the derivative is ``t + X * sigmoid(X) * (1 - t^2)``.
    """
    x, dy = paired_operands(op, 0, 2, FLOATS)
    # onnxruntime has no float64 kernel for Softplus.
    single = op.dtype(x) != ir.DataType.DOUBLE
    softplus = op.emit("Softplus", x) if single else op.emit("Log", add(op, op.emit("Exp", x), 1.0))
    tanh = op.emit("Tanh", softplus)
    slope = mul(op, mul(op, x, op.emit("Sigmoid", x)), sub(op, 1.0, square(op, tanh)))
    return aligned(op, mul(op, dy, add(op, tanh, slope)), op.input(0))


@family.converts("PReluGradient", expects=_FOUR)
def prelu_gradient(op: Op) -> tuple[Value, Value]:
    """PReluGradient(Y, dY, X, slope; order="NCHW") -> dX, dslope.

    The slope holds one element, or one per channel; its gradient has its shape.
    """
    op.args.ignore("alpha")
    x, dy = paired_operands(op, 2, 1, SINGLE)
    slope = op.input(3)
    require_dtype(op, slope, SINGLE, "the slope")
    last = channels_last(op)
    shared = known_size(op, slope) == 1
    require_min_rank(op, x, 1 if last or shared else 2, "X")
    rank = op.rank(x)
    channel = rank - 1 if last else 1
    if not shared:
        require_equal(op, known_size(op, slope), op.static_dim(x, channel), "slopes and channels")
    flat = as_vector(op, slope)
    scale = flat if last or shared else broadcast_over_channels(op, flat, x)
    positive = binary(op, "Greater", x, 0.0)
    dx = _where(op, positive, dy, mul(op, dy, scale))
    of_slope = mul(op, dy, binary(op, "Min", x, 0.0))
    sums = reduce_axes(op, "ReduceSum", of_slope, [axis for axis in range(rank) if axis != channel] if rank > 1 else [])
    # One slope sums over the channels too; whether there is one may be known at run time alone.
    by_slope = reshape(op, sums, [size(op, flat, 0), -1])
    return dx, reshape_like(op, reduce_axes(op, "ReduceSum", by_slope, [1]), slope)
