"""Evaluate arithmetic operators of init nets with NumPy, in the element type of their inputs as Caffe2 does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from caffe2_bridge.init.fill import FillError
from caffe2_bridge.init.operand import Evaluate, aligned, axis_of, require_inputs, require_numbers
from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.netdef.views import OpView


def _unary(function: Callable[[Array], Any], kinds: str = "f") -> Evaluate:
    def run(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
        require_inputs(inputs, 1)
        (x,) = inputs
        if x.dtype.kind not in kinds:
            raise FillError(f"{op.type} has no {x.dtype.name} version")
        with np.errstate(all="ignore"):
            return (np.asarray(function(x), x.dtype),)

    return run


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _binary(function: Callable[[Array, Array], Any], *, compares: bool = False) -> Evaluate:
    def run(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
        require_inputs(inputs, 2)
        require_numbers(inputs)
        a, b = aligned(op, *inputs)
        with np.errstate(all="ignore"):
            return (np.asarray(function(a, b), np.bool_ if compares else a.dtype),)

    return run


def _divide(a: Array, b: Array) -> Array:
    """Divide; integers are truncated toward zero, as in C."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    if not b.all():
        raise FillError("the operator must not divide an integer by zero")
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) == (b < 0), quotient, -quotient)


def _logical(function: Callable[..., Any], count: int) -> Evaluate:
    def run(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
        require_inputs(inputs, count)
        if any(x.dtype.kind != "b" for x in inputs):
            raise FillError("the inputs must be bool")
        operands = aligned(op, inputs[0], inputs[1]) if count == 2 else tuple(inputs)
        return (np.asarray(function(*operands)),)

    return run


def _variadic(function: Callable[[Array, Array], Any]) -> Evaluate:
    def run(_: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
        if not inputs:
            raise FillError("the operator must have at least one input")
        require_numbers(inputs)
        if len({x.shape for x in inputs}) > 1:
            raise FillError("the inputs must have one shape")
        return (np.asarray(reduce(function, inputs), inputs[0].dtype),)

    return run


def _power(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 1, 2)
    if inputs[0].dtype.kind != "f":
        raise FillError(f"Pow has no {inputs[0].dtype.name} version")
    if len(inputs) == 1:
        a, b = inputs[0], np.asarray(op.args.number("exponent"), inputs[0].dtype)
    else:
        a, b = aligned(op, inputs[0], inputs[1])
        if a.shape != b.shape and not op.args.flag("broadcast", default=False):
            raise FillError(f"inputs of shapes {list(a.shape)} and {list(b.shape)} require the argument broadcast=1")
    with np.errstate(all="ignore"):
        return (np.asarray(np.power(a, b.astype(a.dtype)), a.dtype),)


def _clip(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 1)
    low, high = (op.args.number(name, default=end) for name, end in (("min", -np.inf), ("max", np.inf)))
    return (np.clip(inputs[0], low, high).astype(inputs[0].dtype),)


def _scale(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 1)
    return ((inputs[0] * np.float32(op.args.number("scale", default=1.0))).astype(inputs[0].dtype),)


def _where(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 3)
    condition, a, b = inputs
    if op.args.flag("broadcast_on_rows", default=False) and condition.shape == a.shape[:1]:
        condition = np.broadcast_to(condition.reshape(-1, *(1,) * (a.ndim - 1)), a.shape)
    if condition.dtype.kind != "b" or not condition.shape == a.shape == b.shape or a.dtype != b.dtype:
        raise FillError("the inputs must be a bool condition and two values of its shape and of one type")
    return (np.where(condition, a, b),)


def _reduce(function: Callable[..., Any]) -> Evaluate:
    def run(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
        require_inputs(inputs, 1)
        require_numbers(inputs)
        (x,) = inputs
        axes = tuple(axis_of(axis, x.ndim) for axis in op.args.integers("axes", default=tuple(range(x.ndim))))
        keeps = op.args.flag("keepdims", default=True)
        return (np.asarray(function(x, axis=axes, keepdims=keeps), x.dtype),)

    return run


def _matmul(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """``MatMul(A, B, [like]; axis_a=1, axis_b=1, trans_a, trans_b) -> Y``: operands are flattened before the axes.

    With a third input Y has its shape.
    """
    require_inputs(inputs, 2, 3)
    require_numbers(inputs[:2])
    matrices = []
    for x, letter in zip(inputs, "ab", strict=False):
        axis = axis_of(op.args.integer(f"axis_{letter}", default=1), x.ndim)
        matrix = x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
        matrices.append(matrix.T if op.args.flag(f"trans_{letter}", default=False) else matrix)
    result = np.matmul(*matrices)
    return (result.reshape(inputs[2].shape) if len(inputs) > 2 else result,)


def _batch_matmul(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 2)
    require_numbers(inputs)
    a, b = (
        x.swapaxes(-1, -2) if x.ndim > 1 and op.args.flag(f"trans_{letter}", default=False) else x
        for x, letter in zip(inputs, "ab", strict=True)
    )
    return (np.atleast_1d(np.matmul(a, b)),)


MATH: Final[Mapping[str, Evaluate]] = MappingProxyType({
    "Abs": _unary(np.abs), "Ceil": _unary(np.ceil), "Cos": _unary(np.cos), "Exp": _unary(np.exp),
    "Floor": _unary(np.floor), "Log": _unary(np.log), "Negative": _unary(np.negative, "fi"),
    "Reciprocal": _unary(np.reciprocal), "Relu": _unary(lambda x: np.maximum(x, 0)), "Round": _unary(np.rint),
    "Sigmoid": _unary(_sigmoid), "Sin": _unary(np.sin), "Sqr": _unary(np.square), "Sqrt": _unary(np.sqrt),
    "Tanh": _unary(np.tanh),
    "Add": _binary(np.add), "Sub": _binary(np.subtract), "Mul": _binary(np.multiply), "Div": _binary(_divide),
    "EQ": _binary(np.equal, compares=True), "NE": _binary(np.not_equal, compares=True),
    "GE": _binary(np.greater_equal, compares=True), "GT": _binary(np.greater, compares=True),
    "LE": _binary(np.less_equal, compares=True), "LT": _binary(np.less, compares=True),
    "And": _logical(np.logical_and, 2), "Or": _logical(np.logical_or, 2), "Xor": _logical(np.logical_xor, 2),
    "Not": _logical(np.logical_not, 1),
    "Max": _variadic(np.maximum), "Min": _variadic(np.minimum), "Sum": _variadic(np.add),
    "ReduceMax": _reduce(np.max), "ReduceMean": _reduce(np.mean), "ReduceMin": _reduce(np.min),
    "ReduceSum": _reduce(np.sum),
    "BatchMatMul": _batch_matmul, "Clip": _clip, "MatMul": _matmul, "Pow": _power, "Scale": _scale, "Where": _where,
})  # fmt: skip
