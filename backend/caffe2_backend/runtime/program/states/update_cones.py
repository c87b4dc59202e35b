"""What updates the states of a training step, one element at a time, in a form that can be compared between states.

The *cone* of a state is the part of the graph that computes the state's output from values of its shape, element by
element: the formula of an optimizer. The cones of a parameter and its moments share nodes, and form one *update*.
Updates of different parameters by the same optimizer differ in shapes only: they have equal keys.

Values of a cone have the shape of the state, S, or S and one more dim (FTRL keeps two numbers for each element). All
nodes treat the dims of S alike, so that the cone computes the same on any other shape in the place of S, such as the
elements of many states in a row. Its operators are exactly rounded or copy elements: an element does not depend on its
position, as it may in a vectorized logarithm or in a maximum with NaN.

Nothing but the cone and the graph's outputs reads the values that a cone computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from caffe2_backend.runtime.program.states.graph_edits import Shape, are_alike, static_shape
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.operators import EXACT


@dataclass(frozen=True)
class Update:
    """The update of some states by one cone.

    Attributes:
        states: their inputs, in the order in which the graph's states were given.
        shape: of the states, without the additional dim that some may have.
        nodes: the cone, each after those that it reads.
        leaves: the values that it reads that have the shape and are neither states of the update nor in the cone.
        key: equal to that of another update if the cones are equal but for the shape, the states and the leaves.
    """

    states: tuple[str, ...]
    shape: Shape
    nodes: tuple[ir.Node, ...]
    leaves: tuple[ir.Value, ...]
    key: Any = field(repr=False)

    @property
    def rank(self) -> int:
        """The rank of the shape."""
        return len(self.shape)


def updates(model: ir.Model, states: Mapping[str, str]) -> list[Update]:
    """Return the updates of a graph's states.

    Args:
        model: the model.
        states: graph outputs by input.
    """
    inputs = {value.name: value for value in model.graph.inputs}
    outputs = {value.name: value for value in model.graph.outputs}
    pairs = {inputs[name]: outputs[output] for name, output in states.items()}
    nodes = _closed({node for new in pairs.values() for node in _cone(new)}, set(pairs.values()))
    # Cones that share a node are one update: a parameter and its moments. A new cone may join several groups.
    groups: list[tuple[list[ir.Value], set[ir.Node]]] = []
    for old, new in pairs.items():
        if new.producer() not in nodes or not are_alike(old, new):
            continue
        olds, cone = [old], set(_in_order([new.producer()], nodes))
        for group in [group for group in groups if not cone.isdisjoint(group[1])]:
            groups.remove(group)
            olds, cone = [*group[0], *olds], cone | group[1]
        groups.append((olds, cone))
    order = list(pairs)
    found = (_update({old: pairs[old] for old in sorted(olds, key=order.index)}, nodes) for olds, _ in groups)
    return [update for update in found if update is not None]


def _cone(new: ir.Value) -> Iterator[ir.Node]:
    """Yield the nodes that may be in the cone of a state, from the last on, each once."""
    seen = set()
    waiting = [new.producer()]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen or not (_is_elementwise(node) or _is_of_last_axis(node)):
            continue
        seen.add(node)
        yield node
        waiting += [value.producer() for value in _operands(node)]


def _closed(nodes: set[ir.Node], outputs: set[ir.Value]) -> set[ir.Node]:
    """Return those of the nodes whose values no other node, and no other output of the graph, reads."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        value = node.outputs[0]
        # To a fixed point: a node that leaves may be the reader that makes its operands leave, too.
        if node in nodes and (
            not nodes.issuperset(value.consumers()) or (value.is_graph_output() and value not in outputs)
        ):
            nodes.discard(node)
            waiting += [source for source in (v.producer() for v in _operands(node)) if source is not None]
    return nodes


def _operands(node: ir.Node) -> list[ir.Value]:
    """Return the operands that have the shape of the cone: not indices, axes, and single numbers for all elements."""
    if node.op_type in ("Gather", "Unsqueeze"):
        return [value for value in node.inputs[:1] if value is not None]
    shape = static_shape(node.outputs[0])
    return [value for value in node.inputs if value is not None and not _is_number(value, shape)]


def _is_number(value: ir.Value, shape: Shape | None) -> bool:
    own = static_shape(value)
    return own is not None and (own == () or (own == (1,) and own != shape))


def _is_single(node: ir.Node) -> bool:
    return is_standard(node) and len(node.outputs) == 1


def _is_elementwise(node: ir.Node) -> bool:
    shape = static_shape(node.outputs[0])
    if node.op_type not in EXACT or not _is_single(node) or not shape:
        return False
    operands = _operands(node)
    return bool(operands) and all(static_shape(value) == shape for value in operands)


def _is_of_last_axis(node: ir.Node) -> bool:
    """Whether a node selects an element of the last axis, adds a last axis, or concatenates along it."""
    shape = static_shape(node.outputs[0])
    if node.op_type not in ("Concat", "Gather", "Unsqueeze") or not _is_single(node) or not shape:
        return False
    first = node.inputs[0]
    rank = None if first is None or first.shape is None else len(first.shape)
    if rank is None:
        return False
    if node.op_type == "Concat":
        return node.attributes["axis"].as_int() in (-1, rank - 1)
    other = node.inputs[1]
    if other is None or other.const_value is None:
        return False
    if node.op_type == "Unsqueeze":
        return other.const_value.numpy().tolist() in ([-1], [rank])
    axis = node.attributes.get("axis")
    return static_shape(other) == () and axis is not None and axis.as_int() in (-1, rank - 1)


def _update(pairs: Mapping[ir.Value, ir.Value], nodes: set[ir.Node]) -> Update | None:
    """Return the update of states that share nodes; None if their shapes do not fit."""
    shapes = [static_shape(old) or () for old in pairs]
    # The states of one update have the shape S, or S and one more dim: the shortest is S.
    shape = min(shapes, key=len)
    numbers: dict[ir.Node, int] = {}
    leaves: dict[ir.Value, int] = {}
    olds = {old: i for i, old in enumerate(pairs)}
    key: list[Any] = []

    def tail(value: ir.Value) -> Any:
        """Return the element type, and the dims after those of the shape; None if the value has another shape."""
        own = static_shape(value) or ()
        fits = own[: len(shape)] == shape and len(own) <= len(shape) + 1
        return (value.dtype, own[len(shape) :]) if fits else None

    def reference(value: ir.Value) -> Any:
        if value in olds:
            return ("state", olds[value])
        producer = value.producer()
        if producer in numbers:
            return ("node", numbers[producer])
        return ("leaf", leaves.setdefault(value, len(leaves)), tail(value))

    for node in _in_order([new.producer() for new in pairs.values()], nodes):
        operands = _operands(node)
        parts = [
            None if value is None else reference(value) if value in operands else ("number", value.name)
            for value in node.inputs
        ]
        # Axes count from the end of S: -1 and the rank mean the same, so that they are not part of the key.
        parts = parts[:1] if node.op_type == "Unsqueeze" else parts
        attributes = tuple((name, attr.value) for name, attr in sorted(node.attributes.items()) if name != "axis")
        key.append((node.op_type, attributes, tuple(parts), tail(node.outputs[0])))
        numbers[node] = len(numbers)
    key += [(numbers.get(new.producer()), tail(old)) for old, new in pairs.items()]  # type: ignore[arg-type]
    values = [*pairs, *leaves, *(node.outputs[0] for node in numbers)]
    if not shape or any(tail(value) is None for value in values):
        return None
    return Update(tuple(str(old.name) for old in pairs), shape, tuple(numbers), tuple(leaves), tuple(key))


def _in_order(roots: Sequence[ir.Node | None], nodes: set[ir.Node]) -> list[ir.Node]:
    """Return the nodes that the roots need, each after those that it reads, ordered only by their structure."""
    found: dict[ir.Node, None] = {}
    waiting = [(root, False) for root in reversed(roots)]
    while waiting:
        node, ready = waiting.pop()
        if node is None or node not in nodes or node in found:
            continue
        if ready:
            found[node] = None
            continue
        waiting.append((node, True))
        waiting += [(value.producer(), False) for value in reversed(_operands(node))]
    return list(found)
