"""Activations, alone and behind the operators that onnxruntime fused them with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import MICROSOFT, Family

family = Family(MICROSOFT)


@family.defines("Gelu")
def gelu(define: Definition) -> ir.Value:
    """``Gelu(X) -> Y``: X * Phi(X)."""
    return define("Gelu", define.input(0))


@family.defines("BiasGelu")
def bias_gelu(define: Definition) -> ir.Value:
    """``BiasGelu(A, B) -> C``: Gelu(A + B)."""
    return define("Gelu", define("Add", define.input(0), define.input(1)))


@family.defines("FastGelu")
def fast_gelu(define: Definition) -> ir.Value:
    """``FastGelu(X, bias=0) -> Y``: Gelu(X + bias), approximated by tanh."""
    return define("Gelu", define.add(define.input(0), define.optional(1)), approximate="tanh")


@family.defines("QuickGelu")
def quick_gelu(define: Definition) -> ir.Value:
    """``QuickGelu(X; alpha=1.702) -> Y``: X * sigmoid(alpha * X)."""
    x = define.input(0)
    scaled = define("Mul", x, define.like(define.number("alpha", 1.702), x))
    return define("Mul", x, define("Sigmoid", scaled))


_CONV: Final = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


@family.defines("FusedConv")
def fused_conv(define: Definition) -> ir.Value:
    """``FusedConv(X, W, B=0, Z=0; activation, activation_params, ...) -> Y``: activation(Conv(X, W, B) + Z)."""
    operands = [define.input(0), define.input(1), define.optional(2)]
    y = define.add(define("Conv", *operands, **define.attributes(*_CONV)), define.optional(3))
    given = define.attributes("activation_params").get("activation_params", ())
    return activated(define, y, define.text("activation", ""), list(given))


@family.defines("FusedGemm")
def fused_gemm(define: Definition) -> ir.Value:
    """``FusedGemm(A, B, C; activation, activation_alpha, activation_beta, ...) -> Y``: activation(Gemm(A, B, C))."""
    operands = [define.input(0), define.input(1), define.optional(2)]
    y = define("Gemm", *operands, **define.attributes("alpha", "beta", "transA", "transB"))
    given = define.attributes("activation_alpha", "activation_beta")
    return activated(define, y, define.text("activation", ""), list(given.values()))


def activated(define: Definition, x: ir.Value, name: str, parameters: list[float]) -> ir.Value:
    """Return an activation by name, with its parameters in order."""
    if not name:
        return x
    made = _ACTIVATIONS.get(name)
    return define.undefined() if made is None else made(define, x, parameters)


def _plain(op_type: str, *names: str) -> Callable[[Definition, ir.Value, list[float]], ir.Value]:
    return lambda define, x, parameters: define(op_type, x, **dict(zip(names, parameters, strict=False)))


def _clip(define: Definition, x: ir.Value, parameters: list[float]) -> ir.Value:
    return define("Clip", x, *(define.const(bound, ir.DataType.FLOAT) for bound in parameters))


_ACTIVATIONS: Final[dict[str, Callable[[Definition, ir.Value, list[float]], ir.Value]]] = {
    "Clip": _clip,
    "Elu": _plain("Elu", "alpha"),
    "HardSigmoid": _plain("HardSigmoid", "alpha", "beta"),
    "LeakyRelu": _plain("LeakyRelu", "alpha"),
    "Relu": _plain("Relu"),
    "Sigmoid": _plain("Sigmoid"),
    "Tanh": _plain("Tanh"),
}
