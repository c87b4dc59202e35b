"""Updates of several states by one optimizer, joined into one update of all their elements in a row.

A node of a tiny net takes longer to start than to run, and most nodes of a training step belong to optimizers: Adam
needs 14 for every parameter. States of equal updates (see ``update_cones``) are therefore kept in one buffer, one after
another. The joined graph reads and returns that buffer, and concatenates the gradients; where a state itself is read,
such as a weight by the layer, it stays an input of the graph, to be bound to its part of the buffer. Every element is
computed from the same numbers by the same operators as before, so that the results are equal bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.runtime.program.buffers.buffer_set import JoinedBuffer
from caffe2_backend.runtime.program.states.graph_edits import static_shape
from caffe2_backend.runtime.program.states.update_cones import Update, updates
from caffe2_frontend.interop.rewriting.node_emitter import add_constant

# As many elements of a gradient are copied in the time that a node takes to start.
_COPIED: Final = 1024


@dataclass(frozen=True)
class Joined:
    """A model with joined updates, and the buffers of states that it reads and returns."""

    model: ir.Model
    buffers: tuple[JoinedBuffer, ...]


def join_updates(model: ir.Model, states: Mapping[str, str]) -> Joined | None:
    """Join equal updates in a copy of a model; None if that saves no node.

    Args:
        model: the model.
        states: graph outputs by input.
    """
    joined = model.clone()
    small = [update for update in updates(joined, states) if prod(update.shape) <= _COPIED * len(update.nodes)]
    found = sorted(small, key=lambda update: repr(update.key))
    buffers: list[JoinedBuffer] = []
    for _, group in groupby(found, key=lambda update: repr(update.key)):
        equal = list(group)
        if _saved(equal) > 0:
            buffers += _Joiner(joined.graph, equal, states, f"joined{len(buffers)}").buffers()
    if not buffers:
        return None
    joined.graph.sort()
    return Joined(joined, tuple(buffers))


def _saved(equal: Sequence[Update]) -> int:
    """Return how many nodes joining saves."""
    added = len(equal[0].leaves) + sum(_is_reshaped(leaf) for update in equal for leaf in update.leaves)
    return len(equal[0].nodes) * (len(equal) - 1) - added


def _is_reshaped(leaf: ir.Value) -> bool:
    return leaf.shape is None or len(leaf.shape) != 1


class _Joiner:
    """Joins equal updates in a graph, in place."""

    def __init__(self, graph: ir.Graph, equal: Sequence[Update], states: Mapping[str, str], prefix: str) -> None:
        self._graph = graph
        self._equal = equal
        self._states = states
        self._prefix = prefix
        self._first = equal[0]
        self._inputs = {str(value.name): value for value in graph.inputs}
        self._outputs = {str(value.name): value for value in graph.outputs}
        self._mapped: dict[ir.Value, ir.Value] = {}

    def buffers(self) -> list[JoinedBuffer]:
        """Join the updates, and return the buffers of their states."""
        read = {value for node in self._first.nodes for value in node.inputs}
        made = []
        for i, name in enumerate(self._first.states):
            old, new = self._inputs[name], self._outputs[self._states[name]]
            source = self._value(f"old{i}", old, self._rows())
            if old in read:
                self._graph.inputs.append(source)
            self._mapped[old] = source
            made.append((source, new))
        for i in range(len(self._first.leaves)):
            self._mapped[self._first.leaves[i]] = self._concatenated(i)
        for node in self._first.nodes:
            self._copy(node)
        found = []
        for i, (source, new) in enumerate(made):
            result = self._mapped[new]
            result.name = f"{self._prefix}/new{i}"
            self._graph.outputs.append(result)
            found.append(self._buffer(i, source, result))
        self._remove()
        return found

    def _rows(self) -> int:
        return sum(prod(update.shape) for update in self._equal)

    def _buffer(self, position: int, source: ir.Value, result: ir.Value) -> JoinedBuffer:
        names = [update.states[position] for update in self._equal]
        members = tuple((name, self._states[name], static_shape(self._inputs[name]) or ()) for name in names)
        assert source.dtype is not None
        return JoinedBuffer(str(source.name), str(result.name), source.dtype.numpy(), members)

    def _value(self, name: str, like: ir.Value, rows: int) -> ir.Value:
        """Return a value as one of the first update, but of so many rows in the place of its shape."""
        tail = (static_shape(like) or ())[self._first.rank :]
        return ir.Value(name=f"{self._prefix}/{name}", type=like.type, shape=ir.Shape([rows, *tail]))

    def _add(self, node: ir.Node, name: str, like: ir.Value, rows: int) -> ir.Value:
        found = self._value(name, like, rows)
        (output,) = node.outputs
        output.name, output.type, output.shape = found.name, found.type, found.shape
        self._graph.append(node)
        return output

    def _concatenated(self, position: int) -> ir.Value:
        """Return the leaves of all updates at a position, as rows."""
        rows = []
        for i, update in enumerate(self._equal):
            leaf = update.leaves[position]
            tail = (static_shape(leaf) or ())[update.rank :]
            if update.rank != 1:
                name = f"leaf{position}/{i}"
                shape = add_constant(self._graph, f"{self._prefix}/{name}/shape", [-1, *tail], np.int64)
                leaf = self._add(ir.node("Reshape", [leaf, shape]), name, leaf, prod(update.shape))
            rows.append(leaf)
        like = self._first.leaves[position]
        return self._add(ir.node("Concat", rows, {"axis": 0}), f"leaf{position}", like, self._rows())

    def _copy(self, node: ir.Node) -> None:
        """Copy a node of the first update as one on all rows."""
        (old,) = node.outputs
        inputs = [None if value is None else self._mapped.get(value, value) for value in node.inputs]
        attributes = dict(node.attributes)
        if node.op_type in ("Concat", "Gather"):
            attributes["axis"] = ir.AttrInt64("axis", 1)
        if node.op_type == "Unsqueeze":
            inputs[1] = add_constant(self._graph, f"{self._prefix}/{old.name}/axes", [1], np.int64)
        made = ir.Node("", node.op_type, inputs, attributes.values())
        self._mapped[old] = self._add(made, str(old.name), old, self._rows())

    def _remove(self) -> None:
        """Remove the updates, and the states that only they read."""
        for update in self._equal:
            for name in update.states:
                self._graph.outputs.remove(self._outputs[self._states[name]])
            self._graph.remove([*update.nodes], safe=False)
            for node in update.nodes:
                for i in range(len(node.inputs)):
                    node.replace_input_with(i, None)
            for name in update.states:
                old = self._inputs[name]
                if not (old.consumers() or old.is_graph_output()):
                    self._graph.inputs.remove(old)
