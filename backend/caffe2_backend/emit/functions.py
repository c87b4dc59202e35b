"""Functions of single elements of float."""

from __future__ import annotations

from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value


def function(op: Op, op_type: str, x: Value) -> Value:
    """Emit Caffe2's operator of that name, of one operand and no arguments, where it takes all of float's range."""
    return softplus(op, x) if op_type == "Softplus" else op.emit(op_type, x)


def softplus(op: Op, x: Value) -> Value:
    """Return ``log(1 + exp(x))``, as max(x, 0) + Softplus(-abs(x)): Caffe2's Softplus of 89 is infinite."""
    return op.emit("Relu", x) + op.emit("Softplus", -x.absolute())
