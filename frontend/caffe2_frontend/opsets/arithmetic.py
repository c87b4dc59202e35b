"""Adapters of arithmetic, comparisons and activations, and of element types that operators did not have yet."""

from __future__ import annotations

from math import inf
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.interop.types import BOOL, DOUBLE, INT32, INT64
from caffe2_frontend.opsets.rewriter import Rewriter
from caffe2_frontend.opsets.rules import Rules

rules = Rules()

# Types that hold every integer of a narrower one.
WIDER: Final = {
    ir.DataType.INT8: INT32,
    ir.DataType.UINT8: INT32,
    ir.DataType.INT16: INT32,
    ir.DataType.UINT16: INT32,
    BOOL: INT32,
}


@rules.before(12, "GreaterOrEqual", "LessOrEqual")
def or_equal(at: Rewriter) -> ir.Value:
    """Emit two comparisons, both false of a NaN."""
    a, b = at.input(0), at.input(1)
    strict = at.emit(at.node.op_type.removesuffix("OrEqual"), a, b)
    return at.emit("Or", strict, at.emit("Equal", a, b))


@rules.before(11, "Equal")
def equal_of_floats(at: Rewriter) -> ir.Value | None:
    """Take floats for equal that are neither less nor greater, and no NaN; widen narrow integers."""
    a, b = at.input(0), at.input(1)
    dtype = at.dtype(a)
    if not dtype.is_floating_point():
        wide = WIDER.get(dtype) if dtype != BOOL else None
        return at.emit("Equal", at.cast(a, wide), at.cast(b, wide)) if wide else None
    different = at.emit("Or", at.emit("Less", a, b), at.emit("Greater", a, b))
    nan = at.emit("Or", at.emit("IsNaN", a), at.emit("IsNaN", b))
    return at.emit("Not", at.emit("Or", different, nan))


@rules.before(12, "Max", "Min")
def extremum_of_integers(at: Rewriter) -> ir.Value | None:
    """Choose integers by comparisons."""
    values = [value for value in at.node.inputs if value is not None]
    if at.dtype(values[0]).is_floating_point():
        return None
    comparison = "Greater" if at.node.op_type == "Max" else "Less"
    result = values[0]
    for other in values[1:]:
        result = at.emit("Where", at.emit(comparison, result, other), result, other)
    return at.emit("Identity", result) if len(values) == 1 else result


@rules.before(12, "Clip")
def clip_of_integers(at: Rewriter) -> ir.Value | None:
    """Clip integers by comparisons."""
    x = at.input(0)
    if at.dtype(x).is_floating_point():
        return None
    return _clip_by_extrema(at)


def _clip_by_extrema(at: Rewriter) -> ir.Value:
    result = at.input(0)
    for index, op_type in ((1, "Max"), (2, "Min")):
        if at.has_input(index):
            result = at.emit(op_type, result, at.input(index))
    return at.emit("Identity", result) if result is at.input(0) else result


@rules.before(11, "Clip")
def clip(at: Rewriter) -> ir.Value | None:
    """Move the bounds from operands to attributes; runtimes refuse those that cross."""
    constants = {name: at.constant(index) for index, name in ((1, "min"), (2, "max")) if at.has_input(index)}
    bounds = {name: float(bound.reshape(-1)[0]) for name, bound in constants.items() if bound is not None}
    if len(bounds) < len(constants) or bounds.get("min", -inf) > bounds.get("max", inf):
        return _clip_by_extrema(at)
    for name, bound in bounds.items():
        at.set(name, bound)
    at.keep_inputs(1)
    return None


@rules.before(14, "Relu")
def relu_of_integers(at: Rewriter) -> ir.Value | None:
    """Compare integers with zero."""
    x = at.input(0)
    if at.dtype(x).is_floating_point():
        return None
    return at.emit("Max", x, at.const(0, at.dtype(x)))


@rules.before(12, "Pow")
def power_of_one_type(at: Rewriter) -> ir.Value | None:
    """Give base and exponent one type, a float."""
    base, exponent = at.input(0), at.input(1)
    dtype = at.dtype(base)
    if dtype.is_floating_point():
        return None if exponent.dtype == dtype else at.emit("Pow", base, at.cast(exponent, dtype))
    if dtype == INT64:
        at.refuse("it raises int64 to a power")
    return at.cast(at.emit("Pow", at.cast(base, DOUBLE), at.cast(exponent, DOUBLE)), dtype)


@rules.before(10, "Mod")
def remainder(at: Rewriter) -> ir.Value:
    """Return what is left of a quotient; the sign is that of the dividend, or of the divisor."""
    a, b = at.input(0), at.input(1)
    dtype = at.dtype(a)
    if dtype.is_floating_point():
        at.refuse("it takes remainders of floats")
    rest = at.emit("Sub", a, at.emit("Mul", at.emit("Div", a, b), b))
    if at.integer("fmod", 0):
        return rest
    zero = at.const(0, dtype)
    opposite = at.emit("Xor", at.emit("Less", rest, zero), at.emit("Less", b, zero))
    inexact = at.emit("Not", at.emit("Equal", rest, zero))
    return at.emit("Where", at.emit("And", opposite, inexact), at.emit("Add", rest, b), rest)


@rules.before(11, "Round")
def round_half_to_even(at: Rewriter) -> ir.Value:
    """Round to the nearest integer, of two equally near ones the even one."""
    x = at.input(0)
    dtype = at.dtype(x)
    half, one, two = (at.const(number, dtype) for number in (0.5, 1.0, 2.0))
    low = at.emit("Floor", x)
    above = at.emit("Sub", x, low)
    high = at.emit("Add", low, one)
    even = at.emit("Mul", two, at.emit("Floor", at.emit("Div", high, two)))
    upper = at.emit("Where", at.emit("Greater", above, half), high, even)
    return at.emit("Where", at.emit("Less", above, half), low, upper)


@rules.before(11, "BitShift")
def shift(at: Rewriter) -> ir.Value:
    """Multiply or divide by a constant power of two."""
    by = at.constant(1)
    if by is None:
        at.refuse("it shifts by a number of bits that is computed at run time")
    x = at.input(0)
    dtype = at.dtype(x)
    factor = at.const(np.left_shift(np.ones_like(by, np.uint64), by.astype(np.uint64)), ir.DataType.UINT64)
    op_type = "Mul" if at.text("direction", "") == "LEFT" else "Div"
    return at.cast(at.emit(op_type, at.cast(x, ir.DataType.UINT64), factor), dtype)


@rules.before(10, "ThresholdedRelu")
def thresholded_relu(at: Rewriter) -> ir.Value:
    """Return what is above the threshold, else zero."""
    x = at.input(0)
    is_above = at.emit("Greater", x, at.const(at.number("alpha", 1.0), at.dtype(x)))
    return at.emit("Where", is_above, x, at.const(0, at.dtype(x)))


@rules.before(20, "Gelu")
def gelu(at: Rewriter) -> ir.Value:
    """Compute Gelu by its definition: https://onnx.ai/onnx/operators/onnx__Gelu.html."""
    x = at.input(0)
    dtype = at.dtype(x)
    if at.text("approximate", "none") == "tanh":
        cubed = at.emit("Mul", x, at.emit("Mul", x, x))
        inner = at.emit("Add", x, at.emit("Mul", cubed, at.const(0.044715, dtype)))
        weight = at.emit("Tanh", at.emit("Mul", inner, at.const(np.sqrt(2 / np.pi), dtype)))
    else:
        weight = at.emit("Erf", at.emit("Mul", x, at.const(np.sqrt(0.5), dtype)))
    half = at.emit("Mul", x, at.const(0.5, dtype))
    return at.emit("Mul", half, at.emit("Add", weight, at.const(1, dtype)))


@rules.before(18, "Mish")
def mish(at: Rewriter) -> ir.Value:
    """Compute ``x * tanh(softplus(x))``."""
    x = at.input(0)
    return at.emit("Mul", x, at.emit("Tanh", at.emit("Softplus", x)))


@rules.before(17, "LayerNormalization")
def layer_normalization(at: Rewriter) -> tuple[ir.Value, ...]:
    """Compute the normalization by its definition: https://onnx.ai/onnx/operators/onnx__LayerNormalization.html."""
    x, scale = at.input(0), at.input(1)
    rank, dtype = at.rank(x), at.dtype(x)
    axes = at.const(np.arange(at.integer("axis", -1) % rank, rank), np.int64)
    mean = at.emit("ReduceMean", x, axes)
    centered = at.emit("Sub", x, mean)
    variance = at.emit("ReduceMean", at.emit("Mul", centered, centered), axes)
    deviation = at.emit("Sqrt", at.emit("Add", variance, at.const(at.number("epsilon", 1e-5), dtype)))
    y = at.emit("Mul", at.emit("Div", centered, deviation), scale)
    if at.has_input(2):
        y = at.emit("Add", y, at.input(2))
    return y, mean, at.emit("Reciprocal", deviation)


@rules.before(15, "BatchNormalization")
def batch_normalization(at: Rewriter) -> None:
    """Require inference: training had other outputs."""
    at.drop("training_mode", 0)


@rules.before(12, "Dropout")
def dropout(at: Rewriter) -> ir.Value:
    """Copy the input, as in inference; there was no training that a model could ask for."""
    mode = at.constant(2)
    if at.has_input(2) and (mode is None or bool(mode.reshape(-1)[0])):
        at.refuse("it drops elements in training")
    if len(at.node.outputs) > 1 and at.node.outputs[1].uses():
        at.refuse("its mask is read")
    return at.emit("Identity", at.input(0))


@rules.before(19, "Cast", "QuantizeLinear")
def saturating(at: Rewriter) -> None:
    """Remove ``saturate``: only 8-bit floats saturate."""
    at.node.attributes.pop("saturate", None)


@rules.before(11, "Gemm")
def gemm_with_bias(at: Rewriter) -> None:
    """Add the third operand, which was required."""
    if not at.has_input(2):
        at.replace_input(2, at.const([0], at.dtype(at.input(0))))


@rules.before(14, "LSTM", "GRU", "RNN")
def batch_second(at: Rewriter) -> None:
    """Require the batch as the second axis, which it always was."""
    at.drop("layout", 0)
