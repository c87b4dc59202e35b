"""Tensors that hold one value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.shapes import Size, size_list
from caffe2_backend.emit.unsigned import bits_of
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import NARROW, UNSIGNED
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import BOOL, DOUBLE, FLOAT, FLOAT16, INT32, INT64


def full(op: Op, sizes: Sequence[Size], dtype: ir.DataType, value: Value | float) -> Value:
    """Return a tensor of the given sizes, filled with a number or with the one element of a value of its type."""
    if dtype == FLOAT16:
        inner = op.widen(value) if isinstance(value, Value) else value
        return op.narrow(full(op, sizes, FLOAT, inner), FLOAT16)
    if dtype == DOUBLE:
        return _full_of_double(op, sizes, value)
    if dtype in UNSIGNED:
        inner = bits_of(op, value) if isinstance(value, Value) else _signed(int(value), dtype.bitwidth)
        return full(op, sizes, UNSIGNED[dtype], inner)
    if dtype in NARROW:
        inner = value.cast(INT32) if isinstance(value, Value) else value
        return full(op, sizes, INT32, inner).cast(dtype)
    if dtype not in (FLOAT, INT32, INT64, BOOL):
        op.unsupported(f"Caffe2 has no fill of {dtype.name.lower()}", code="dtype")
    number = 0 if isinstance(value, Value) else value
    plain: float = float(number) if dtype == FLOAT else int(number)
    filled = op.emit("ConstantFill", size_list(op, sizes), input_as_shape=1, dtype=dtype, value=plain)
    if not isinstance(value, Value):
        return filled
    return filled | value.reshape([1]) if dtype == BOOL else filled + value.reshape([1])


def _full_of_double(op: Op, sizes: Sequence[Size], value: Value | float) -> Value:
    if not isinstance(value, Value) and _is_single(value):
        return full(op, sizes, FLOAT, value).cast(DOUBLE)
    held = value.reshape([1]) if isinstance(value, Value) else op.const([value], DOUBLE)
    return full(op, sizes, FLOAT, 0).cast(DOUBLE) + held


def _is_single(number: float) -> bool:
    """Whether a number has the same value in single precision."""
    with np.errstate(over="ignore"):
        return bool(np.float32(number) == number)


def _signed(number: int, width: int) -> int:
    """Return the signed integer of the same bits."""
    return number - (1 << width) if number >= 1 << (width - 1) else number


def zeros_like(op: Op, value: Value, dtype: ir.DataType) -> Value:
    """Return zeros of the shape of a value."""
    if dtype == DOUBLE:
        return zeros_like(op, value, FLOAT).cast(DOUBLE)
    if dtype == FLOAT16:
        return op.narrow(zeros_like(op, value, FLOAT), FLOAT16)
    if dtype in NARROW:
        return zeros_like(op, value, INT32).cast(dtype)
    return op.emit("ConstantFill", value, dtype=dtype, value=0.0 if dtype == FLOAT else 0)
