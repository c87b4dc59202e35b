"""Gradients of distances and similarities between the rows of two tensors.

A row is a slice along the first axis; a scalar counts as one row. The gradients of the results have one element per
row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import binary, div, mul, reshape_like, scalar, sqrt, sub
from caffe2_frontend.emit.broadcast import require_same_shape, sum_to
from caffe2_frontend.emit.operand_checks import REALS, require_rank, takes
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.selection import by_sign
from caffe2_frontend.emit.shapes import broadcast_over_rows, flatten, size, size_vector, unsqueeze, vector
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("distance_gradient")

_FLOAT: Final = TensorInfo(ir.DataType.FLOAT)
_OPERANDS: Final = {0: _FLOAT, 1: _FLOAT, 2: TensorInfo(ir.DataType.FLOAT, (None,))}
# Squared norms count as this at least.
_MIN_SQUARED_NORM: Final = 1e-12
# Differences up to this count as 0.
_DEAD_ZONE: Final = 1e-12


def _operands(op: Op) -> tuple[Value, Value, Value]:
    """Return X and Y, of the same shape, and the gradient of the result, which broadcasts over their rows."""
    x, y, dz = op.input(0), op.input(1), op.input(2)
    require_same_shape(op, (x, y))
    require_rank(op, dz, 1, "the gradient")
    return x, y, scalar(op, dz) if op.rank(x) == 0 else broadcast_over_rows(op, dz, x)


@family.converts("SquaredL2DistanceGradient", expects=_OPERANDS)
@takes(REALS, 0, 1, 2)
def squared_l2_distance_gradient(op: Op) -> tuple[Value, Value]:
    """SquaredL2DistanceGradient(X, Y, dZ) -> dX, dY: ``dZ * (X - Y)`` and its negative."""
    x, y, dz = _operands(op)
    dx = mul(op, dz, sub(op, x, y))
    return dx, op.emit("Neg", dx)


@family.converts("L1DistanceGradient", expects=_OPERANDS)
@takes(REALS, 0, 1, 2)
def l1_distance_gradient(op: Op) -> tuple[Value, Value]:
    """L1DistanceGradient(X, Y, dZ) -> dX, dY: ``dZ * sign(X - Y)`` and its negative.

    The sign of a difference up to 1e-12 is 0.
    """
    x, y, dz = _operands(op)
    dx = by_sign(op, sub(op, x, y), dz, _DEAD_ZONE)
    return dx, op.emit("Neg", dx)


@family.converts("DotProductGradient", expects=_OPERANDS)
@takes(REALS, 0, 1, 2)
def dot_product_gradient(op: Op) -> tuple[Value, Value]:
    """DotProductGradient(X, Y, dZ) -> dX, dY: ``dZ * Y`` and ``dZ * X``."""
    x, y, dz = _operands(op)
    return mul(op, dz, y), mul(op, dz, x)


@family.converts("CosineSimilarityGradient", expects=_OPERANDS)
@takes(REALS, 0, 1, 2)
def cosine_similarity_gradient(op: Op) -> tuple[Value, Value]:
    """CosineSimilarityGradient(X, Y, dZ) -> dX, dY.

    ``dZ / (|X| |Y|) * (Y - X * (X . Y) / |X|^2)``, and with X and Y exchanged. Squared norms count as 1e-12 at least.
    """
    x, y, dz = _operands(op)
    axes = list(range(1, op.rank(x)))
    dot, *squares = (reduce_axes(op, "ReduceSum", mul(op, a, b), axes, keep=True) for a, b in ((x, y), (x, x), (y, y)))
    squares = [binary(op, "Max", squared, _MIN_SQUARED_NORM) for squared in squares]
    # The product of the norms: a product of squares may underflow.
    factor = div(op, dz, mul(op, *(sqrt(op, squared) for squared in squares)))
    dx, dy = (
        mul(op, factor, sub(op, other, mul(op, own, div(op, dot, squared))))
        for own, other, squared in ((x, y, squares[0]), (y, x, squares[1]))
    )
    return dx, dy


@family.converts("DotProductWithPaddingGradient", expects=_OPERANDS)
@takes(REALS, 0, 1, 2)
def dot_product_with_padding_gradient(op: Op) -> tuple[Value, Value]:
    """DotProductWithPaddingGradient(X, Y, dZ; pad_value=0.0, replicate=0) -> dX, dY.

    Each gradient is dZ times the other operand, which is padded with ``pad_value``, or repeated if ``replicate``; the
    length of the longer rows must then be a multiple of that of the shorter ones, whose gradient is summed over the
    repetitions.
    """
    pad, replicate = op.args.number("pad_value", default=0.0), op.args.flag("replicate", default=False)
    dz = op.input(2)
    require_rank(op, dz, 1, "the gradient")
    operands = (op.input(0), op.input(1))
    rows = [flatten(op, v, 1) for v in operands]
    columns = [op.static_dim(v, 1) for v in rows]
    dz = unsqueeze(op, dz, [1])
    if columns[0] is not None and columns[0] == columns[1]:
        gradients = [mul(op, dz, other) for other in (rows[1], rows[0])]
    elif replicate:
        _require_multiple(op, columns)
        gradients = _repeated(op, rows, dz)
    else:
        gradients = _padded(op, rows, dz, pad)
    dx, dy = (reshape_like(op, gradient, v) for gradient, v in zip(gradients, operands, strict=True))
    return dx, dy


def _require_multiple(op: Op, columns: Sequence[int | None]) -> None:
    """Refuse lengths of rows of which neither is a multiple of the other."""
    known = [count for count in columns if count]
    if len(known) == 2 and max(known) % min(known):
        op.unsupported(
            f"with replicate, one length of rows must be a multiple of the other: {known[0]} and {known[1]} given",
            code="invalid-operands",
        )


def _padded(op: Op, rows: Sequence[Value], dz: Value, pad: float) -> list[Value]:
    """Return the gradients of both operands [N, columns], each of which reads the other with its rows cut or padded."""
    lengths = [size_vector(op, v, 1) for v in rows]
    first, axis, none = op.const([0], np.int64), op.const([1], np.int64), op.const([0, 0, 0], np.int64)
    gradients = []
    for other, own, length in zip(reversed(rows), lengths, reversed(lengths), strict=True):
        gap = op.emit("Max", sub(op, own, length), first)
        kept = op.emit("Slice", other, first, own, axis, shape=[op.shape(other)[0], None])
        padded = op.emit("Pad", kept, op.emit("Concat", none, gap, axis=0), op.const(pad, kept))
        gradients.append(mul(op, dz, padded))
    return gradients


def _repeated(op: Op, rows: Sequence[Value], dz: Value) -> list[Value]:
    """Return the gradients of both operands, of which the shorter is repeated along the rows of the longer one.

    As [N, repetitions, shortest length] one operand has one repetition: broadcasting repeats it, and its gradient is
    the sum over the repetitions.
    """
    count = size(op, rows[0], 0)
    lengths = [size_vector(op, v, 1) for v in rows]
    shortest = op.emit("Max", op.emit("Min", *lengths), op.const([1], np.int64))
    blocks = [
        op.emit("Reshape", v, vector(op, [count, div(op, length, shortest), shortest]), allowzero=1, shape=[None] * 3)
        for v, length in zip(rows, lengths, strict=True)
    ]
    dz = unsqueeze(op, dz, [2])
    return [
        sum_to(op, op.emit("Expand", mul(op, dz, other), op.emit("Shape", own), shape=[None] * 3), own)
        for own, other in (blocks, reversed(blocks))
    ]
