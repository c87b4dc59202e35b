"""Gradients of hierarchical softmax: see the forward family for trees, nodes and paths.

All nodes of all paths are computed at once, as [N, longest path, widest node]; shorter ones are masked. What the
forward operator stored is one vector: for each row and step its scores, then its probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, aligned, binary, div, mul, sub
from caffe2_frontend.emit.layers.losses import MIN_PROBABILITY
from caffe2_frontend.emit.layers.softmax_paths import read_hierarchy, word_indices
from caffe2_frontend.emit.operand_checks import require_rank, takes
from caffe2_frontend.emit.rows.segments import filled
from caffe2_frontend.emit.shapes import (
    Size,
    as_vector,
    cast,
    concat_flat,
    reshape,
    size,
    sizes,
    unsqueeze,
    vector,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("hierarchical_softmax_gradient")

_FLOAT: Final = (ir.DataType.FLOAT,)
_MATRIX: Final = TensorInfo(ir.DataType.FLOAT, (None, None))
_VECTOR: Final = TensorInfo(ir.DataType.FLOAT, (None,))
_LABELS: Final = TensorInfo(ir.DataType.INT32, (None,))


@family.converts("HSoftmaxGradient", expects={0: _MATRIX, 1: _MATRIX, 2: _VECTOR, 3: _LABELS, 4: _VECTOR, 5: _VECTOR})
@takes(_FLOAT, 0, 1, 2, 4, 5)
def h_softmax_gradient(op: Op) -> tuple[Value, ...]:
    """HSoftmaxGradient(X, W, b, labels, intermediate, dloss; hierarchy) -> dX, dW, db, dintermediate.

    The gradient of a node's probabilities is ``-dloss / p`` at the class on the path, that of its scores follows by
    softmax: ``p * (dp - sum(p * dp))``.
    """
    x, weight, stored = op.input(0), op.input(1), as_vector(op, op.input(4))
    require_rank(op, weight, 2, "the weights")
    steps = _visited(op)
    score, likelihood = _stored_indices(op, steps, stored)
    padded = op.emit("Concat", stored, op.const([0], stored), axis=0)
    p = op.emit("Gather", padded, likelihood, axis=0)
    loss = reshape(op, as_vector(op, op.input(5)), [-1, 1, 1])
    rate = op.emit("Neg", div(op, loss, binary(op, "Max", p, MIN_PROBABILITY)))
    by_likelihood = op.emit("Where", steps.is_target, rate, op.const(0.0, p))
    inner = op.emit("ReduceSum", mul(op, p, by_likelihood), op.const([2], np.int64))
    by_score = mul(op, p, sub(op, by_likelihood, inner))
    rows = size(op, weight, 0)
    scores = _scattered(op, by_score, op.emit("Where", steps.is_class, steps.row, vector(op, [rows])), rows)
    dx, dw = op.emit("MatMul", scores, weight), op.emit("Gemm", scores, x, transA=1)
    db = aligned(op, op.emit("ReduceSum", scores, op.const([0], np.int64), keepdims=0), op.input(2))
    if not op.wants(3):
        return dx, dw, db
    indices, values = concat_flat(op, (score, likelihood)), concat_flat(op, (by_score, by_likelihood))
    zeros = filled(op, padded, sizes(op, padded))
    gradient = op.emit("ScatterElements", zeros, indices, values, axis=0)
    end = op.emit("Shape", stored)
    of_stored = op.emit("Slice", gradient, op.const([0], np.int64), end, shape=stored.shape)
    return dx, dw, db, aligned(op, of_stored, op.input(4))


@dataclass(frozen=True)
class _Visited:
    """The classes of the nodes on the path to each label.

    Attributes:
        length: the number of classes of each node, [N, depth, 1]; 0 beyond the end of a path.
        column: the indices of classes, [width].
        is_class: which of them a node has, [N, depth, width].
        is_target: which of them the path takes, [N, depth, width].
        row: the rows of the weights of the classes, [N, depth, width].
        depth: the number of nodes of the longest path.
    """

    length: Value
    column: Value
    is_class: Value
    is_target: Value
    row: Value
    depth: int


def _visited(op: Op) -> _Visited:
    """Look up the paths to the labels, which are operand 3, in tables [words, depth] of their steps."""
    paths = read_hierarchy(op)
    labels = word_indices(op, list(paths), reshape(op, cast(op, op.input(3), ir.DataType.INT64), [-1]))
    depth = max(map(len, paths.values()))
    width = max(step.length for path in paths.values() for step in path)
    tables = np.zeros((3, len(paths), depth), np.int64)
    for row, path in enumerate(paths.values()):
        tables[:, row, : len(path)] = np.array([(step.index, step.length, step.target) for step in path]).T
    index, length, target = (unsqueeze(op, op.emit("Gather", op.const(t), labels, axis=0), [2]) for t in tables)
    column = op.const(np.arange(width), np.int64)
    is_class = op.emit("Less", column, length)
    is_target = op.emit("And", is_class, op.emit("Equal", column, target))
    return _Visited(length, column, is_class, is_target, add(op, index, column), depth)


def _stored_indices(op: Op, steps: _Visited, stored: Value) -> tuple[Value, Value]:
    """Return the indices of the classes' scores and probabilities among those stored, [N, depth, width].

    Where a node has no such class, the index is that after the last of the stored elements.
    """
    starts = op.emit("CumSum", reshape(op, mul(op, steps.length, 2), [-1]), op.const(0, np.int64), exclusive=1)
    score = add(op, reshape(op, starts, [-1, steps.depth, 1]), steps.column)
    end = op.emit("Shape", stored)
    places = (score, add(op, score, steps.length))
    first, second = (op.emit("Where", steps.is_class, place, end) for place in places)
    return first, second


def _scattered(op: Op, by_score: Value, row: Value, rows: Size) -> Value:
    """Return the gradients of the scores of all rows of the weights, [N, ``rows``], from those of classes on paths.

    Padding is scattered to one more column, which is cut off.
    """
    count = size(op, by_score, 0)
    width = op.emit("Add", vector(op, [rows]), op.const([1], np.int64))
    flat = [op.emit("Flatten", v, axis=1) for v in (row, by_score)]
    scores = op.emit("ScatterElements", filled(op, by_score, [count, width]), *flat, axis=1, reduction="add")
    bounds = (op.const([0], np.int64), vector(op, [rows]), op.const([1], np.int64))
    return op.emit("Slice", scores, *bounds, shape=[None, rows if isinstance(rows, int) else None])
