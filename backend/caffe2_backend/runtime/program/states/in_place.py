"""Which states of a step may be updated in place: a proof on the graph that runs, for every order of its nodes.

A *state* is an input of a graph that one of its outputs replaces, such as a parameter in training. Bound to one buffer,
input and output are the same memory: whoever reads the input after the output's node has run finds the new value. The
proof must hold for every topological order of the nodes, and for nodes that run at the same time, because only
onnxruntime knows its order. It is on the graph that onnxruntime has optimized, which is then run without any further
optimization: a fusion might merge a reader with the writer.

Let A be the values that may share the state's memory: the input itself, and outputs of nodes that may return a view of
a value of A. Node W writes the output. Claim: the run is the same as with two buffers if

1. no value of A is an output of the graph, and so W's output is not in A;
2. every node other than W that reads a value of A is an ancestor of W: then it has ended before W starts, in any
   order, and reads the old value. onnxruntime itself never writes into an input's buffer, or into a view of it;
3. if W reads values of A, it reads only the input itself, and computes each element from elements at the same position
   (+, -, *, /) or changes some elements and keeps the others (ScatterND, ScatterElements, first operand only).
   onnxruntime's kernels of these operators are declared to work in place;
4. input and output have the same element type and the same static shape: the buffer fits.

Other nodes read W's output only after W; what they read is the new value, as they should.

A reader that is not an ancestor, such as a second lookup in a table, can be made one if it is not a descendant either:
``order_readers`` lets a scatter's indices depend on the reader's output, through its shape, of which no dim is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.runtime.program.states.graph_edits import are_alike, remove_unread, static_shape
from caffe2_frontend.interop.bodies import captured_values, has_bodies
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.operators import SEQUENCE_MAKERS, SEQUENCE_READERS, VIEWS
from caffe2_frontend.interop.rewriting.node_emitter import add_constant

SCATTERS: Final = frozenset({"ScatterElements", "ScatterND"})
_ELEMENTWISE: Final = frozenset({"Add", "Div", "Mul", "Sub"})
# Operators of ONNX whose output may share the memory of an operand. Nodes of other domains, and those with bodies, are
# taken for such operators, too.
_VIEWS: Final = VIEWS | SEQUENCE_MAKERS | SEQUENCE_READERS | {
    "Cast", "CastLike", "Dropout", "Expand", "Optional", "OptionalGetElement", "Transpose",
}  # fmt: skip
_SHAPE_SLICES: Final = 15  # the opset from which Shape has start and end


class _Order:
    """What must run before what, among the nodes of a graph; a node reads what its bodies capture."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self._reads: dict[ir.Node, set[ir.Value]] = {}
        self._readers: dict[ir.Value, set[ir.Node]] = {}
        for node in graph:
            read = {*(value for value in node.inputs if value is not None), *captured_values(node)}
            self._reads[node] = read
            for value in read:
                self._readers.setdefault(value, set()).add(node)

    def reads(self, node: ir.Node) -> set[ir.Value]:
        """Return the values that a node or its bodies read."""
        return self._reads[node]

    def readers(self, values: set[ir.Value]) -> set[ir.Node]:
        """Return the nodes that read any of some values, or whose bodies do."""
        return {node for value in values for node in self._readers.get(value, ())}

    def ancestors(self, node: ir.Node) -> set[ir.Node]:
        """Return the nodes that must run before a node."""
        found: set[ir.Node] = set()
        waiting = [node]
        while waiting:
            for value in self._reads[waiting.pop()]:
                source = value.producer()
                if source is not None and source not in found:
                    found.add(source)
                    waiting.append(source)
        return found

    def aliases(self, value: ir.Value) -> set[ir.Value]:
        """Return the values that may share the memory of a value, itself included."""
        found = {value}
        waiting = [value]
        # A view of a view shares the memory, too: follow readers until no new value is found.
        while waiting:
            for node in self.readers({waiting.pop()}):
                if _may_return_view(node):
                    waiting += (fresh := {*node.outputs} - found)
                    found |= fresh
        return found


def updated_in_place(model: ir.Model, states: Mapping[str, str]) -> set[str]:
    """Return the states, by input, that may be updated in place, of those in ``states``: outputs by input."""
    order = _Order(model.graph)
    return {name for name, pair in _pairs(model, states).items() if are_alike(*pair) and _is_safe(order, *pair)}


def scattered(model: ir.Model, states: Mapping[str, str]) -> set[str]:
    """Return the states whose output a scatter writes into the input: those of which a step changes some elements."""
    return {name for name, (old, new) in _pairs(model, states).items() if _scatters_into(new.producer(), old)}


def order_readers(model: ir.Model, states: Mapping[str, str]) -> None:
    """Make readers of scattered states ancestors of the scatter, in place, where they are neither that nor descendants.

    Args:
        model: the model.
        states: outputs by input.
    """
    if model.graph.opset_imports.get("", 0) < _SHAPE_SLICES:
        return
    pairs = _pairs(model, states)
    for name in sorted(scattered(model, states)):
        old, new = pairs[name]
        scatter = new.producer()
        assert scatter is not None
        # Anew for each state: an earlier one has added nodes that must be ordered, too.
        order = _Order(model.graph)
        readers = order.readers(order.aliases(old))
        late = [node for node in model.graph if node in readers - order.ancestors(scatter) - {scatter}]
        if late and all(_can_precede(node) and scatter not in order.ancestors(node) for node in late):
            _depend(model.graph, scatter, late)


def _pairs(model: ir.Model, states: Mapping[str, str]) -> dict[str, tuple[ir.Value, ir.Value]]:
    """Return the input and the output of each state."""
    inputs = {value.name: value for value in model.graph.inputs}
    outputs = {value.name: value for value in model.graph.outputs}
    return {name: (inputs[name], outputs[output]) for name, output in states.items()}


def _is_safe(order: _Order, old: ir.Value, new: ir.Value) -> bool:
    """Whether claims 1 to 3 of the module's docstring hold for a state."""
    writer = new.producer()
    aliases = order.aliases(old)
    # An output that shares the memory of the state would change after it was returned.
    if writer is None or any(value in aliases for value in order.graph.outputs):
        return False
    # Nothing orders a reader that is not an ancestor of the writer: it may see the new value.
    if not order.readers(aliases) - {writer} <= order.ancestors(writer):
        return False
    # The writer itself may read the old value only element by element, and not through a view, whose
    # elements may lie elsewhere.
    used = order.reads(writer) & aliases
    return not used or (used == {old} and _works_in_place(writer, old))


def _works_in_place(node: ir.Node, old: ir.Value) -> bool:
    return _scatters_into(node, old) or (node.op_type in _ELEMENTWISE and is_standard(node))


def _scatters_into(node: ir.Node | None, old: ir.Value) -> bool:
    if node is None or node.op_type not in SCATTERS or not is_standard(node):
        return False
    return node.inputs[0] is old and old not in node.inputs[1:]


def _may_return_view(node: ir.Node) -> bool:
    return not is_standard(node) or node.op_type in _VIEWS or has_bodies(node)


def _can_precede(node: ir.Node) -> bool:
    """Whether a node's first output is certainly a tensor."""
    return is_standard(node) and "Sequence" not in node.op_type and not has_bodies(node) and bool(node.outputs[0].name)


def _depend(graph: ir.Graph, scatter: ir.Node, readers: list[ir.Node]) -> None:
    """Let the indices of a scatter depend on the readers' outputs: reshaped to their own shape and no dims of those."""
    indices = scatter.inputs[1]
    assert indices is not None
    prefix = f"{scatter.outputs[0].name}/after"

    def make(op_type: str, inputs: list[ir.Value | None], name: str, **attributes: int) -> ir.Value:
        node = ir.node(op_type, inputs, attributes)
        node.outputs[0].name = f"{prefix}/{name}"
        graph.insert_before(scatter, node)
        return node.outputs[0]

    # A Shape from 0 to 0 reads no dim, yet waits for the reader; concatenated, it adds nothing.
    empty = [make("Shape", [node.outputs[0]], str(i), start=0, end=0) for i, node in enumerate(readers)]
    known = static_shape(indices)
    shape = (
        make("Shape", [indices], "shape") if known is None else add_constant(graph, f"{prefix}/shape", known, np.int64)
    )
    column = indices.producer()
    if known and all(known) and column is not None and column.op_type == "Unsqueeze":
        indices = column.inputs[0]  # both reshape the same elements
    dims = make("Concat", [shape, *empty], "dims", axis=0)
    scatter.replace_input_with(1, make("Reshape", [indices, dims], "indices"))
    remove_unread(graph, column)
    graph.sort()
