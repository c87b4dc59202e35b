"""Optimizers of ``ai.onnx.preview.training``: one step, by the formulas of ONNX's specification."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import Family

family = Family("ai.onnx.preview.training")


def _tensors(define: Definition, states: int) -> list[list[ir.Value]]:
    """Return the operands behind the rate and the step: for each tensor itself, its gradient and its states."""
    count = (len(define.node.inputs) - 2) // (2 + states)
    return [[define.input(2 + i + kind * count) for kind in range(2 + states)] for i in range(count)]


def _number(define: Definition, value: float) -> ir.Value:
    return define.const(value, ir.DataType.FLOAT)


def _regularized(define: Definition, x: ir.Value, gradient: ir.Value) -> ir.Value:
    """Return norm_coefficient * X + G."""
    norm = _number(define, define.number("norm_coefficient", 0.0))
    return define("Add", define("Mul", norm, x), gradient)


def _mixed(define: Definition, old: ir.Value, new: ir.Value, share: float) -> ir.Value:
    """Return the sum of a share of the old value and the rest of the new one."""
    kept, added = (_number(define, part) for part in (share, 1 - share))
    return define("Add", define("Mul", kept, old), define("Mul", added, new))


def _in_order(made: list[list[ir.Value]]) -> list[ir.Value]:
    """Return all new tensors, then the new states, one kind after the other."""
    return [value for kind in zip(*made, strict=True) for value in kind]


@family.defines("Adagrad")
def adagrad(define: Definition) -> list[ir.Value]:
    """``Adagrad(R, T, *X, *G, *H; decay_factor=0, epsilon=1e-6, norm_coefficient=0) -> *X, *H``."""
    step = define.cast(define.input(1), ir.DataType.FLOAT)
    decay = define("Mul", step, _number(define, define.number("decay_factor", 0.0)))
    rate = define("Div", define.input(0), define("Add", decay, _number(define, 1.0)))
    made = []
    for x, gradient, squares in _tensors(define, 1):
        change = _regularized(define, x, gradient)
        total = define("Add", squares, define("Mul", change, change))
        root = define("Add", define("Sqrt", total), _number(define, define.number("epsilon", 1e-6)))
        made.append([define("Sub", x, define("Div", define("Mul", rate, change), root)), total])
    return _in_order(made)


@family.defines("Momentum")
def momentum(define: Definition) -> list[ir.Value]:
    """``Momentum(R, T, *X, *G, *V; alpha, beta, mode, norm_coefficient) -> *X, *V``; in step 0 beta is 1."""
    rate = define.input(0)
    alpha = _number(define, define.number("alpha", 0.0))
    is_later = define("Greater", define.input(1), define.const(0))
    beta = define("Where", is_later, _number(define, define.number("beta", 1.0)), _number(define, 1.0))
    made = []
    for x, gradient, speed in _tensors(define, 1):
        change = _regularized(define, x, gradient)
        after = define("Add", define("Mul", alpha, speed), define("Mul", beta, change))
        if define.text("mode", "standard") == "nesterov":
            change = define("Add", change, define("Mul", alpha, after))
        else:
            change = after
        made.append([define("Sub", x, define("Mul", rate, change)), after])
    return _in_order(made)


@family.defines("Adam")
def adam(define: Definition) -> list[ir.Value]:
    """``Adam(R, T, *X, *G, *V, *H; alpha=0.9, beta=0.999, epsilon, norm_coefficient, ...) -> *X, *V, *H``.

    The rate of a step after the first is corrected by the powers of alpha and beta.
    """
    alpha, beta = define.number("alpha", 0.9), define.number("beta", 0.999)
    epsilon = _number(define, define.number("epsilon", 1e-6))
    shrink = _number(define, 1 - define.number("norm_coefficient_post", 0.0))
    rate = _corrected(define, alpha, beta)
    made = []
    for x, gradient, mean, square in _tensors(define, 2):
        change = _regularized(define, x, gradient)
        first = _mixed(define, mean, change, alpha)
        second = _mixed(define, square, define("Mul", change, change), beta)
        root = define("Add", define("Sqrt", second), epsilon)
        after = define("Sub", x, define("Div", define("Mul", rate, first), root))
        made.append([define("Mul", shrink, after), first, second])
    return _in_order(made)


def _corrected(define: Definition, alpha: float, beta: float) -> ir.Value:
    """Return R * sqrt(1 - beta ^ T) / (1 - alpha ^ T), in step 0 R."""
    rate, one = define.input(0), _number(define, 1.0)
    step = define.cast(define.input(1), ir.DataType.FLOAT)
    is_later = define("Greater", step, _number(define, 0.0))
    of_beta, of_alpha = (define("Sub", one, define("Pow", _number(define, base), step)) for base in (beta, alpha))
    factor = define("Div", define("Sqrt", of_beta), define("Where", is_later, of_alpha, one))
    return define("Where", is_later, define("Mul", rate, factor), rate)
