"""Gradients of matrix products."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("linear")

family.pattern("X0 X1 dY0 -> dX1 dX2 dX0", "FC", "FCTransposed")
family.pattern("dY0 X0 X1 -> dX0 dX1 dX2", "ElementwiseLinear")


@family.differentiates("BatchMatMul", copies_arguments=False)
def batch_matmul(op: Forward) -> None:
    """Emit dA = dY B^T and dB = A^T dY, as two BatchMatMuls whose flags undo those of the forward operator."""
    if op.args.flag("broadcast", default=False):
        raise op.error("argument 'broadcast' must be 0: real Caffe2 cannot differentiate a broadcast product")
    trans_a, trans_b = (op.args.flag(name, default=False) for name in ("trans_a", "trans_b"))
    a, b, dy, da, db = op.x(0), op.x(1), op.dy(0), op.dx(0), op.dx(1)
    if trans_a:
        _batched(op, b, dy, da, trans_a=trans_b, trans_b=True)
    else:
        _batched(op, dy, b, da, trans_b=not trans_b)
    if trans_b:
        _batched(op, dy, a, db, trans_a=True, trans_b=trans_a)
    else:
        _batched(op, a, dy, db, trans_a=not trans_a)


def _batched(op: Forward, a: str, b: str, product: str, **flags: bool) -> None:
    op.emit("BatchMatMul", [a, b], [product], **{name: 1 for name, on in flags.items() if on})


@family.differentiates("MatMul", copies_arguments=False)
def matmul(op: Forward) -> None:
    """Emit dA = dY B^T and dB = A^T dY, as two MatMul(A, B, shape_of; trans_a, trans_b, axis_a, axis_b) -> Y.

    The third input is the operand whose shape the product gets. Real Caffe2 reads the axes as truth values here, so
    that each other than 0 becomes 1.
    """
    axis_a, axis_b = (int(op.args.integer(name, default=1) != 0) for name in ("axis_a", "axis_b"))
    trans_a, trans_b = (op.args.integer(name, default=0) != 0 for name in ("trans_a", "trans_b"))
    a, b, dy, da, db = op.x(0), op.x(1), op.dy(0), op.dx(0), op.dx(1)
    if trans_a and trans_b:
        op.emit("MatMul", [b, dy, a], [da], trans_a=1, trans_b=1, axis_a=axis_b)
        op.emit("MatMul", [dy, a, b], [db], trans_a=1, trans_b=1, axis_b=axis_a)
    elif trans_a:
        op.emit("MatMul", [b, dy, a], [da], trans_b=1, axis_a=axis_b)
        op.emit("MatMul", [a, dy, b], [db], axis_a=axis_a)
    elif trans_b:
        op.emit("MatMul", [dy, b, a], [da], axis_b=axis_b)
        op.emit("MatMul", [dy, a, b], [db], trans_a=1, axis_b=axis_a)
    else:
        op.emit("MatMul", [dy, b, a], [da], trans_b=1, axis_b=axis_b)
        op.emit("MatMul", [a, dy, b], [db], trans_a=1, axis_a=axis_a)
