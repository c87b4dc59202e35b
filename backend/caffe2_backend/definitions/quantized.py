"""Operators on quantized tensors: what they compute of the numbers that these stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import MICROSOFT, Family

family = Family(MICROSOFT)


@family.defines("QuantizeLinear", "DequantizeLinear")
def linear(define: Definition) -> ir.Value:
    """``QuantizeLinear(x, y_scale, y_zero_point; axis=1) -> y``, ``DequantizeLinear``: the ones of ONNX."""
    operands = [define.input(0), define.input(1), define.optional(2)]
    return define(define.type, *operands, **define.attributes("axis"))


@family.defines("QLinearAdd", "QLinearMul")
def arithmetic(define: Definition) -> ir.Value:
    """``QLinearAdd(A, A_scale, A_zero, B, B_scale, B_zero, C_scale, C_zero) -> C``, ``QLinearMul``."""
    made = define(define.type.removeprefix("QLinear"), dequantized(define, 0), dequantized(define, 3))
    return quantized(define, made, 6)


def _softmax(define: Definition, x: ir.Value) -> ir.Value:
    """Return the Softmax along an axis; before opset 13 along all dims from that on."""
    axis = define.integer("axis", -1)
    if define.integer("opset", 13) >= 13:
        return define("Softmax", x, axis=axis)
    rows = define("Softmax", define("Flatten", x, axis=axis), axis=1)
    return define("Reshape", rows, define("Shape", x))


def _channels_first(define: Definition, x: ir.Value, op_type: str, *names: str) -> ir.Value:
    """Return what an operator on images computes, whose channels may be last."""
    if not define.integer("channels_last", 0):
        return define(op_type, x, **define.attributes(*names))
    inner = range(1, define.rank(0) - 1)
    first = define("Transpose", x, perm=[0, inner.stop, *inner])
    made = define(op_type, first, **define.attributes(*names))
    return define("Transpose", made, perm=[0, *(axis + 1 for axis in inner), 1])


_POOL: Final = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
_FUNCTIONS: Final[dict[str, Callable[[Definition, ir.Value], ir.Value]]] = {
    "QLinearAveragePool": lambda define, x: _channels_first(define, x, "AveragePool", *_POOL),
    "QLinearGlobalAveragePool": lambda define, x: _channels_first(define, x, "GlobalAveragePool"),
    "QLinearLeakyRelu": lambda define, x: define("LeakyRelu", x, **define.attributes("alpha")),
    "QLinearSigmoid": lambda define, x: define("Sigmoid", x),
    "QLinearSoftmax": _softmax,
}


@family.defines(*_FUNCTIONS)
def function(define: Definition) -> ir.Value:
    """``QLinearSigmoid(X, X_scale, X_zero_point, Y_scale, Y_zero_point) -> Y`` and others of one tensor."""
    return quantized(define, _FUNCTIONS[define.type](define, dequantized(define, 0)), 3)


@family.defines("QLinearConcat")
def concat(define: Definition) -> ir.Value:
    """``QLinearConcat(Y_scale, Y_zero_point, *(X, X_scale, X_zero_point); axis) -> Y``."""
    parts = [dequantized(define, i) for i in range(2, len(define.node.inputs), 3)]
    return quantized(define, define("Concat", *parts, axis=define.required("axis")), 0)


@family.defines("QLinearWhere")
def where(define: Definition) -> ir.Value:
    """``QLinearWhere(condition, X, x_scale, x_zero_point, Y, y_scale, y_zero_point, z_scale, z_zero_point) -> Z``."""
    return quantized(define, define("Where", define.input(0), dequantized(define, 1), dequantized(define, 4)), 7)


@family.defines("QGemm")
def gemm(define: Definition) -> ir.Value:
    """``QGemm(A, a_scale, a_zero_point, B, b_scale, b_zero_point, C, y_scale, y_zero_point; alpha, transA, transB)``.

    -> Y: quantized, or float without ``y_scale``. C are int32, in units of alpha * a_scale * b_scale.
    """
    scales = define("Mul", define.input(1), define.input(4))
    unit = define("Mul", scales, define.const(define.number("alpha", 1.0), ir.DataType.FLOAT))
    a, b = (_turned(define, i, name) for i, name in ((0, "transA"), (3, "transB")))
    total = define("MatMulInteger", a, b, define.optional(2), define.optional(5))
    y = define("Mul", define.cast(define.add(total, define.optional(6)), ir.DataType.FLOAT), unit)
    return quantized(define, y, 7) if define.has_input(7) else y


def _turned(define: Definition, index: int, name: str) -> ir.Value:
    operand = define.input(index)
    return define("Transpose", operand, perm=[1, 0]) if define.integer(name, 0) else operand


@family.defines("DynamicQuantizeMatMul")
def dynamic_mat_mul(define: Definition) -> ir.Value:
    """``DynamicQuantizeMatMul(A, B, b_scale, b_zero_point, bias) -> Y``: A quantized when the net runs."""
    a, scale, zero_point = define.several(3, "DynamicQuantizeLinear", define.input(0))
    total = define("MatMulInteger", a, define.input(1), zero_point, define.optional(3))
    return _scaled(define, total, define("Mul", scale, define.input(2)), 4)


@family.defines("MatMulIntegerToFloat")
def mat_mul_to_float(define: Definition) -> ir.Value:
    """``MatMulIntegerToFloat(A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias) -> Y``."""
    operands = [define.input(0), define.input(1), define.optional(4), define.optional(5)]
    return _scaled(define, define("MatMulInteger", *operands), define("Mul", define.input(2), define.input(3)), 6)


def _scaled(define: Definition, total: ir.Value, scale: ir.Value, bias: int) -> ir.Value:
    return define.add(define("Mul", define.cast(total, ir.DataType.FLOAT), scale), define.optional(bias))


def dequantized(define: Definition, index: int) -> ir.Value:
    """Return the numbers of a quantized operand, whose scale and zero point follow it."""
    return define("DequantizeLinear", *(define.optional(i) for i in range(index, index + 3)))


def quantized(define: Definition, x: ir.Value, index: int) -> ir.Value:
    """Return numbers quantized by a scale, operand ``index``, and the zero point behind it."""
    return define("QuantizeLinear", x, define.input(index), define.optional(index + 1))
