"""What an adapter sees: one node, its operands, and the means to replace it by nodes that an earlier opset has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NoReturn, overload

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.interop.constants import constant_of
from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.types import BOOL, INT64
from caffe2_frontend.lowering.inference import infer_outputs

# The opset in which adapters write nodes; nodes that are younger than the target are adapted in turn.
MODERN: Final = 20


class InexpressibleError(Exception):
    """An opset cannot express a node. ``reason`` is a sentence without the opset's number."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Rewriter:
    """One node under adaptation. New nodes are collected in ``nodes``, in their order.

    Nodes of :meth:`emit` are of opset 20 and are adapted afterwards; nodes of :meth:`emit_old` are in the form of the
    target already.
    """

    def __init__(self, node: ir.Node, target: int, root: ir.Graph, names: Names) -> None:
        self.node = node
        self.target = target
        self.nodes: list[ir.Node] = []
        self.finished: set[ir.Node] = set()
        self._root = root
        self._names = names

    # Operands and attributes

    def has_input(self, index: int) -> bool:
        """Whether an optional operand is given."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def input(self, index: int) -> ir.Value:
        """Operand ``index``."""
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        if value is None:
            self.refuse(f"its input {index} is missing")
        return value

    def constant(self, index: int) -> Array | None:
        """The contents of operand ``index`` if they are known, else None."""
        return constant_of(self.node.inputs[index] if index < len(self.node.inputs) else None)

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        attr = self.node.attributes.get(name)
        return default if attr is None else attr.as_int()

    def number(self, name: str, default: float) -> float:
        """A float attribute."""
        attr = self.node.attributes.get(name)
        return default if attr is None else attr.as_float()

    def text(self, name: str, default: str) -> str:
        """A text attribute."""
        attr = self.node.attributes.get(name)
        text = default if attr is None else attr.value
        if not isinstance(text, str):
            self.refuse(f"attribute {name!r} must be UTF-8 text, not {text!r}")
        return text

    def rank(self, value: ir.Value) -> int:
        """The number of dims of a value; an unknown one is refused."""
        if value.shape is None:
            self.refuse(f"the rank of its operand {value.name!r} is unknown")
        return len(value.shape)

    def dtype(self, value: ir.Value) -> ir.DataType:
        """The element type of a value; an unknown one is refused."""
        if value.dtype is None:
            self.refuse(f"the element type of its operand {value.name!r} is unknown")
        return value.dtype

    # Changes

    def set(self, name: str, value: Any) -> None:
        """Set an attribute of the node."""
        self.node.attributes[name] = ir.convenience.convert_attribute(name, value)

    def drop(self, name: str, *neutral: Any) -> None:
        """Remove an attribute that has its default; any other value than those ``neutral`` is refused."""
        attr = self.node.attributes.get(name)
        if attr is None:
            return
        if attr.value not in neutral:
            self.refuse(f"its attribute {name} is {attr.value!r}")
        del self.node.attributes[name]

    def remove_inputs(self, count: int) -> None:
        """Keep only the first ``count`` operands."""
        for index in range(count, len(self.node.inputs)):
            self.node.replace_input_with(index, None)
        self.node.resize_inputs(min(count, len(self.node.inputs)))

    # Emission

    def const(self, array: Any, dtype: Any = None) -> ir.Value:
        """A constant: an initializer of the main graph, which all bodies see. ``dtype`` is NumPy's or ONNX's."""
        if isinstance(dtype, ir.DataType):
            dtype = dtype.numpy()
        tensor = ir.Tensor(np.asarray(array, dtype))
        name = tensor.name = self._names.fresh("const")
        value = ir.Value(
            name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()), const_value=tensor
        )
        self._root.register_initializer(value)
        return value

    @overload
    def emit(self, op_type: str, *inputs: ir.Value | None, outputs: Literal[1] = 1, **attrs: Any) -> ir.Value: ...
    @overload
    def emit(self, op_type: str, *inputs: ir.Value | None, outputs: int, **attrs: Any) -> Sequence[ir.Value]: ...
    def emit(
        self, op_type: str, *inputs: ir.Value | None, outputs: int = 1, **attrs: Any
    ) -> ir.Value | Sequence[ir.Value]:
        """Emit a node of opset 20 and return its output, or its outputs where ``outputs`` is not 1."""
        node = self._node(op_type, inputs, outputs, attrs)
        infer_outputs(node, MODERN)
        return node.outputs[0] if outputs == 1 else node.outputs

    def emit_old(self, op_type: str, *inputs: ir.Value | None, like: ir.Value, **attrs: Any) -> ir.Value:
        """Emit a node in the form of the target, whose output has the type and shape of ``like``."""
        node = self._node(op_type, inputs, 1, attrs)
        node.outputs[0].type, node.outputs[0].shape = like.type, like.shape
        self.finished.add(node)
        return node.outputs[0]

    def branch(self, name: str, make: Callable[[], ir.Value]) -> ir.Graph:
        """A body without inputs that outputs what ``make`` emits; it sees the values around it."""
        around, self.nodes = self.nodes, []
        value = make()
        graph = ir.Graph([], [value], nodes=self.nodes, name=name)
        self.nodes = around
        return graph

    def append(self, graph: ir.Graph, make: Callable[[], ir.Value]) -> ir.Value:
        """Append what ``make`` emits to a body of the node, in the form of the target, and return its value."""
        around, self.nodes = self.nodes, []
        value = make()
        graph.extend(self.nodes)
        self.nodes = around
        return value

    def loop(self, count: ir.Value, start: ir.Value, step: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
        """Apply ``step`` to the iteration (int64, a scalar) and the last value, ``count`` times from ``start`` on."""
        owner = self.node.op_type
        number = ir.Value(name=self._names.fresh(f"{owner}/i"), type=ir.TensorType(INT64), shape=ir.Shape([]))
        going = ir.Value(name=self._names.fresh(f"{owner}/going"), type=ir.TensorType(BOOL), shape=ir.Shape([]))
        value = ir.Value(name=self._names.fresh(f"{owner}/value"), type=start.type, shape=start.shape)
        around, self.nodes = self.nodes, []
        result = step(number, value)
        result.type, result.shape = start.type, start.shape
        still = self.emit("Identity", going)
        body = ir.Graph([number, going, value], [still, result], nodes=self.nodes, name=f"{owner}_loop")
        self.nodes = around
        always = self.const(True, BOOL)  # noqa: FBT003 - a tensor's element
        return self.emit_old("Loop", count, always, start, like=start, body=body)

    def _node(self, op_type: str, inputs: Sequence[ir.Value | None], outputs: int, attrs: Mapping[str, Any]) -> ir.Node:
        node = ir.Node(
            "",
            op_type,
            inputs,
            ir.convenience.convert_attributes(dict(attrs)),
            num_outputs=outputs,
            metadata_props=dict(self.node.metadata_props),
        )
        owner = next((value.name for value in self.node.outputs if value.name), self.node.op_type)
        for value in node.outputs:
            value.name = self._names.fresh(f"{owner}/{op_type}")
        self.nodes.append(node)
        return node

    def cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """A value in another element type."""
        return value if value.dtype == dtype else self.emit("Cast", value, to=int(dtype))

    def element(self, vector: ir.Value, index: int) -> ir.Value:
        """An element of a vector, as a scalar."""
        return self.emit("Gather", vector, self.const(index, np.int64), axis=0)

    def part(self, vector: ir.Value, start: int, end: int) -> ir.Value:
        """The elements of a vector from ``start`` up to ``end``."""
        return self.emit("Slice", vector, *(self.const([number], np.int64) for number in (start, end, 0)))

    def from_front(self, index: ir.Value, size: ir.Value) -> ir.Value:
        """Indices (int64) into a dim, the negative ones counted from the front."""
        is_negative = self.emit("Less", index, self.const(0, np.int64))
        return self.emit("Where", is_negative, self.emit("Add", index, size), index)

    def refuse(self, reason: str) -> NoReturn:
        """Say that the target cannot express the node."""
        raise InexpressibleError(reason)
