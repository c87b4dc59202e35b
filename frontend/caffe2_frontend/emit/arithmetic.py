"""Arithmetic on values and numbers: a number takes the element type of the value that it meets."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.lowering.op import Op, Value

Operand = Value | float


def binary(op: Op, op_type: str, a: Operand, b: Operand) -> Value:
    """Emit a binary node; one of the operands may be a number."""
    if not isinstance(a, Value):
        if not isinstance(b, Value):
            raise TypeError("one operand has to be a value")
        return op.emit(op_type, op.const(a, b), b)
    return op.emit(op_type, a, b if isinstance(b, Value) else op.const(b, a))


def add(op: Op, a: Operand, *others: Operand) -> Value:
    """The sum, from the left."""
    return _fold(op, "Add", a, others)


def mul(op: Op, a: Operand, *others: Operand) -> Value:
    """The product, from the left."""
    return _fold(op, "Mul", a, others)


def sub(op: Op, a: Operand, b: Operand) -> Value:
    """``a - b``."""
    return binary(op, "Sub", a, b)


def div(op: Op, a: Operand, b: Operand) -> Value:
    """``a / b``; of integers, the quotient rounded towards zero."""
    return binary(op, "Div", a, b)


def square(op: Op, x: Value) -> Value:
    """``x * x``."""
    return op.emit("Mul", x, x)


def sqrt(op: Op, x: Value) -> Value:
    """The square root."""
    return op.emit("Sqrt", x)


def blend(op: Op, old: Value, new: Value, keep: float) -> Value:
    """``keep * old + (1 - keep) * new``."""
    return add(op, mul(op, old, keep), mul(op, new, 1.0 - keep))


def negative_log(op: Op, x: Value, floor: float) -> Value:
    """``-log(max(x, floor))``: finite where a probability is 0."""
    return op.emit("Neg", op.emit("Log", binary(op, "Max", x, floor)))


def total(op: Op, x: Value) -> Value:
    """The sum of all elements, a scalar."""
    return op.emit("ReduceSum", x, keepdims=0, shape=[])


def scalar(op: Op, x: Value) -> Value:
    """The one element of ``x``, as a scalar."""
    if x.shape is not None and len(x.shape) == 0:
        return x
    return op.emit("Reshape", x, op.const(np.array([], np.int64)), shape=[])


def of_shape(op: Op, x: Value, like: Value) -> Value:
    """``x``, which has as many elements as ``like``, in its shape."""
    if x is like or (x.shape is not None and like.shape is not None and _same(x.shape, like.shape)):
        return x
    return op.emit("Reshape", x, op.emit("Shape", like), shape=like.shape)


def _fold(op: Op, op_type: str, first: Operand, others: tuple[Operand, ...]) -> Value:
    result = first
    for other in others:
        result = binary(op, op_type, result, other)
    if not isinstance(result, Value):
        raise TypeError("one operand has to be a value")
    return result


def _same(a: ir.Shape, b: ir.Shape) -> bool:
    """Whether two shapes are known to be equal: unknown dims are not."""
    return len(a) == len(b) and all(
        x == y and (isinstance(x, int) or x.value is not None) for x, y in zip(a, b, strict=True)
    )
