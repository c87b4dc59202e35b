"""Ranges of numbers."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul, scalar, sub
from caffe2_frontend.emit.operand_checks import FLOATS, INDICES, require_dtype
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("counting")


@family.converts("Range", expects=lambda _, __: TensorInfo(None, (1,)))
def count(op: Op) -> Value:
    """Range([start,] stop[, step]) -> Y. Each operand has one element.

    Two roundings differ from ONNX's Range. Floats are computed as ``start + i * step``, so that errors do not add up.
    For integers the number of steps is the quotient rounded towards zero, plus one if it falls short of the stop; with
    a negative step a remainder adds none, where ONNX and NumPy take one more step.
    """
    bounds = [scalar(op, bound) for bound in op.inputs]
    if not 1 <= len(bounds) <= 3:
        op.unsupported(f"Range must have one to three inputs, not {len(bounds)}", code="missing-input")
    first = bounds[0]
    require_dtype(op, first, (*FLOATS, *INDICES), "the bound")
    start = bounds[0] if len(bounds) > 1 else op.const(0, first)
    stop = bounds[1] if len(bounds) > 1 else bounds[0]
    if len(bounds) < 3 and not op.dtype(first).is_floating_point():
        return op.emit("Range", start, stop, op.const(1, first))
    step = bounds[2] if len(bounds) > 2 else op.const(1, first)
    span = sub(op, stop, start)
    if op.dtype(first).is_floating_point():
        # Caffe2 counts in 32 bits: of more steps there are none.
        steps = cast(op, op.emit("Ceil", div(op, span, step)), ir.DataType.INT32)
    else:
        quotient = div(op, span, step)
        remainder = cast(op, op.emit("Less", mul(op, quotient, step), span), op.dtype(first))
        steps = add(op, quotient, remainder)
    index = op.emit("Range", op.const(0, steps), steps, op.const(1, steps))
    return add(op, start, mul(op, cast(op, index, op.dtype(first)), step))
