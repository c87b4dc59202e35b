"""ATen's matrix products."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, mul
from caffe2_frontend.emit.shapes import transpose_matrix
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.aten.operands import name_of, number

family = Family("aten matrix")

_GEMM_TYPES = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)


@family.converts("mm", "bmm", "matmul", "mv", "dot")
def matmul(op: Op) -> Value:
    """aten::mm | bmm | matmul | mv | dot(self, other)."""
    return op.emit("MatMul", op.input(0), op.input(1))


@family.converts("addmm", "baddbmm", "addmv", "addbmm")
def add_product(op: Op) -> Value:
    """aten::addmm | baddbmm | addmv(self, a, b; beta=1, alpha=1): ``beta * self + alpha * a @ b``.

    ``self`` is not read where beta is 0, so that NaN in it does not spread. addbmm adds all products of the batch.
    """
    x, a, b = (op.input(i) for i in range(3))
    beta, alpha = number(op, "beta", 1), number(op, "alpha", 1)
    name = name_of(op)
    if name == "addmm" and op.dtype(a) in _GEMM_TYPES and beta != 0 and op.rank(x) <= 2:
        return op.emit("Gemm", a, b, x, alpha=float(alpha), beta=float(beta))
    product = op.emit("MatMul", a, b)
    if name == "addbmm":
        product = op.emit("ReduceSum", product, op.const([0], "int64"), keepdims=0)
    product = product if alpha == 1 else mul(op, product, alpha)
    if beta == 0:
        return product
    return add(op, x if beta == 1 else mul(op, x, beta), product)


@family.converts("linear")
def convert_linear(op: Op) -> Value:
    """aten::linear(input, weight[, bias]): ``input @ weight.T + bias``."""
    product = op.emit("MatMul", op.input(0), transpose_matrix(op, op.input(1)))
    return add(op, product, op.input(2)) if op.has_input(2) else product
