"""Operands in the element types that Caffe2 computes with, and results in their own types again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import onnx_ir as ir

from caffe2_backend.emit.unsigned import bits_of, flipped
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import NARROW, NUMBERS, STRING
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import BOOL, FLOAT, INT32

_UINT64: Final = ir.DataType.UINT64


def computable(op: Op, value: Value, accepted: Sequence[ir.DataType] = NUMBERS) -> Value:
    """Return an operand in an accepted type: narrow integers as int32, float16 as float.

    Narrow integers are floats where int32 is not accepted; :func:`cast_back` then converts the result back.
    """
    if op.dtype(value) in NARROW and INT32 not in accepted and FLOAT in accepted:
        return value.cast(FLOAT)
    return op.require(value, *accepted)


def cast_back(op: Op, result: Value, operand: Value) -> Value:
    """Return the result of a computation in the element type of the operand that :func:`computable` converted."""
    dtype = op.dtype(operand)
    return result.cast(dtype) if dtype in NARROW else result


def wrapping(op: Op, value: Value) -> Value:
    """Return an operand of computations that are the same for signed integers and unsigned ones of the same bits."""
    return bits_of(op, value) if op.dtype(value) == _UINT64 else computable(op, value)


def ordered(op: Op, value: Value) -> Value:
    """Return an operand of comparisons, in a type that Caffe2 compares and in the order of the numbers."""
    return flipped(bits_of(op, value)) if op.dtype(value) == _UINT64 else computable(op, value)


def of_ordered(op: Op, result: Value, operand: Value) -> Value:
    """Return the elements chosen among operands that :func:`ordered` converted, in the element type of the operand."""
    return flipped(result) if op.dtype(operand) == _UINT64 else cast_back(op, result, operand)


def selectable(op: Op, value: Value) -> Value:
    """Return an operand that is moved and not computed with, in a type that Caffe2's Where takes."""
    return value if op.dtype(value) in (BOOL, STRING) else computable(op, bits_of(op, value))


def as_float(op: Op, value: Value) -> Value:
    """Return a value of float, float16, bool or a narrow integer type as float, which holds each of them exactly."""
    return op.widen(value) if value.dtype == ir.DataType.FLOAT16 else value.cast(FLOAT)


def from_float(op: Op, value: Value, dtype: ir.DataType) -> Value:
    """Return what :func:`as_float` converted, in its own element type again."""
    return value if dtype == FLOAT else op.narrow(value, dtype)
