"""Selection by conditions: ONNX's Where for every element type, and the indices at which a mask is true."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import binary
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.lowering.op import Op, Value

# onnxruntime has no Where kernel for these.
_NARROW: Final = (ir.DataType.INT16, ir.DataType.UINT16)


def true_indices(op: Op, mask: Value) -> Value:
    """Return the indices at which ``mask`` [N] is true, in ascending order, int64 [K]."""
    return op.emit("Reshape", op.emit("NonZero", mask), op.const([-1], np.int64), shape=[None])


def select(op: Op, condition: Value, a: Value, b: Value) -> Value:
    """Return ``a`` where ``condition`` holds, else ``b``; all three broadcast."""
    dtype = op.dtype(a)
    if dtype == ir.DataType.BOOL:
        kept = op.emit("And", condition, a)
        return op.emit("Or", kept, op.emit("And", op.emit("Not", condition), b))
    if dtype in _NARROW:
        wide = op.emit("Where", condition, cast(op, a, ir.DataType.INT32), cast(op, b, ir.DataType.INT32))
        return cast(op, wide, dtype)
    return op.emit("Where", condition, a, b)


def elementwise_extremum(op: Op, kind: str, a: Value, b: Value) -> Value:
    """Return the elements of ``a`` and ``b`` that are larger (``kind`` is Max) or smaller (Min).

    onnxruntime's vectorized Max and Min compare int64 values of 33 to 45 bits wrongly; its Less and Greater are right.
    """
    if op.dtype(a) != ir.DataType.INT64:
        return op.emit(kind, a, b)
    return op.emit("Where", op.emit("Less" if kind == "Max" else "Greater", a, b), b, a)


def sign(op: Op, x: Value) -> Value:
    """Return the sign of each element: of int64 by comparisons, because onnxruntime's Sign has the fault of its Max."""
    dtype = op.dtype(x)
    if dtype != ir.DataType.INT64:
        return op.emit("Sign", x)
    above, below = (cast(op, binary(op, kind, x, 0), dtype) for kind in ("Greater", "Less"))
    return op.emit("Sub", above, below)


def dead_zone_sign(op: Op, x: Value, width: float) -> Value:
    """Return the sign of each element of ``x``; 0 where its absolute value is at most ``width``."""
    is_zero = binary(op, "LessOrEqual", op.emit("Abs", x), width)
    return op.emit("Where", is_zero, op.const(0, x), op.emit("Sign", x))


def by_sign(op: Op, x: Value, y: Value, width: float) -> Value:
    """Return ``y`` where ``x`` is above ``width``, ``-y`` where it is below ``-width``, and else 0, also of a NaN.

    Unlike a product of ``y`` and a sign, this is 0 also where ``y`` is not finite.
    """
    below, above = binary(op, "Less", x, -width), binary(op, "Greater", x, width)
    return op.emit("Where", below, op.emit("Neg", y), op.emit("Where", above, y, op.const(0, y)))
