"""One node under definition: its operands and attributes, and the ONNX operators that define it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

import numpy as np
import onnx_ir as ir

from caffe2_frontend.interop.operator_base import UnsupportedError
from caffe2_frontend.interop.rewriting.node_emitter import NodeEmitter
from caffe2_frontend.interop.rewriting.node_reader import NodeReader


class UndefinedError(Exception):
    """A node has a form that its definition does not cover."""


class Definition(NodeReader, NodeEmitter):
    """A function of ONNX operators under construction. None is an operand that is left out."""

    def __init__(self, node: ir.Node) -> None:
        NodeReader.__init__(self, node)
        NodeEmitter.__init__(self)
        self._inputs = [ir.Value(name=f"input_{i}") for i in range(len(node.inputs))]
        self._count = 0  # of all nodes, those of bodies too

    # What is defined

    @property
    def type(self) -> str:
        """The operator type."""
        return self.node.op_type

    def input(self, index: int) -> ir.Value:
        """Return an operand; the node is undefined where it is left out."""
        return self.optional(index) or self.undefined()

    def optional(self, index: int) -> ir.Value | None:
        """Return an operand, or None where it is left out."""
        return self._inputs[index] if self.has_input(index) else None

    def wants(self, index: int) -> bool:
        """Whether an output is listed and used."""
        return index < len(self.node.outputs) and bool(self.node.outputs[index].name)

    def rank(self, index: int) -> int:
        """Return the number of dims of an operand; the node is undefined where it is unknown."""
        shape = self._value(index).shape
        return self.undefined() if shape is None else len(shape)

    def dims(self, index: int) -> Sequence[int | ir.SymbolicDim]:
        """Return the dims of an operand; the node is undefined where its rank is unknown."""
        shape = self._value(index).shape
        return self.undefined() if shape is None else list(shape)

    def dtype(self, index: int) -> ir.DataType:
        """Return the element type of an operand; the node is undefined where it is unknown."""
        return self._value(index).dtype or self.undefined()

    def known(self, index: int) -> Any:
        """Return the contents of an operand; the node is undefined where they are computed at run time."""
        known = self._value(index).const_value
        return self.undefined() if known is None else known.numpy()

    def is_known(self, index: int) -> bool:
        """Whether the contents of an operand are known while importing."""
        return self._value(index).const_value is not None

    def required(self, name: str) -> int:
        """Return an integer attribute; the node is undefined where it does not have that."""
        return self.integer(name, 0) if self.has(name) else self.undefined()

    def tensor(self, name: str) -> ir.TensorProtocol | None:
        """Return a tensor attribute, None where it is not given."""
        given = self.attribute(name, ir.AttributeType.TENSOR)
        return None if given is None else given.as_tensor()

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; empty where it is not given."""
        given = self.attribute(name, ir.AttributeType.STRINGS)
        return [] if given is None else [self.decoded(name, text) for text in given.value]

    def texts_in(self, name: str, tensor: ir.TensorProtocol) -> list[str]:
        """Return the elements of a tensor attribute of strings."""
        try:
            return [bytes(text).decode() for text in tensor.numpy().reshape(-1).tolist()]
        except UnicodeDecodeError as error:
            self.refuse(f"attribute {name!r} must be UTF-8 text: {error}")

    def attributes(self, *names: str) -> dict[str, Any]:
        """Return the attributes of these names that are given."""
        return {name: self.node.attributes[name].value for name in names if name in self.node.attributes}

    def undefined(self) -> NoReturn:
        """Leave the node undefined. Raises UndefinedError."""
        raise UndefinedError

    # What is malformed

    def refuse(self, reason: str) -> NoReturn:
        """Refuse the node, which contradicts itself. Raises UnsupportedError."""
        raise UnsupportedError(reason, code="malformed-model")

    def require_lengths(self, count: int, lists: dict[str, Collection[Any]], *, optional: bool = False) -> None:
        """Refuse the node unless each of these attributes has ``count`` elements, or, where they may, none."""
        for name, values in lists.items():
            if len(values) != count and not (optional and not len(values)):
                self.refuse(f"attribute {name!r} must have {count} elements, not {len(values)}")

    def require_range(self, name: str, values: Any, count: int) -> None:
        """Refuse the node unless the elements of an attribute are from 0 to less than ``count``."""
        for value in values:
            if not 0 <= value < count:
                self.refuse(f"the elements of {name!r} must be from 0 to {count - 1}, and one is {value}")

    def _value(self, index: int) -> ir.Value:
        value = self.node.inputs[index] if self.has_input(index) else None
        return self.undefined() if value is None else value

    # What defines it

    __call__ = NodeEmitter.emit

    def const(self, array: Any, dtype: Any = ir.DataType.INT64) -> ir.Value:
        """Return a constant, of int64 unless it is said."""
        return super().const(array, dtype)

    def texts_of(self, values: Sequence[Any]) -> ir.Value:
        """Return a constant list of texts."""
        return self(
            "Constant", value=ir.StringTensor([str(value).encode() for value in values], shape=ir.Shape([len(values)]))
        )

    def ints(self, *values: int) -> ir.Value:
        """Return a list of integers, int64."""
        return self.const(np.array(values, np.int64))

    def like(self, value: float, operand: ir.Value) -> ir.Value:
        """Return a number in the element type of a value."""
        return self("CastLike", self.const(value, ir.DataType.FLOAT), operand)

    def dim(self, value: ir.Value, axis: int) -> ir.Value:
        """Return one dim of a value, int64 [1]."""
        return self("Shape", value, start=axis, end=axis + 1 or None)

    def reshape(self, value: ir.Value, *sizes: ir.Value | int) -> ir.Value:
        """Return a value in another shape, of integers and of lists of sizes; 0 keeps a dim and -1 is inferred."""
        parts = [self.ints(size) if isinstance(size, int) else size for size in sizes]
        return self("Reshape", value, self("Concat", *parts, axis=0))

    def add(self, value: ir.Value, other: ir.Value | None) -> ir.Value:
        """Return the sum with a value that may be left out."""
        return value if other is None else self("Add", value, other)

    def body_of(self, count: int, build: Callable[[Sequence[ir.Value]], Sequence[ir.Value]]) -> ir.Graph:
        """Return a body of ``count`` inputs; ``build`` makes its outputs of them, from nodes that it adds."""
        formals = [ir.Value(name=f"formal_{self._count}_{i}") for i in range(count)]
        self._count += 1
        return self.body(formals, lambda: build(formals))

    def function(self, outputs: Sequence[ir.Value]) -> ir.Function:
        """Return the function, of a domain and a name that the caller gives it."""
        return ir.Function("", self.type, graph=ir.Graph(self._inputs, outputs, nodes=self.nodes), attributes=[])

    def _name(self, node: ir.Node) -> None:
        for value in node.outputs:
            value.name = f"value_{self._count}_{value.index()}"
        self._count += 1
