"""Operators on quantized tensors between DequantizeLinear and QuantizeLinear, of which Int8 operators are made."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import MICROSOFT, Family
from caffe2_backend.definitions.quantized import quantized

family = Family("")
contributed = Family(MICROSOFT)


@family.defines("QLinearConv")
def convolution(define: Definition) -> ir.Value:
    """``QLinearConv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, B=0; ...) -> y``."""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    operands = [_floats(define, 0), _floats(define, 3, axis=0), _bias(define, 8, (1, 4))]
    return quantized(define, define("Conv", *operands, **define.attributes(*names)), 6)


@family.defines("QLinearMatMul")
def mat_mul(define: Definition) -> ir.Value:
    """``QLinearMatMul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero) -> y``."""
    columns = define.rank(3) - 1
    return quantized(define, define("MatMul", _floats(define, 0), _floats(define, 3, axis=columns)), 6)


@contributed.defines("QGemm")
def gemm(define: Definition) -> ir.Value:
    """``QGemm(A, a_scale, a_zero, B, b_scale, b_zero, C, y_scale, y_zero; alpha=1, transA=0, transB=0) -> Y``."""
    turned = define.integer("transB", 0)
    operands = [_floats(define, 0), _floats(define, 3, axis=0 if turned else 1), _bias(define, 6, (1, 4))]
    if define.has_input(6) and define.number("alpha", 1.0) != 1:
        define.undefined()
    made = define("Gemm", *operands, **define.attributes("alpha", "transA", "transB"))
    return quantized(define, made, 7) if define.has_input(7) else made


def _floats(define: Definition, index: int, *, axis: int = 1) -> ir.Value:
    """Return the numbers of an operand, whose scale and zero point follow it."""
    parameters = [None if define.optional(i) is None else _number(define, i) for i in (index + 1, index + 2)]
    return define("DequantizeLinear", define.input(index), *parameters, axis=axis)


def _number(define: Definition, index: int) -> ir.Value:
    """Return a scale or a zero point, which may be a list of one."""
    value = define.input(index)
    return define("Squeeze", value) if define.dims(index) == [1] else value


def _bias(define: Definition, index: int, scales: tuple[int, int]) -> ir.Value | None:
    """Return the numbers of biases in units of the product of two scales."""
    if not define.has_input(index):
        return None
    unit = define("Mul", *(_number(define, i) for i in scales))
    return define("DequantizeLinear", define.input(index), unit, axis=0)
