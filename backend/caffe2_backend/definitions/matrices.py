"""Products of matrices."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import MICROSOFT, Family

family = Family(MICROSOFT)


@family.defines("FusedMatMul", "TransposeMatMul")
def fused_mat_mul(define: Definition) -> ir.Value:
    """``FusedMatMul(A, B; alpha=1, transA=0, transB=0) -> Y``: alpha * MatMul of operands with swapped last axes."""
    if define.integer("transBatchA", 0) or define.integer("transBatchB", 0):
        define.undefined()
    a, b = (_swapped(define, i) if define.integer(name, 0) else define.input(i) for i, name in enumerate(_SWAPS))
    y, alpha = define("MatMul", a, b), define.number("alpha", 1.0)
    return y if alpha == 1 else define("Mul", y, define.like(alpha, y))


_SWAPS = ("transA", "transB")


def _swapped(define: Definition, index: int) -> ir.Value:
    rank = define.rank(index)
    if rank < 2:
        return define.input(index)
    return define("Transpose", define.input(index), perm=[*range(rank - 2), rank - 1, rank - 2])


@family.defines("ExpandDims")
def expand_dims(define: Definition) -> ir.Value:
    """``ExpandDims(X, axis) -> Y``: Unsqueeze."""
    return define("Unsqueeze", define.input(0), define.reshape(define.input(1), 1))
