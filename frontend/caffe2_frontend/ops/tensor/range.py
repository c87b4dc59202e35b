"""Tensors that count."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul, scalar, sub
from caffe2_frontend.emit.operand_checks import FLOATS, INDICES, require_dtype
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("counting")


@family.converts("Range")
def count(op: Op) -> Value:
    """``(stop)``, ``(start, stop)`` or ``(start, stop, step)``, each one element.

    Integers downwards: what is left of the way when the steps do not fit is not gone, where NumPy goes one step more.
    """
    bounds = [scalar(op, bound) for bound in op.inputs]
    if not 1 <= len(bounds) <= 3:
        op.unsupported(f"{len(bounds)} inputs are given: one to three are expected", code="missing-input")
    first = bounds[0]
    require_dtype(op, first, (*FLOATS, *INDICES), "the bound")
    start = bounds[0] if len(bounds) > 1 else op.const(0, first)
    stop = bounds[1] if len(bounds) > 1 else bounds[0]
    if len(bounds) < 3 and not op.dtype(first).is_floating_point():
        return op.emit("Range", start, stop, op.const(1, first))
    step = bounds[2] if len(bounds) > 2 else op.const(1, first)
    way = sub(op, stop, start)
    if op.dtype(first).is_floating_point():
        steps = op.emit("Ceil", div(op, way, step))
    else:
        whole = div(op, way, step)
        rest = cast(op, op.emit("Less", mul(op, whole, step), way), op.dtype(first))
        steps = add(op, whole, rest)
    number = op.emit("Range", op.const(0, np.int64), cast(op, steps, ir.DataType.INT64), op.const(1, np.int64))
    return add(op, start, mul(op, cast(op, number, op.dtype(first)), step))
