"""Arithmetic on values and Python numbers; a number becomes a constant of the other operand's element type."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.lowering.op import Op, Value

Operand = Value | float


def binary(op: Op, op_type: str, a: Operand, b: Operand) -> Value:
    """Emit a binary node. At most one operand may be a number. Raises TypeError if both are."""
    if not isinstance(a, Value):
        if not isinstance(b, Value):
            raise TypeError("one operand must be a value")
        return op.emit(op_type, op.const(a, b), b)
    return op.emit(op_type, a, b if isinstance(b, Value) else op.const(b, a))


def add(op: Op, a: Operand, *others: Operand) -> Value:
    """Return the sum of the operands, associated to the left. Raises TypeError if none is a value."""
    return _fold(op, "Add", a, others)


def mul(op: Op, a: Operand, *others: Operand) -> Value:
    """Return the product of the operands, associated to the left. Raises TypeError if none is a value."""
    return _fold(op, "Mul", a, others)


def sub(op: Op, a: Operand, b: Operand) -> Value:
    """Return ``a - b``."""
    return binary(op, "Sub", a, b)


def div(op: Op, a: Operand, b: Operand) -> Value:
    """Return ``a / b``; integer quotients are truncated towards zero."""
    return binary(op, "Div", a, b)


def reciprocal(number: float) -> float:
    """Return ``1 / number`` in float32, as Caffe2 computes it of an argument: infinite for 0."""
    with np.errstate(divide="ignore", over="ignore"):
        return float(np.float32(1) / np.float32(number))


def square(op: Op, x: Value) -> Value:
    """Return ``x * x``."""
    return op.emit("Mul", x, x)


def sqrt(op: Op, x: Value) -> Value:
    """Return the square root of every element."""
    return op.emit("Sqrt", x)


def blend(op: Op, old: Value, new: Value, keep: float) -> Value:
    """Return ``keep * old + (1 - keep) * new``."""
    return add(op, mul(op, old, keep), mul(op, new, 1.0 - keep))


def negative_log(op: Op, x: Value, floor: float) -> Value:
    """Return ``-log(max(x, floor))``: finite where a probability is 0."""
    return op.emit("Neg", op.emit("Log", binary(op, "Max", x, floor)))


def total(op: Op, x: Value) -> Value:
    """Return the sum of all elements, [] (a scalar)."""
    return op.emit("ReduceSum", x, keepdims=0, shape=[])


def scalar(op: Op, x: Value) -> Value:
    """Return ``x``, which has one element, as a scalar []."""
    if x.shape is not None and len(x.shape) == 0:
        return x
    return op.emit("Reshape", x, op.const(np.array([], np.int64)), shape=[])


def reshape_like(op: Op, x: Value, like: Value) -> Value:
    """Return ``x`` reshaped to the shape of ``like``, which must have as many elements, or like ``x`` none."""
    if x is like or (x.shape is not None and like.shape is not None and known_equal(x.shape, like.shape)):
        return x
    allow_zero = None if _keeps_zeros(x.shape, like.shape) else 1
    return op.emit("Reshape", x, op.emit("Shape", like), allowzero=allow_zero, shape=like.shape)


def aligned(op: Op, x: Value, like: Value) -> Value:
    """Return ``x`` in the shape of ``like`` where the ranks differ, for operands whose sizes alone Caffe2 compares."""
    return x if op.rank(x) == op.rank(like) else reshape_like(op, x, like)


def _keeps_zeros(before: ir.Shape | None, after: ir.Shape | None) -> bool:
    """Whether every dim after a reshape is positive or equal to that before, which ONNX's Reshape copies for a 0."""
    if after is None:
        return False
    own = (*(() if before is None else before), *[None] * len(after))
    return all(
        dim > 0 if isinstance(dim, int) else dim.value is not None and dim == here
        for dim, here in zip(after, own, strict=False)
    )


def known_equal(a: ir.Shape, b: ir.Shape) -> bool:
    """Whether two shapes are known to be equal; dims without size and name never are."""
    return len(a) == len(b) and all(
        x == y and (isinstance(x, int) or x.value is not None) for x, y in zip(a, b, strict=True)
    )


def _fold(op: Op, op_type: str, first: Operand, others: tuple[Operand, ...]) -> Value:
    result = first
    for other in others:
        result = binary(op, op_type, result, other)
    if not isinstance(result, Value):
        raise TypeError("one operand must be a value")
    return result
