"""One node, and the means to change it, or to put other nodes in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import onnx_ir as ir

from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.rewriting.node_emitter import NodeEmitter
from caffe2_frontend.interop.rewriting.node_reader import NodeReader


class InexpressibleError(Exception):
    """A node cannot be written otherwise. ``reason`` is a sentence without the node."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NodeRewriter(NodeReader, NodeEmitter):
    """One node under adaptation. It changes in place; what is emitted goes before it with :meth:`commit`.

    Emitted nodes have the node's metadata, and values named after its first output.
    """

    def __init__(self, node: ir.Node, names: Names) -> None:
        NodeReader.__init__(self, node)
        NodeEmitter.__init__(self, node.metadata_props)
        self._names = names

    def refuse(self, reason: str) -> NoReturn:
        """Say that the node cannot be written otherwise. Raises InexpressibleError."""
        raise InexpressibleError(reason)

    def rank(self, value: ir.Value) -> int:
        """Return the number of dims of a value; refuse an unknown one."""
        if value.shape is None:
            self.refuse(f"the rank of operand {value.name!r} is unknown")
        return len(value.shape)

    def dtype(self, value: ir.Value) -> ir.DataType:
        """Return the element type of a value; refuse an unknown one."""
        if value.dtype is None:
            self.refuse(f"the element type of operand {value.name!r} is unknown")
        return value.dtype

    # Attributes

    def set(self, name: str, value: Any) -> None:
        """Set an attribute."""
        self.node.attributes[name] = ir.convenience.convert_attribute(name, value)

    def set_default(self, name: str, value: Any) -> None:
        """Set an attribute that the node does not have."""
        if not self.has(name):
            self.set(name, value)

    def pop_integer(self, name: str, default: int) -> int:
        """Remove an integer attribute, and return its value, or ``default``."""
        value = self.integer(name, default)
        self.node.attributes.pop(name, None)
        return value

    def pop_number(self, name: str, default: float) -> float:
        """Remove a float attribute, and return its value, or ``default``."""
        value = self.number(name, default)
        self.node.attributes.pop(name, None)
        return value

    def pop_integers(self, name: str) -> list[int]:
        """Remove a list of integers, and return it; empty where it is not given."""
        value = self.integers(name)
        self.node.attributes.pop(name, None)
        return value

    def pop_text(self, name: str, default: str) -> str:
        """Remove a text attribute, and return its value, or ``default``."""
        value = self.text(name, default)
        self.node.attributes.pop(name, None)
        return value

    def drop(self, name: str, *neutral: Any) -> None:
        """Remove an attribute that has its default; any other value than those ``neutral`` is refused."""
        attribute = self.node.attributes.pop(name, None)
        if attribute is not None and attribute.value not in neutral:
            self.refuse(f"its attribute {name} is {attribute.value!r}")

    # Operands

    def replace_input(self, index: int, value: ir.Value) -> None:
        """Replace an operand, or add it where the node has fewer."""
        if index >= len(self.node.inputs):
            self.node.resize_inputs(index + 1)
        self.node.replace_input_with(index, value)

    def keep_inputs(self, count: int) -> None:
        """Keep only the first ``count`` operands."""
        for index in range(count, len(self.node.inputs)):
            self.node.replace_input_with(index, None)
        self.node.resize_inputs(min(count, len(self.node.inputs)))

    # What replaces the node

    def commit(self, values: Sequence[ir.Value] | None) -> None:
        """Put the emitted nodes before the node, or in its place where ``values`` are those of its first outputs.

        A value that the new nodes did not make is copied.
        """
        graph = self.node.graph
        assert graph is not None
        if values is None:
            graph.insert_before(self.node, self.nodes)
            return
        made = {value for new in self.nodes for value in new.outputs}
        new = list(values[: len(self.node.outputs)])
        for index, value in enumerate(new):
            if value not in made or value in new[:index]:
                copy = ir.Node("", "Identity", [value], metadata_props=dict(self._metadata))
                self.nodes.append(copy)
                new[index] = copy.outputs[0]
        old = self.node.outputs[: len(new)]
        ir.convenience.replace_nodes_and_values(graph, self.node, [self.node], self.nodes, old, new)

    def _name(self, node: ir.Node) -> None:
        owner = next((value.name for value in self.node.outputs if value.name), self.node.op_type)
        for value in node.outputs:
            value.name = self._names.fresh(f"{owner}/{node.op_type}")
