"""Matrix products."""

from __future__ import annotations

from caffe2_backend.family import Family
from caffe2_backend.op import FLOAT, Op
from caffe2_backend.shapes import in_float, narrowed, scalar

family = Family("linear")


@family.converts("MatMul")
def matmul(op: Op) -> str:
    product = op.emit("BatchMatMul", in_float(op, 0), in_float(op, 1), broadcast=1)
    product = op.reshape(product, []) if op.rank(0) == op.rank(1) == 1 else product
    return narrowed(op, product, op.dtype())


@family.converts("Gemm")
def gemm(op: Op) -> str:
    """One FC where it is one; else the product, scaled, and what is added, scaled."""
    alpha, beta = op.number("alpha", 1.0), op.number("beta", 1.0)
    left, right = bool(op.integer("transA", 0)), bool(op.integer("transB", 0))
    a, b = in_float(op, 0), in_float(op, 1)
    width = op.dim(0 if right else 1, 1)
    if alpha == beta == 1 and not left and op.has_input(2) and op.rank(2) == 1 and op.dim(0, 2) == width is not None:
        return narrowed(op, op.emit("FC" if right else "FCTransposed", a, b, in_float(op, 2)), op.dtype())
    product = op.emit("BatchMatMul", a, b, trans_a=int(left), trans_b=int(right))
    if alpha != 1:
        product = op.emit("Mul", product, scalar(op, alpha, FLOAT))
    if not op.has_input(2) or beta == 0:
        return narrowed(op, product, op.dtype())
    c = in_float(op, 2)
    c = c if beta == 1 else op.emit("Mul", c, scalar(op, beta, FLOAT))
    return narrowed(op, op.emit("Add", product, c), op.dtype())
