"""One node of an early opset: its operands and attributes, and the means to replace it by nodes of a later one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.interop.constants import constant_of
from caffe2_frontend.interop.names import Names

Ranks = Mapping[str, int]
"""The ranks of values, by name."""


class OldNodeError(Exception):
    """A node cannot be converted to a later opset. ``reason`` is a sentence without the node."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RanksNeededError(Exception):
    """The conversion of a node depends on a rank, and ranks are not inferred yet."""


class OldNode:
    """One node under conversion. Nothing of it changes before :meth:`commit`."""

    def __init__(self, node: ir.Node, names: Names, ranks: Ranks | None) -> None:
        self.node = node
        self.nodes: list[ir.Node] = []
        self._names = names
        self._ranks = ranks
        self._removed: list[str] = []
        self._set: dict[str, Any] = {}
        self._inputs: list[ir.Value | None] = list(node.inputs)

    def has_input(self, index: int) -> bool:
        """Whether an optional operand is given."""
        return index < len(self._inputs) and self._inputs[index] is not None

    def input(self, index: int) -> ir.Value:
        """Operand ``index``."""
        value = self._inputs[index] if index < len(self._inputs) else None
        if value is None:
            raise OldNodeError(f"input {index} is missing")
        return value

    def constant(self, index: int) -> Array | None:
        """The values of an operand if they are constant, else None."""
        return constant_of(self.input(index))

    def rank(self, value: ir.Value) -> int:
        """The number of dims of a value. Raises RanksNeededError before ranks are inferred."""
        if value.shape is not None:
            return len(value.shape)
        if self._ranks is None:
            raise RanksNeededError
        if str(value.name) not in self._ranks:
            raise OldNodeError(f"the rank of operand {value.name!r} is unknown")
        return self._ranks[str(value.name)]

    def has(self, name: str) -> bool:
        """Whether the node has an attribute."""
        return name in self.node.attributes

    def pop(self, name: str, read: Callable[[ir.Attr], Any], default: Any = None) -> Any:
        """Remove an attribute, and return its value, or ``default``."""
        attr = self.node.attributes.get(name)
        if attr is None:
            return default
        self._removed.append(name)
        try:
            return read(attr)
        except TypeError:
            raise OldNodeError(f"attribute {name!r} is of type {attr.type.name.lower()}") from None

    def pop_integer(self, name: str, default: int) -> int:
        """Remove an integer attribute, and return its value, or ``default``."""
        return int(self.pop(name, ir.Attr.as_int, default))

    def pop_number(self, name: str, default: float) -> float:
        """Remove a float attribute, and return its value, or ``default``."""
        return float(self.pop(name, ir.Attr.as_float, default))

    def pop_integers(self, name: str) -> list[int] | None:
        """Remove an attribute that is a list of integers, and return its value."""
        value = self.pop(name, ir.Attr.as_ints)
        return None if value is None else list(value)

    def pop_text(self, name: str, default: str) -> str:
        """Remove a text attribute, and return its value, or ``default``."""
        return str(self.pop(name, ir.Attr.as_string, default))

    def set(self, name: str, value: Any) -> None:
        """Set an attribute."""
        self._set[name] = value

    def set_default(self, name: str, value: Any) -> None:
        """Set an attribute that the node does not have."""
        if not self.has(name):
            self.set(name, value)

    def replace_input(self, index: int, value: ir.Value) -> None:
        """Replace an operand."""
        self._inputs[index] = value

    def keep_inputs(self, count: int) -> None:
        """Remove the operands after the first ``count``."""
        del self._inputs[count:]

    def add_input(self, value: ir.Value) -> None:
        """Append an operand."""
        self._inputs.append(value)

    def const(self, values: Any, dtype: Any) -> ir.Value:
        """Emit a constant."""
        return self.emit("Constant", value=ir.Tensor(np.asarray(values, dtype)))

    def emit(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """Emit a node with one output, and return that."""
        node = ir.Node("", op_type, inputs, ir.convenience.convert_attributes(attributes), num_outputs=1)
        node.metadata_props.update(self.node.metadata_props)
        node.name = self.node.name
        owner = next((value.name for value in self.node.outputs if value.name), self.node.op_type)
        node.outputs[0].name = self._names.fresh(f"{owner}/{op_type}")
        self.nodes.append(node)
        return node.outputs[0]

    def only_output(self) -> None:
        """Raise OldNodeError where the node has more outputs than the first."""
        if any(value.name for value in self.node.outputs[1:]):
            raise OldNodeError("only the first output can be computed")

    def refuse(self, reason: str) -> NoReturn:
        """Raise OldNodeError."""
        raise OldNodeError(reason)

    def commit(self, result: ir.Value | None) -> None:
        """Change the node, or replace it by ``result`` where that is given, in its graph."""
        graph = self.node.graph
        assert graph is not None
        if result is not None:
            old = [self.node.outputs[0]]
            ir.convenience.replace_nodes_and_values(graph, self.node, [self.node], self.nodes, old, [result])
            return
        graph.insert_before(self.node, self.nodes)
        for name in self._removed:
            del self.node.attributes[name]
        for name, value in self._set.items():
            self.node.attributes[name] = ir.convenience.convert_attribute(name, value)
        self._commit_inputs(self._inputs)

    def _commit_inputs(self, inputs: Sequence[ir.Value | None]) -> None:
        self.node.resize_inputs(len(inputs))
        for index, value in enumerate(inputs):
            if self.node.inputs[index] is not value:
                self.node.replace_input_with(index, value)
