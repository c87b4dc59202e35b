"""Broadcasting for operators of Caffe2 that need operands of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.conversion import as_float, from_float
from caffe2_backend.emit.shapes import size_list
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import NARROW
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import BOOL, FLOAT16, INT32, INT64


def elementwise_max(op: Op, a: Value, b: Value) -> Value:
    """The larger of each two elements of values of one shape and any numeric type: Caffe2's Max is for floats only."""
    return op.emit("Where", a > b, a, b)


def elementwise_min(op: Op, a: Value, b: Value) -> Value:
    """The smaller of each two elements of values of one shape and any numeric type."""
    return op.emit("Where", a < b, a, b)


def broadcast(op: Op, values: Sequence[Value]) -> list[Value]:
    """Values in the shape that all of them broadcast to."""
    shapes = [op.shape(value) for value in values]
    if all(shape == shapes[0] and shape.is_static() for shape in shapes):
        return list(values)
    if all(shape.is_static() for shape in shapes):
        try:
            target = np.broadcast_shapes(*(tuple(shape.numpy()) for shape in shapes))
        except ValueError as error:
            op.unsupported(str(error), code="invalid-operands")
        return [
            value if tuple(shape.numpy()) == target else expand(op, value, op.const(target, INT64))
            for value, shape in zip(values, shapes, strict=True)
        ]
    common = _common_shape(op, values, shapes)
    return [expand(op, value, common) for value in values]


def _common_shape(op: Op, values: Sequence[Value], shapes: Sequence[ir.Shape]) -> Value:
    """The shape that values broadcast to, int64 [rank]: the largest of the dims of each axis."""
    rank = max(map(len, shapes))
    padded = [
        size_list(op, [*[1] * (rank - len(shape)), op.emit("Shape", value)])
        for value, shape in zip(values, shapes, strict=True)
        if len(shape)
    ]
    return reduce(lambda a, b: elementwise_max(op, a, b), padded)


def expand(op: Op, value: Value, shape: Value) -> Value:
    """A value broadcast with a shape, int64 [n]."""
    if value.dtype in (BOOL, *NARROW):
        return expand(op, value.cast(INT32), shape).cast(value.dtype)
    if value.dtype == FLOAT16:
        return from_float(op, expand(op, as_float(op, value), shape), FLOAT16)
    return op.emit("Expand", value, shape)
