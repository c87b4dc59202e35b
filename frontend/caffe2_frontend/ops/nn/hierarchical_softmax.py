"""Hierarchical softmax: the probability of a word is the product of the probabilities of the choices on its path.

The inner nodes of a tree have softmax classifiers of their own: node (index, length) owns the rows
``index ... index + length - 1`` of W and b, one row per class. One Gemm computes the scores of all rows; a Gather
arranges them as [N, nodes, width], where shorter nodes are padded with -inf, so that one Softmax normalizes all
nodes. Paths become constant tables of positions in that arrangement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, binary, mul, negative_log
from caffe2_frontend.emit.layers.losses import MIN_PROBABILITY
from caffe2_frontend.emit.layers.softmax_paths import read_hierarchy, read_message, word_indices
from caffe2_frontend.emit.layers.softmax_tree import Choice, PathStep, read_choices
from caffe2_frontend.emit.operand_checks import takes
from caffe2_frontend.emit.shapes import cast, reshape, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("hierarchical_softmax")

_FLOAT: Final = (ir.DataType.FLOAT,)
_WEIGHTS: Final = {
    0: TensorInfo(ir.DataType.FLOAT, (None, None)),
    1: TensorInfo(ir.DataType.FLOAT, (None, None)),
    2: TensorInfo(ir.DataType.FLOAT, (None,)),
    3: TensorInfo(ir.DataType.INT32, (None,)),
}


@dataclass(frozen=True)
class _Nodes:
    """All nodes of a tree, arranged as a padded matrix of classes.

    Attributes:
        rows: [nodes, width]: the row of the weights of each class; 0 for padding.
        real: [nodes, width]: false for padding.
        number: the index of a node by its (index, length).
    """

    rows: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    real: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    number: dict[tuple[int, int], int]

    @classmethod
    def of(cls, classes: Sequence[PathStep | Choice]) -> _Nodes:
        """Collect the distinct nodes of steps or choices, in the order of their first occurrence."""
        nodes = list(dict.fromkeys((each.index, each.length) for each in classes))
        column = np.arange(max(length for _, length in nodes))
        index, length = np.array(nodes, np.int64).T[:, :, None]
        real = column < length
        return cls(np.where(real, index + column, 0), real, {node: i for i, node in enumerate(nodes)})

    @property
    def width(self) -> int:
        """The number of classes of the widest node."""
        return self.rows.shape[1]

    def at(self, each: PathStep | Choice) -> int:
        """Return the index of a class in the flattened [nodes, width] matrix."""
        return self.number[each.index, each.length] * self.width + each.target


@family.converts("HSoftmax", expects=_WEIGHTS)
@takes(_FLOAT, 0, 1, 2)
def h_softmax(op: Op) -> tuple[Value, Value | None]:
    """HSoftmax(X, W, b, labels; hierarchy) -> loss, intermediate.

    The loss of a row is the sum of -log p over the steps on the path to its label. The intermediate output holds, for
    each node on that path, its scores and then its probabilities, concatenated over all nodes and rows.
    """
    paths = read_hierarchy(op)
    steps = [step for path in paths.values() for step in path]
    nodes = _Nodes.of(steps)
    scores, probabilities = _softmax(op, nodes)
    depth = max(map(len, paths.values()))
    labels = word_indices(op, list(paths), reshape(op, cast(op, op.input(3), ir.DataType.INT64), [-1]))
    # [words, depth]: the classes on each path. Shorter paths end in an extra column, whose probability is 1.
    columns = np.full((len(paths), depth), nodes.rows.size, np.int64)
    for row, path in zip(columns, paths.values(), strict=True):
        row[: len(path)] = [nodes.at(step) for step in path]
    flat = _with_column(op, reshape(op, probabilities, [-1, nodes.rows.size]), 1.0)
    chosen = op.emit("GatherElements", flat, op.emit("Gather", op.const(columns), labels, axis=0), axis=1)
    losses = negative_log(op, chosen, MIN_PROBABILITY)
    loss = op.emit("ReduceSum", losses, op.const([1], np.int64), keepdims=0)
    if not op.wants(1):
        return loss, None
    visited = op.emit("Gather", op.const(columns // nodes.width), labels, axis=0)
    return loss, _intermediate(op, nodes, visited, depth, scores, probabilities)


@family.converts("HSoftmaxSearch", expects=_WEIGHTS)
@takes(_FLOAT, 0, 1, 2)
def h_softmax_search(op: Op) -> tuple[Value, Value]:
    """HSoftmaxSearch(X, W, b; tree, topN=5, beam=0.01) -> names, scores.

    The best ``topN`` among the choices of all nodes, words and inner ones, by the sum of -log p on their paths. A
    choice is dropped, with all that is below it, when its own -log p exceeds ``beam``. Missing results have an empty
    name and the score 0.
    """
    choices = read_message(op, "tree", read_choices)
    count, beam = op.args.integer("topN", default=5), op.args.number("beam", default=0.01)
    if not choices:
        op.unsupported(
            "the TreeProto in argument 'tree' must have at least one node with children", code="invalid-argument"
        )
    nodes = _Nodes.of(choices)
    _, probabilities = _softmax(op, nodes)
    costs = negative_log(op, probabilities, MIN_PROBABILITY)
    costs = _with_column(op, reshape(op, costs, [-1, nodes.rows.size]), 0.0)
    depth = 1 + max(len(choice.above) for choice in choices)
    # [choices, depth]: each choice and those above it. Shorter paths end in an extra column, whose cost is 0.
    columns = np.full((len(choices), depth), nodes.rows.size, np.int64)
    for row, choice in zip(columns, choices, strict=True):
        path = [*(choices[i] for i in choice.above), choice]
        row[: len(path)] = [nodes.at(step) for step in path]
    path_costs = op.emit("Gather", costs, op.const(columns), axis=1)
    last = op.const([2], np.int64)
    total, worst = (op.emit(kind, path_costs, last, keepdims=0) for kind in ("ReduceSum", "ReduceMax"))
    total = op.emit("Where", binary(op, "Greater", worst, beam), op.const(np.inf, total), total)
    names = [choice.name for choice in choices] + [""] * max(count - len(choices), 0)
    for _ in range(len(choices), len(names)):
        total = _with_column(op, total, np.inf)
    # TopK needs ``count`` candidates: missing ones are nameless and cost infinitely much.
    best, which = op.emit("TopK", total, op.const([count], np.int64), axis=1, largest=0, outputs=2)
    found = op.emit("Gather", op.const(np.array(names, object)), which, axis=0)
    missing = op.emit("IsInf", best)
    empty = op.const(np.array("", object))
    return op.emit("Where", missing, empty, found), op.emit("Where", missing, op.const(0.0, best), best)


def _softmax(op: Op, nodes: _Nodes) -> tuple[Value, Value]:
    """Return scores and probabilities of each row in all nodes, [N, nodes, width]; -inf and 0 for padding."""
    x, weight, bias = op.input(0), op.input(1), op.input(2)
    scores = op.emit("Gather", op.emit("Gemm", x, weight, bias, transB=1), op.const(nodes.rows), axis=1)
    if not nodes.real.all():
        scores = op.emit("Where", op.const(nodes.real), scores, op.const(-np.inf, scores))
    return scores, op.emit("Softmax", scores, axis=-1)


def _intermediate(op: Op, nodes: _Nodes, visited: Value, depth: int, scores: Value, probabilities: Value) -> Value:
    """Return scores and probabilities of the ``visited`` nodes [N, depth] as one vector, without padding."""
    width = nodes.width
    column = add(op, unsqueeze(op, mul(op, visited, width), [2]), op.const(np.arange(width, dtype=np.int64)))
    # A path has no node beyond its end: read the last class instead, and drop it below.
    column = binary(op, "Min", column, nodes.rows.size - 1)
    column = reshape(op, column, [-1, depth * width])
    pairs = []
    for values in (scores, probabilities):
        read = op.emit("GatherElements", reshape(op, values, [-1, nodes.rows.size]), column, axis=1)
        pairs.append(reshape(op, read, [-1, depth, 1, width]))
    pair = op.emit("Concat", *pairs, axis=2)
    real = np.concatenate([nodes.real, np.zeros((1, width), bool)])
    kept = unsqueeze(op, op.emit("Gather", op.const(real), visited, axis=0), [2])
    kept = op.emit("Expand", kept, op.emit("Shape", pair))
    return op.emit("Compress", reshape(op, pair, [-1]), reshape(op, kept, [-1]), axis=0)


def _with_column(op: Op, x: Value, value: float) -> Value:
    """Append a column that holds ``value`` to a matrix."""
    pads = op.const([0, 0, 0, 1], np.int64)
    return op.emit("Pad", x, pads, op.const(value, x))
