"""Matrix products and determinants."""

from __future__ import annotations

from typing import Final

from caffe2_backend.emit.selection import slice_axis, transpose
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import NUMBERS
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import DOUBLE, FLOAT

family = Family("linear")

# A determinant of n rows has n! products.
_MOST_ROWS: Final = 4


@family.converts("MatMul")
def matmul(op: Op) -> Value:
    """``MatMul(A, B) -> Y``: BatchMatMul of floats, else Mul and ReduceSum."""
    a, b = op.require(op.input(0), *NUMBERS), op.require(op.input(1), *NUMBERS)
    return matrix_product(op, a, b, (op.rank(a), op.rank(b)))


def matrix_product(op: Op, a: Value, b: Value, ranks: tuple[int, int]) -> Value:
    """Return ONNX's MatMul of values of the given ranks.

    Caffe2's is for floats: other numbers are multiplied pair by pair, [..., n, 1, k] * [..., 1, m, k], and summed.
    """
    if a.dtype == FLOAT:
        product = op.emit("BatchMatMul", a, b, broadcast=1)
        return product.reshape([]) if ranks == (1, 1) else product
    if ranks == (1, 1):
        return op.emit("ReduceSum", a * b, axes=[0], keepdims=0)
    left = op.emit("ExpandDims", a, dims=[max(ranks[0] - 1, 0)])
    if ranks[1] == 1:
        columns = op.emit("ExpandDims", b, dims=[0])
    else:
        order = [*range(ranks[1] - 2), ranks[1] - 1, ranks[1] - 2]
        columns = op.emit("ExpandDims", transpose(op, b, order), dims=[ranks[1] - 2])
    rank = max(ranks[0] + 1, ranks[1] + 1)
    product = op.emit("ReduceSum", left * columns, axes=[rank - 1], keepdims=0)
    vectors = [axis for axis, is_vector in ((rank - 3, ranks[0] == 1), (rank - 2, ranks[1] == 1)) if is_vector]
    return op.emit("Squeeze", product, dims=vectors) if vectors else product


@family.converts("Gemm")
def gemm(op: Op) -> Value:
    """``Gemm(A, B, C=None; alpha=1, beta=1, transA=0, transB=0) -> Y``: FC, FCTransposed or BatchMatMul."""
    alpha, beta = op.args.number("alpha", default=1.0), op.args.number("beta", default=1.0)
    trans_a, trans_b = op.args.flag("transA", default=False), op.args.flag("transB", default=False)
    a, b = op.require(op.input(0), FLOAT), op.require(op.input(1), FLOAT)
    c = op.require(op.input(2), FLOAT) if op.has_input(2) else None
    width = op.static_dim(b, 0 if trans_b else 1)
    is_plain = alpha == beta == 1 and not trans_a and width is not None
    if c is not None and is_plain and op.rank(c) == 1 and op.static_dim(c, 0) == width:
        return op.emit("FC" if trans_b else "FCTransposed", a, b, c)
    product = op.emit("BatchMatMul", a, b, trans_a=int(trans_a), trans_b=int(trans_b))
    if alpha != 1:
        product = product * alpha
    if c is None or beta == 0:
        return product
    return product + (c if beta == 1 else c * beta)


@family.converts("Det")
def det(op: Op) -> Value:
    """``Det(X) -> Y``: the Laplace expansion along the first row, of matrices [..., n, n] with n of at most 4."""
    x = op.require(op.input(0), FLOAT, DOUBLE)
    rank, size = op.rank(x), op.static_dim(x, -1)
    if size is None or not 0 < size <= _MOST_ROWS:
        op.unsupported(f"Det needs a known number of rows between 1 and {_MOST_ROWS}")
    rows = [slice_axis(op, x, rank - 2, i, i + 1) for i in range(size)]
    elements = [[slice_axis(op, row, rank - 1, i, i + 1) for i in range(size)] for row in rows]
    return op.emit("Squeeze", _determinant(elements), dims=[rank - 2, rank - 1])


def _determinant(elements: list[list[Value]]) -> Value:
    total = elements[0][0]
    if len(elements) == 1:
        return total
    for column, first in enumerate(elements[0]):
        minor = [[element for i, element in enumerate(row) if i != column] for row in elements[1:]]
        part = first * _determinant(minor)
        total = part if column == 0 else total - part if column % 2 else total + part
    return total
