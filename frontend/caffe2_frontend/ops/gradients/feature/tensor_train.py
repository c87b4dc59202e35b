"""Gradients of embeddings in tensor-train format."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.emit.operand_checks import require_rank, takes
from caffe2_frontend.emit.rows.segments import row_segments, scatter_rows, vector_operand
from caffe2_frontend.emit.shapes import reshape, size, sizes
from caffe2_frontend.interop.types import FLOAT, INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("tensor_train_gradient")

_CORE: Final = TensorInfo(FLOAT, (None,) * 4)
_PRODUCT: Final = TensorInfo(FLOAT, (None,) * 3)


@family.converts(
    "TTSparseLengthsSumGradient",
    expects={
        **dict.fromkeys(range(3), _CORE),
        3: TensorInfo(ir.DataType.INT32, (None,)),
        4: _PRODUCT,
        5: _PRODUCT,
        6: TensorInfo(INT64, (None, 3)),
        7: TensorInfo(FLOAT, (None, None)),
    },
)
@takes((FLOAT,), 0, 1, 2, 4, 5, 7)
@takes((INT64,), 6)
def gradient_of_cores(op: Op) -> tuple[Value, ...]:
    """TTSparseLengthsSumGradient(core0, core1, core2, lengths, product0, product1, digits, dY) -> dcore0, dcore1, ...

    An embedding is the product ``A0 A1 A2`` of matrices that the digits [N, 3] select from the cores; product0 is A0,
    product1 is ``A0 A1``. From the gradient G of the embedding follow that of A2, ``(A0 A1)' G``, and that of
    ``A0 A1``, ``G A2'``; from this one likewise those of A1 and A0. Rows with the same digit are summed.
    """
    cores = [op.input(i) for i in range(3)]
    for i, core in enumerate(cores):
        require_rank(op, core, 4, f"core{i}")
    first, both, digits, dy = (op.input(i) for i in (4, 5, 6, 7))
    for value, rank, what in ((first, 3, "product0"), (both, 3, "product1"), (digits, 2, "digits"), (dy, 2, "dY")):
        require_rank(op, value, rank, what)
    count = size(op, digits, 0)
    segments = row_segments(op, vector_operand(op, 3), count)
    by_core = op.emit("Split", digits, axis=1, num_outputs=3, outputs=3)
    chosen = [reshape(op, digit, [count]) for digit in by_core]
    # Cores are [n, ranks[i], columns[i], ranks[i + 1]]; a row of one is a matrix [ranks[i], columns[i] * ranks[i + 1]].
    _, second, third = (_matrices(op, core, digit) for core, digit in zip(cores, chosen, strict=True))
    rows = [size(op, value, 1) for value in (first, both)]
    gradient = reshape(op, op.emit("Gather", dy, segments, axis=0), [count, rows[1], size(op, cores[2], 2)])
    of_third = op.emit("MatMul", _transpose(op, both), gradient)
    of_both = op.emit("MatMul", gradient, _transpose(op, third))
    of_both = reshape(op, of_both, [count, rows[0], size(op, second, 2)])
    of_second = op.emit("MatMul", _transpose(op, first), of_both)
    of_first = op.emit("MatMul", of_both, _transpose(op, second))
    return tuple(
        scatter_rows(op, reshape(op, value, [count, *sizes(op, core, 1)]), digit, size(op, core, 0), "add")
        for value, digit, core in zip((of_first, of_second, of_third), chosen, cores, strict=True)
    )


def _matrices(op: Op, core: Value, digits: Value) -> Value:
    """Return the matrix that each digit selects from a core, [N, ranks[i], columns[i] * ranks[i + 1]]."""
    flat = reshape(op, core, [*sizes(op, core, 0, 2), -1])
    return op.emit("Gather", flat, digits, axis=0)


def _transpose(op: Op, x: Value) -> Value:
    """Transpose each matrix of ``x`` [N, rows, columns]."""
    return op.emit("Transpose", x, perm=[0, 2, 1])
