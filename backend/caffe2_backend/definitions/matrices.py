"""Products of matrices."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import MICROSOFT, Family

family = Family(MICROSOFT)


@family.defines("FusedMatMul", "TransposeMatMul")
def fused_mat_mul(define: Definition) -> ir.Value:
    """``FusedMatMul(A, B; alpha=1, transA=0, transB=0, transBatchA=0, transBatchB=0) -> Y``: alpha * MatMul.

    Operands have their last axes swapped (``trans``), after their first axis moved behind the batch (``transBatch``).
    """
    a, b = (_transposed(define, index, side) for index, side in enumerate("AB"))
    y, alpha = define("MatMul", a, b), define.number("alpha", 1.0)
    return y if alpha == 1 else define("Mul", y, define.like(alpha, y))


def _transposed(define: Definition, index: int, side: str) -> ir.Value:
    swaps, moves = (bool(define.integer(f"{name}{side}", 0)) for name in ("trans", "transBatch"))
    rank = define.rank(index) if swaps or moves else 0
    if rank < 2:
        return define.input(index)
    batch, row, column = [*range(rank - 2)], rank - 2, rank - 1
    if moves:
        batch, row = [*range(1, rank - 1)], 0
    return define("Transpose", define.input(index), perm=[*batch, *((column, row) if swaps else (row, column))])


@family.defines("ExpandDims")
def expand_dims(define: Definition) -> ir.Value:
    """``ExpandDims(X, axis) -> Y``: Unsqueeze."""
    return define("Unsqueeze", define.input(0), define.reshape(define.input(1), 1))
