"""Gradients of functions of one operand, element by element: the gradient of the result times the derivative."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, binary, div, mul, sqrt, square, sub
from caffe2_frontend.emit.broadcast import paired_operands
from caffe2_frontend.emit.operand_checks import NUMBERS, SINGLE
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("math_gradient")

_FLOATS: Final = {0: TensorInfo(ir.DataType.FLOAT), 1: TensorInfo(ir.DataType.FLOAT)}


def _acos(op: Op, x: Value) -> Value:
    return div(op, -1.0, _cosine_of_arc(op, x))


def _asin(op: Op, x: Value) -> Value:
    return div(op, 1.0, _cosine_of_arc(op, x))


def _cosine_of_arc(op: Op, x: Value) -> Value:
    return sqrt(op, sub(op, 1.0, square(op, x)))


def _atan(op: Op, x: Value) -> Value:
    return div(op, 1.0, add(op, square(op, x), 1.0))


def _erf(op: Op, x: Value) -> Value:
    return mul(op, op.emit("Exp", op.emit("Neg", square(op, x))), 2.0 / math.sqrt(math.pi))


def _softsign(op: Op, x: Value) -> Value:
    return div(op, 1.0, square(op, add(op, op.emit("Abs", x), 1.0)))


# The derivative where the operands are (X, dY); of the reciprocal (Y, dY).
_FIRST: Final[dict[str, Callable[[Op, Value], Value]]] = {
    "AcosGradient": _acos,
    "AsinGradient": _asin,
    "AtanGradient": _atan,
    "CosGradient": lambda op, x: op.emit("Neg", op.emit("Sin", x)),
    "ErfGradient": _erf,
    "Log1pGradient": lambda op, x: div(op, 1.0, add(op, x, 1.0)),
    "ReciprocalGradient": lambda op, y: op.emit("Neg", square(op, y)),
    "SinGradient": lambda op, x: op.emit("Cos", x),
    "SoftsignGradient": _softsign,
    "TanGradient": lambda op, x: div(op, 1.0, square(op, op.emit("Cos", x))),
}
# The derivative where the operands are (dY, Y); of Sinh (dY, X).
_SECOND: Final[dict[str, Callable[[Op, Value], Value]]] = {
    "CbrtGradient": lambda op, y: div(op, 1.0 / 3.0, square(op, y)),
    "RsqrtGradient": lambda op, y: mul(op, binary(op, "Pow", y, 3.0), -0.5),
    "SinhGradient": lambda op, x: op.emit("Cosh", x),
}


@family.converts(*_FIRST, expects=_FLOATS)
def from_first_operand(op: Op) -> Value:
    """AcosGradient(X, dY) -> dX, and likewise for Asin, Atan, Cos, Erf, Log1p, Sin, Softsign and Tan.

    ReciprocalGradient(Y, dY) -> dX takes the result.
    """
    x, dy = paired_operands(op, 0, 1, SINGLE)
    return mul(op, dy, _FIRST[op.type](op, x))


@family.converts("AbsGradient", expects=_FLOATS)
def abs_gradient(op: Op) -> Value:
    """AbsGradient(X, dY) -> dX: dY where X is positive, 0 where it is 0, and else -dY."""
    x, dy = paired_operands(op, 0, 1, SINGLE)
    signed = op.emit("Where", binary(op, "Greater", x, 0.0), dy, op.emit("Neg", dy))
    return op.emit("Where", binary(op, "Equal", x, 0.0), op.const(0.0, dy), signed)


@family.converts(*_SECOND, expects=_FLOATS)
def from_second_operand(op: Op) -> Value:
    """CbrtGradient(dY, Y) | RsqrtGradient(dY, Y) | SinhGradient(dY, X) -> dX."""
    dy, y = paired_operands(op, 0, 1, SINGLE)
    return mul(op, dy, _SECOND[op.type](op, y))


@family.converts("CoshGradient", expects=_FLOATS)
def cosh_gradient(op: Op) -> Value:
    """CoshGradient(dY, X) -> dX, of exponentials, which overflow before Sinh does."""
    dy, x = paired_operands(op, 0, 1, SINGLE)
    return mul(op, dy, op.emit("Sub", op.emit("Exp", x), op.emit("Exp", op.emit("Neg", x))), 0.5)


@family.converts("CubeGradient", expects=_FLOATS)
def cube_gradient(op: Op) -> Value:
    """CubeGradient(dY, X) -> dX, of any type of number."""
    dy, x = paired_operands(op, 0, 1, NUMBERS)
    return mul(op, dy, mul(op, square(op, x), 3))
