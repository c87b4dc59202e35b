"""Hierarchical softmax: a word's probability is the product of those of the choices on the way to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import onnx_ir as ir

from caffe2_bridge.wire.read import WireError
from caffe2_frontend.emit.arithmetic import add, binary, mul
from caffe2_frontend.emit.operand_checks import takes
from caffe2_frontend.emit.shapes import cast, reshape, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.nn.softmax_tree import Choice, Step, read_choices, read_paths

family = Family("hierarchical_softmax")

_LEAST: Final = 1e-20
# Classes of all nodes, padded to the widest one: what has more is no tree.
_MOST: Final = 1 << 26
_FLOAT: Final = (ir.DataType.FLOAT,)
_WEIGHTS: Final = {
    0: TensorInfo(ir.DataType.FLOAT, (None, None)),
    1: TensorInfo(ir.DataType.FLOAT, (None, None)),
    2: TensorInfo(ir.DataType.FLOAT, (None,)),
    3: TensorInfo(ir.DataType.INT32, (None,)),
}
_Tree = TypeVar("_Tree")


@dataclass(frozen=True)
class _Nodes:
    """All nodes of a tree side by side.

    ``rows`` [nodes, width] are the rows of the weights, padded with 0; ``real`` says which are no padding. ``number``
    gives a node's place by (index, length).
    """

    rows: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    real: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    number: dict[tuple[int, int], int]

    @classmethod
    def of(cls, places: Sequence[Step | Choice]) -> _Nodes:
        nodes = list(dict.fromkeys((place.index, place.length) for place in places))
        column = np.arange(max(length for _, length in nodes))
        index, length = np.array(nodes, np.int64).T[:, :, None]
        real = column < length
        return cls(np.where(real, index + column, 0), real, {node: i for i, node in enumerate(nodes)})

    @property
    def width(self) -> int:
        return self.rows.shape[1]

    def at(self, place: Step | Choice) -> int:
        """The place of a choice among those of all nodes."""
        return self.number[place.index, place.length] * self.width + place.target


@family.converts("HSoftmax", expects=_WEIGHTS)
@takes(_FLOAT, 0, 1, 2)
def h_softmax(op: Op) -> tuple[Value, Value | None]:
    """The loss of each row's label; then, on the way to it, each node's scores and probabilities, one after another."""
    paths = _read(op, "hierarchy", read_paths)
    steps = [step for path in paths.values() for step in path]
    if not steps:
        op.unsupported("argument 'hierarchy' has no paths", code="invalid-argument")
    count = len({(step.index, step.length) for step in steps})
    if max(step.length for step in steps) * count > _MOST or any(not _is_sound(step) for step in steps):
        op.unsupported("argument 'hierarchy' has a step that its node does not have", code="invalid-argument")
    nodes = _Nodes.of(steps)
    scores, probabilities = _softmax(op, nodes)
    depth = max(map(len, paths.values()))
    labels = _word_positions(op, list(paths), reshape(op, cast(op, op.input(3), ir.DataType.INT64), [-1]))
    # Beyond the end of a path: a place behind the last one, where the probability is 1.
    places = np.full((len(paths), depth), nodes.rows.size, np.int64)
    for own, path in zip(places, paths.values(), strict=True):
        own[: len(path)] = [nodes.at(step) for step in path]
    flat = _with_column(op, reshape(op, probabilities, [-1, nodes.rows.size]), 1.0)
    chosen = op.emit("GatherElements", flat, op.emit("Gather", op.const(places), labels, axis=0), axis=1)
    losses = op.emit("Neg", op.emit("Log", binary(op, "Max", chosen, _LEAST)))
    loss = op.emit("ReduceSum", losses, op.const([1], np.int64), keepdims=0)
    if not op.wants(1):
        return loss, None
    visited = op.emit("Gather", op.const(places // nodes.width), labels, axis=0)
    return loss, _intermediate(op, nodes, visited, depth, scores, probabilities)


@family.converts("HSoftmaxSearch", expects=_WEIGHTS)
@takes(_FLOAT, 0, 1, 2)
def h_softmax_search(op: Op) -> tuple[Value, Value]:
    """The best choices of all nodes, words and inner ones, by the negative logarithm of their probability.

    What a node gives a probability below ``exp(-beam)`` does not count, nor what is below it. Places without a choice
    hold an empty name and 0.
    """
    choices = _read(op, "tree", read_choices)
    count, beam = op.args.integer("topN", default=5), op.args.number("beam", default=0.01)
    if not choices:
        op.unsupported("the tree has no nodes", code="invalid-argument")
    nodes = _Nodes.of(choices)
    _, probabilities = _softmax(op, nodes)
    costs = op.emit("Neg", op.emit("Log", binary(op, "Max", probabilities, _LEAST)))
    costs = _with_column(op, reshape(op, costs, [-1, nodes.rows.size]), 0.0)
    depth = 1 + max(len(choice.above) for choice in choices)
    # A choice and those above it; then a place behind the last one, where the cost is 0.
    places = np.full((len(choices), depth), nodes.rows.size, np.int64)
    for own, choice in zip(places, choices, strict=True):
        way = [*(choices[i] for i in choice.above), choice]
        own[: len(way)] = [nodes.at(step) for step in way]
    ways = op.emit("Gather", costs, op.const(places), axis=1)
    last = op.const([2], np.int64)
    total, worst = (op.emit(kind, ways, last, keepdims=0) for kind in ("ReduceSum", "ReduceMax"))
    total = op.emit("Where", binary(op, "Greater", worst, beam), op.const(np.inf, total), total)
    names = [choice.name for choice in choices] + [""] * max(count - len(choices), 0)
    for _ in range(len(choices), len(names)):
        total = _with_column(op, total, np.inf)
    best, which = op.emit("TopK", total, op.const([count], np.int64), axis=1, largest=0, outputs=2)
    found = op.emit("Gather", op.const(np.array(names, object)), which, axis=0)
    none = op.emit("IsInf", best)
    empty = op.const(np.array("", object))
    return op.emit("Where", none, empty, found), op.emit("Where", none, op.const(0.0, best), best)


def _read(op: Op, name: str, read: Callable[[bytes], _Tree]) -> _Tree:
    """A message in a string argument."""
    raw = op.args.raw(name)
    try:
        return read(raw.s if raw is not None else b"")
    except WireError as error:
        op.unsupported(f"argument {name!r} holds no tree: {error}", code="invalid-argument")


def _is_sound(step: Step) -> bool:
    return step.index >= 0 and 0 <= step.target < step.length


def _word_positions(op: Op, words: list[int], labels: Value) -> Value:
    """Where the labels stand among the words."""
    if words == list(range(len(words))):
        return labels
    same = op.emit("Equal", unsqueeze(op, labels, [1]), op.const(words, np.int64))
    return op.emit("ArgMax", cast(op, same, ir.DataType.INT32), axis=1, keepdims=0)


def _softmax(op: Op, nodes: _Nodes) -> tuple[Value, Value]:
    """The scores and the probabilities of each row in all nodes, [N, nodes, width]; padding has -inf and 0."""
    x, weight, bias = op.input(0), op.input(1), op.input(2)
    scores = op.emit("Gather", op.emit("Gemm", x, weight, bias, transB=1), op.const(nodes.rows), axis=1)
    scores = add(op, scores, op.const(np.where(nodes.real, 0, -np.inf), np.float32))
    return scores, op.emit("Softmax", scores, axis=-1)


def _intermediate(op: Op, nodes: _Nodes, visited: Value, depth: int, scores: Value, probabilities: Value) -> Value:
    """Scores and probabilities of the nodes ``visited`` [N, depth], without padding, as one vector."""
    width = nodes.width
    column = add(op, unsqueeze(op, mul(op, visited, width), [2]), op.const(np.arange(width)))
    # Beyond the end of a path there is no node; what is read there instead is left out.
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
    """A matrix with one column more, of one value."""
    pads = op.const([0, 0, 0, 1], np.int64)
    return op.emit("Pad", x, pads, op.const(value, x))
