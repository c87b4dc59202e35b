"""Matrix products."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_backend.emit.shapes import NUMBERS, cut, moved, scalar
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import DOUBLE, FLOAT, Op

family = Family("linear")


@family.converts("MatMul")
def matmul(op: Op) -> str:
    op.require(0, *NUMBERS)
    op.require(1, *NUMBERS)
    return matrix_product(op, op.input(0), op.input(1), op.dtype(), (op.rank(0), op.rank(1)))


def matrix_product(op: Op, a: str, b: str, dtype: ir.DataType, ranks: tuple[int, int]) -> str:
    """ONNX's MatMul; numbers that Caffe2's own does not take are multiplied pair by pair, then summed."""
    if dtype == FLOAT:
        product = op.emit("BatchMatMul", a, b, broadcast=1)
        return op.reshape(product, []) if ranks == (1, 1) else product
    if ranks == (1, 1):
        return op.emit("ReduceSum", op.emit("Mul", a, b), axes=[0], keepdims=0)
    left = op.emit("ExpandDims", a, dims=[max(ranks[0] - 1, 0)])
    if ranks[1] == 1:
        columns = op.emit("ExpandDims", b, dims=[0])
    else:
        order = [*range(ranks[1] - 2), ranks[1] - 1, ranks[1] - 2]
        columns = op.emit("ExpandDims", moved(op, b, order), dims=[ranks[1] - 2])
    rank = max(ranks[0] + 1, ranks[1] + 1)
    made = op.emit("ReduceSum", op.emit("Mul", left, columns), axes=[rank - 1], keepdims=0)
    alone = [axis for axis, vector in ((rank - 3, ranks[0] == 1), (rank - 2, ranks[1] == 1)) if vector]
    return op.emit("Squeeze", made, dims=alone) if alone else made


@family.converts("Gemm")
def gemm(op: Op) -> str:
    """One FC where it is one; else the product, scaled, and what is added, scaled."""
    alpha, beta = op.number("alpha", 1.0), op.number("beta", 1.0)
    left, right = bool(op.integer("transA", 0)), bool(op.integer("transB", 0))
    for index in range(op.input_count):
        if op.has_input(index):
            op.require(index, FLOAT)
    a, b = op.input(0), op.input(1)
    width = op.dim(0 if right else 1, 1)
    if alpha == beta == 1 and not left and op.has_input(2) and op.rank(2) == 1 and op.dim(0, 2) == width is not None:
        return op.emit("FC" if right else "FCTransposed", a, b, op.input(2))
    product = op.emit("BatchMatMul", a, b, trans_a=int(left), trans_b=int(right))
    if alpha != 1:
        product = op.emit("Mul", product, scalar(op, alpha, FLOAT))
    if not op.has_input(2) or beta == 0:
        return product
    c = op.input(2) if beta == 1 else op.emit("Mul", op.input(2), scalar(op, beta, FLOAT))
    return op.emit("Add", product, c)


@family.converts("Det")
def determinant(op: Op) -> str:
    """Along the first row, of a few rows; the matrices are the last two axes."""
    op.require(0, FLOAT, DOUBLE)
    rank, size = op.rank(), op.dim(-1)
    if size is None or not 0 < size <= _MOST_ROWS:
        op.unsupported(f"the determinant of {size or 'an unknown number of'} rows")
    blob = op.input(0)
    rows = [cut(op, blob, rank - 2, i, i + 1) for i in range(size)]
    entries = [[cut(op, row, rank - 1, i, i + 1) for i in range(size)] for row in rows]
    return op.emit("Squeeze", _determinant(op, entries), dims=[rank - 2, rank - 1])


_MOST_ROWS = 4


def _determinant(op: Op, entries: list[list[str]]) -> str:
    if len(entries) == 1:
        return entries[0][0]
    total = ""
    for column, first in enumerate(entries[0]):
        rest = [[entry for i, entry in enumerate(row) if i != column] for row in entries[1:]]
        part = op.emit("Mul", first, _determinant(op, rest))
        total = op.emit("Sub" if column % 2 else "Add", total, part) if total else part
    return total
