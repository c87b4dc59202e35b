"""Distances and similarities between the rows of two tensors.

A row is a slice along the first axis; a scalar counts as one row. The result is a vector with one element per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, binary, div, mul, sqrt, square, sub
from caffe2_frontend.emit.broadcast import require_same_shape
from caffe2_frontend.emit.operand_checks import REALS, takes
from caffe2_frontend.emit.reductions import reduce_each_row
from caffe2_frontend.emit.shapes import flatten, size_vector
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("distance")

_FLOATS: Final = {0: TensorInfo(ir.DataType.FLOAT), 1: TensorInfo(ir.DataType.FLOAT)}


@family.converts("SquaredL2Distance", expects=_FLOATS)
@takes(REALS, 0, 1)
def squared_l2_distance(op: Op) -> Value:
    """SquaredL2Distance(X, Y) -> Z: half of the sum of squares."""
    return mul(op, reduce_each_row(op, "ReduceSum", square(op, _difference(op))), 0.5)


@family.converts("L1Distance", expects=_FLOATS)
@takes(REALS, 0, 1)
def l1_distance(op: Op) -> Value:
    """L1Distance(X, Y) -> Z."""
    return reduce_each_row(op, "ReduceSum", op.emit("Abs", _difference(op)))


@family.converts("DotProduct", expects=_FLOATS)
@takes(REALS, 0, 1)
def dot_product(op: Op) -> Value:
    """DotProduct(X, Y) -> Z."""
    require_same_shape(op, op.inputs)
    return _dot(op, *op.inputs)


@family.converts("CosineSimilarity", expects=_FLOATS)
@takes(REALS, 0, 1)
def cosine_similarity(op: Op) -> Value:
    """CosineSimilarity(X, Y) -> Z. Squared norms count as 1e-12 at least."""
    require_same_shape(op, op.inputs)
    x, y = op.input(0), op.input(1)
    squares = (binary(op, "Max", _dot(op, v, v), 1e-12) for v in (x, y))
    return div(op, _dot(op, x, y), sqrt(op, mul(op, *squares)))


@family.converts("DotProductWithPadding", expects=_FLOATS)
@takes(REALS, 0, 1)
def dot_product_with_padding(op: Op) -> Value:
    """DotProductWithPadding(X, Y; pad_value=0.0, replicate=0) -> Z.

    The shorter rows are padded with ``pad_value`` to the length of the others, or are repeated if ``replicate``; then
    the elements of the longer rows beyond the last full repetition do not count.
    """
    pad, replicate = op.args.number("pad_value", default=0.0), op.args.flag("replicate", default=False)
    rows = [flatten(op, v, 1) for v in op.inputs]
    columns = [op.static_dim(v, 1) for v in rows]
    if columns[0] is not None and columns[0] == columns[1]:
        return _dot(op, *rows)
    return _repeated(op, rows) if replicate else _padded(op, rows, pad)


def _padded(op: Op, rows: Sequence[Value], pad: float) -> Value:
    """Return the products of rows of which the shorter are padded: ``pad`` times the sum of the longer ones' rest."""
    lengths = [size_vector(op, v, 1) for v in rows]
    first, last, axis = (op.const([n], np.int64) for n in (0, 2**62, 1))
    shortest = op.emit("Min", *lengths)
    both = (op.emit("Slice", v, first, shortest, axis) for v in rows)
    beyond = (op.emit("Slice", v, shortest, last, axis) for v in rows)
    rest = add(op, *(reduce_each_row(op, "ReduceSum", v) for v in beyond))
    return add(op, _dot(op, *both), mul(op, rest, pad))


def _repeated(op: Op, rows: Sequence[Value]) -> Value:
    """Return the products of rows of which the shorter are repeated."""
    lengths = [size_vector(op, v, 1) for v in rows]
    longest = op.emit("Max", *lengths)
    times = [div(op, longest, length) for length in lengths]
    # An integer number of repetitions of the shorter rows.
    used = mul(op, op.emit("Min", *lengths), op.emit("Max", *times))
    tiled = (op.emit("Tile", v, _repeats(op, n)) for v, n in zip(rows, times, strict=True))
    first, axis = (op.const([n], np.int64) for n in (0, 1))
    return _dot(op, *(op.emit("Slice", v, first, used, axis) for v in tiled))


def _repeats(op: Op, times: Value) -> Value:
    """Return the ``repeats`` of a Tile that repeats columns only: [1, times]."""
    return op.emit("Concat", op.const([1], np.int64), times, axis=0)


def _difference(op: Op) -> Value:
    """Return the first operand minus the second, of the same shape."""
    require_same_shape(op, op.inputs)
    return sub(op, op.input(0), op.input(1))


def _dot(op: Op, x: Value, y: Value) -> Value:
    """Return the dot products of the rows of two tensors [N, ...], [N]."""
    return reduce_each_row(op, "ReduceSum", mul(op, x, y))
