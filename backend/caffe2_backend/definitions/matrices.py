"""Products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
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


@family.defines("MatMulNBits")
def mat_mul_n_bits(define: Definition) -> ir.Value:
    """``MatMulNBits(A, B, scales, zero_points, g_idx, bias; K, N, bits=4, block_size) -> Y``: A * weights^T + bias.

    The weights [N, K] are B [N, blocks, bytes of a block], whose bytes hold their first elements lowest, less a zero
    point and times a scale for each block. They are computed while importing where they are known; ``g_idx``, another
    order of the blocks, is not defined.
    """
    rows, columns = define.required("N"), define.required("K")
    bits, block = define.integer("bits", 4), define.required("block_size")
    if define.has_input(4) or bits not in (2, 4, 8) or block <= 0 or block * bits % 8:
        define.undefined()
    shape = (rows, -(-columns // block), block)
    if all(define.is_known(index) for index in range(1, 4) if define.has_input(index)):
        weights = _weights(define, bits, shape)
        factor = define.const(weights.reshape(rows, -1)[:, :columns].T, define.dtype(0))
    else:
        flat = define.reshape(_computed_weights(define, bits, shape), rows, -1)
        factor = define("Transpose", define("Slice", flat, *(define.ints(each) for each in (0, columns, 1))))
    return define.add(define("MatMul", define.input(0), factor), define.optional(5))


def _weights(define: Definition, bits: int, shape: tuple[int, int, int]) -> Any:
    """Return the weights [N, blocks, elements of a block], of operands that are known."""
    rows, blocks, block = shape
    zero: Any = 1 << bits - 1
    if define.has_input(3):
        zero = _unpacked(define, 3, bits, (rows, blocks)) if _is_packed(define, 3) else define.known(3)
        zero = np.reshape(zero, (rows, blocks, 1)).astype(np.float32)
    numbers = _unpacked(define, 1, bits, (rows, blocks * block)).reshape(shape).astype(np.float32)
    return (numbers - zero) * np.reshape(define.known(2), (rows, blocks, 1)).astype(np.float32)


def _computed_weights(define: Definition, bits: int, shape: tuple[int, int, int]) -> ir.Value:
    """Return what :func:`_weights` does of operands that are computed at run time, in the type of the scales."""
    rows, blocks, block = shape
    zero, scales = define.const(1 << bits - 1, ir.DataType.FLOAT), define.reshape(define.input(2), rows, blocks, 1)
    if define.has_input(3):
        zero = _unpacking(define, 3, bits, (rows, blocks)) if _is_packed(define, 3) else define.input(3)
        zero = define.reshape(zero, rows, blocks, 1)
    numbers = define.reshape(_unpacking(define, 1, bits, (rows, blocks * block)), rows, blocks, block)
    shifted = define("Sub", *(define("CastLike", each, scales) for each in (numbers, zero)))
    return define("Mul", shifted, scales)


def _is_packed(define: Definition, index: int) -> bool:
    return define.dtype(index) == ir.DataType.UINT8


def _unpacked(define: Definition, index: int, bits: int, shape: tuple[int, int]) -> Any:
    """Return the first numbers of each row of an operand of packed bytes."""
    rows, count = shape
    packed = np.reshape(define.known(index), (rows, -1))
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((packed[..., None] >> shifts) & ((1 << bits) - 1)).reshape(rows, -1)[:, :count]


def _unpacking(define: Definition, index: int, bits: int, shape: tuple[int, int]) -> ir.Value:
    """Return what :func:`_unpacked` does, of bytes that are computed at run time, as float."""
    rows, count = shape
    powers, bound = (define.const(each, ir.DataType.INT32) for each in (1 << np.arange(0, 8, bits), 1 << bits))
    packed = define("Unsqueeze", define.cast(define.input(index), ir.DataType.INT32), define.ints(-1))
    numbers = define("Mod", define("Div", packed, powers), bound)
    flat = define.reshape(define.cast(numbers, ir.DataType.FLOAT), rows, -1)
    return define("Slice", flat, *(define.ints(each) for each in (0, count, 1)))


@family.defines("ExpandDims")
def expand_dims(define: Definition) -> ir.Value:
    """``ExpandDims(X, axis) -> Y``: Unsqueeze."""
    return define("Unsqueeze", define.input(0), define.reshape(define.input(1), 1))
