"""Gradients of functions of one operand, element by element."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import mul
from caffe2_frontend.emit.broadcast import require_same_shape
from caffe2_frontend.emit.operand_checks import require_dtype
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("math_gradient")

_FLOATS = {0: TensorInfo(ir.DataType.FLOAT), 1: TensorInfo(ir.DataType.FLOAT)}


@family.converts("SinGradient", expects=_FLOATS)
def sin_gradient(op: Op) -> Value:
    """SinGradient(X, dY) -> dX."""
    x, dy = _operands(op)
    return mul(op, dy, op.emit("Cos", x))


@family.converts("CosGradient", expects=_FLOATS)
def cos_gradient(op: Op) -> Value:
    """CosGradient(X, dY) -> dX."""
    x, dy = _operands(op)
    return op.emit("Neg", mul(op, dy, op.emit("Sin", x)))


def _operands(op: Op) -> tuple[Value, Value]:
    """X and dY, of one shape: where it differs Caffe2 reads beyond the smaller operand."""
    x, dy = op.input(0), op.input(1)
    require_dtype(op, x, (ir.DataType.FLOAT,), "X")
    require_dtype(op, dy, (ir.DataType.FLOAT,), "dY")
    require_same_shape(op, (x, dy))
    return x, dy
