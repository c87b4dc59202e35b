"""Broadcasting for operators of Caffe2 that need operands of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.conversion import as_float, from_float
from caffe2_backend.emit.fill import full
from caffe2_backend.emit.shapes import size_list
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import NARROW
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import BOOL, FLOAT16, INT32, INT64


def elementwise_max(op: Op, a: Value, b: Value) -> Value:
    """Return the larger of each two elements of values of one shape, any numbers: Caffe2's Max is for floats only."""
    if a.array is not None and b.array is not None:
        return op.const(np.maximum(a.array, b.array), a.dtype)
    return op.emit("Where", a > b, a, b)


def elementwise_min(op: Op, a: Value, b: Value) -> Value:
    """Return the smaller of each two elements of values of one shape and any numeric type."""
    if a.array is not None and b.array is not None:
        return op.const(np.minimum(a.array, b.array), a.dtype)
    return op.emit("Where", a < b, a, b)


def broadcast(op: Op, values: Sequence[Value]) -> list[Value]:
    """Return values in the shape that all of them broadcast to."""
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
    ones: dict[ir.DataType, Value] = {}
    return [_expanded(op, value, common, ones) for value in values]


def _common_shape(op: Op, values: Sequence[Value], shapes: Sequence[ir.Shape]) -> Value:
    """Return the shape that values broadcast to, int64 [rank]: of each axis the dim that is not 1, which may be 0."""
    rank = max(map(len, shapes))
    padded = [
        size_list(op, [*[1] * (rank - len(shape)), op.emit("Shape", value)])
        for value, shape in zip(values, shapes, strict=True)
        if len(shape)
    ]
    return reduce(lambda a, b: op.emit("Where", a.equals(1), b, a), padded)


def expand(op: Op, value: Value, shape: Value) -> Value:
    """Return a value broadcast with a shape, int64 [n].

    Caffe2's Expand reads a dim of 0 as 1, and refuses values without elements; its And and Mul broadcast these, too.
    """
    return _expanded(op, value, shape, {})


def _expanded(op: Op, value: Value, shape: Value, ones: dict[ir.DataType, Value]) -> Value:
    """See :func:`expand`. ``ones`` has tensors of the shape by element type."""
    number = op.known(value)
    if number is not None and not number.ndim:
        return full(op, [shape], value.dtype, number.item())
    has_elements = _has_elements(op, value, shape)

    def grown(own: Value) -> Value:
        if has_elements:
            return op.emit("Expand", own, shape)
        if own.dtype not in ones:
            ones[own.dtype] = full(op, [shape], own.dtype, 1)
        return own & ones[own.dtype] if own.dtype == BOOL else own * ones[own.dtype]

    if value.dtype in NARROW or (has_elements and value.dtype == BOOL):  # Expand is for numbers
        return grown(value.cast(INT32)).cast(value.dtype)
    if value.dtype == FLOAT16:
        return from_float(op, grown(as_float(op, value)), FLOAT16)
    return grown(value)


def _has_elements(op: Op, value: Value, shape: Value) -> bool:
    """Whether a value and a shape are known, and have no dim of 0."""
    known = op.known(shape)
    if known is None or value.shape is None or not value.shape.is_static():
        return False
    return bool(known.all()) and 0 not in value.shape.numpy()
