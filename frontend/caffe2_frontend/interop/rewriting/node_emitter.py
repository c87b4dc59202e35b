"""Emission of nodes of ONNX's own operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir


class NodeEmitter(ABC):
    """Emits nodes into ``nodes``, in order.

    Passes differ in how they name values, in what they infer of them, and in where they keep constants.
    """

    def __init__(self, metadata: Mapping[str, str] | None = None) -> None:
        self.nodes: list[ir.Node] = []
        self._metadata = metadata or {}

    def emit(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """Emit a node of one output and return that. Attributes that are None are left out."""
        return self.several(1, op_type, *inputs, **attributes)[0]

    def several(self, count: int, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> tuple[ir.Value, ...]:
        """Emit a node of ``count`` outputs and return these."""
        node = self._added(count, op_type, inputs, attributes)
        self._infer(node)
        return tuple(node.outputs)

    def emit_like(self, like: ir.Value, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """Emit a node of one output, which has the type and shape of ``like``, and return that."""
        (output,) = self._added(1, op_type, inputs, attributes).outputs
        output.type, output.shape = like.type, like.shape
        return output

    def const(self, array: Any, dtype: Any = None) -> ir.Value:
        """Return a constant; ``dtype`` is NumPy's or ONNX's."""
        return self.emit("Constant", value=tensor_of(array, dtype))

    def cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """Return a value in another element type."""
        return value if value.dtype == dtype else self.emit("Cast", value, to=int(dtype))

    def body(self, formals: Sequence[ir.Value], make: Callable[[], Sequence[ir.Value]], name: str = "body") -> ir.Graph:
        """Return a body of these inputs, which outputs what ``make`` emits; it sees the values around it."""
        around, self.nodes = self.nodes, []
        results = make()
        graph = ir.Graph(formals, results, nodes=self.nodes, name=name)
        self.nodes = around
        return graph

    def _added(
        self, count: int, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any]
    ) -> ir.Node:
        given = ir.convenience.convert_attributes({k: value for k, value in attributes.items() if value is not None})
        node = ir.Node("", op_type, inputs, given, num_outputs=count, metadata_props=dict(self._metadata))
        self._name(node)
        self._add(node)
        return node

    def _add(self, node: ir.Node) -> None:
        self.nodes.append(node)

    @abstractmethod
    def _name(self, node: ir.Node) -> None:
        """Name the outputs of a new node."""

    def _infer(self, node: ir.Node) -> None:  # noqa: B027 - most passes infer the whole graph later
        """Set the types and shapes of a new node's outputs; nothing by default."""


def tensor_of(array: Any, dtype: Any = None) -> ir.Tensor[Any]:
    """Return a tensor; ``dtype`` is NumPy's or ONNX's."""
    return ir.Tensor(np.asarray(array, dtype.numpy() if isinstance(dtype, ir.DataType) else dtype))


def add_constant(graph: ir.Graph, name: str, array: Any, dtype: Any = None) -> ir.Value:
    """Add an initializer to a graph; ``dtype`` is NumPy's or ONNX's."""
    tensor = tensor_of(array, dtype)
    tensor.name = name
    shape = ir.Shape(tensor.shape.numpy())
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor)
    graph.register_initializer(value)
    return value
