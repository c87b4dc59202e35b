"""One node under definition: its operands and attributes, and the ONNX operators that define it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

import numpy as np
import onnx_ir as ir

from caffe2_frontend.interop.operator_base import UnsupportedError


class UndefinedError(Exception):
    """A node has a form that its definition does not cover."""


class Definition:
    """A function of ONNX operators under construction. None is an operand that is left out."""

    def __init__(self, node: ir.Node) -> None:
        self.node = node
        self._inputs = [ir.Value(name=f"input_{i}") for i in range(len(node.inputs))]
        self._nodes: list[ir.Node] = []
        self._count = 0  # of all nodes, those of bodies too

    # What is defined

    @property
    def type(self) -> str:
        """The operator type."""
        return self.node.op_type

    def has_input(self, index: int) -> bool:
        """Whether an operand is given."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def input(self, index: int) -> ir.Value:
        """An operand; the node is undefined where it is left out."""
        return self.optional(index) or self.undefined()

    def optional(self, index: int) -> ir.Value | None:
        """An operand, or None where it is left out."""
        return self._inputs[index] if self.has_input(index) else None

    def wants(self, index: int) -> bool:
        """Whether an output is listed and used."""
        return index < len(self.node.outputs) and bool(self.node.outputs[index].name)

    def rank(self, index: int) -> int:
        """The number of dims of an operand; the node is undefined where it is unknown."""
        shape = self._value(index).shape
        return self.undefined() if shape is None else len(shape)

    def dims(self, index: int) -> Sequence[int | ir.SymbolicDim]:
        """The dims of an operand; the node is undefined where its rank is unknown."""
        shape = self._value(index).shape
        return self.undefined() if shape is None else list(shape)

    def dtype(self, index: int) -> ir.DataType:
        """The element type of an operand; the node is undefined where it is unknown."""
        return self._value(index).dtype or self.undefined()

    def known(self, index: int) -> Any:
        """The contents of an operand; the node is undefined where they are computed at run time."""
        known = self._value(index).const_value
        return self.undefined() if known is None else known.numpy()

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute; the node is undefined where it has neither that nor a default."""
        given = self._attribute(name, ir.AttributeType.INT)
        value = default if given is None else given.as_int()
        return self.undefined() if value is None else value

    def number(self, name: str, default: float) -> float:
        """A float attribute."""
        given = self._attribute(name, ir.AttributeType.FLOAT)
        return default if given is None else given.as_float()

    def tensor(self, name: str) -> ir.TensorProtocol | None:
        """A tensor attribute, None where it is not given."""
        given = self._attribute(name, ir.AttributeType.TENSOR)
        return None if given is None else given.as_tensor()

    def text(self, name: str, default: str) -> str:
        """A text attribute."""
        given = self._attribute(name, ir.AttributeType.STRING)
        return default if given is None else self._decoded(name, given.value)

    def numbers(self, name: str) -> list[float]:
        """A list of floats; empty where it is not given."""
        given = self._attribute(name, ir.AttributeType.FLOATS)
        return [] if given is None else list(given.as_floats())

    def integers(self, name: str) -> list[int]:
        """A list of integers; empty where it is not given."""
        given = self._attribute(name, ir.AttributeType.INTS)
        return [] if given is None else list(given.as_ints())

    def texts(self, name: str) -> list[str]:
        """A list of texts; empty where it is not given."""
        given = self._attribute(name, ir.AttributeType.STRINGS)
        return [] if given is None else [self._decoded(name, text) for text in given.value]

    def texts_in(self, name: str, tensor: ir.TensorProtocol) -> list[str]:
        """The elements of a tensor attribute of strings."""
        try:
            return [bytes(text).decode() for text in tensor.numpy().reshape(-1).tolist()]
        except UnicodeDecodeError as error:
            self.malformed(f"attribute {name!r} must be UTF-8 text: {error}")

    def attributes(self, *names: str) -> dict[str, Any]:
        """The attributes of these names that are given."""
        return {name: self.node.attributes[name].value for name in names if name in self.node.attributes}

    def undefined(self) -> NoReturn:
        """Leave the node undefined. Raises UndefinedError."""
        raise UndefinedError

    # What is malformed

    def malformed(self, reason: str) -> NoReturn:
        """Refuse the node, which contradicts itself. Raises UnsupportedError."""
        raise UnsupportedError(reason, code="malformed-model")

    def require_lengths(self, count: int, lists: dict[str, Collection[Any]], *, optional: bool = False) -> None:
        """Refuse the node unless each of these attributes has ``count`` elements, or, where they may, none."""
        for name, values in lists.items():
            if len(values) != count and not (optional and not len(values)):
                self.malformed(f"attribute {name!r} must have {count} elements, not {len(values)}")

    def require_range(self, name: str, values: Any, count: int) -> None:
        """Refuse the node unless the elements of an attribute are from 0 to less than ``count``."""
        for value in values:
            if not 0 <= value < count:
                self.malformed(f"the elements of {name!r} must be from 0 to {count - 1}, and one is {value}")

    def _attribute(self, name: str, kind: ir.AttributeType) -> ir.Attr | None:
        """An attribute, which must be of a kind; None where it is not given."""
        given = self.node.attributes.get(name)
        if given is not None and given.type != kind:
            self.malformed(f"attribute {name!r} must be {kind.name}, not {given.type.name}")
        return given

    def _decoded(self, name: str, text: object) -> str:
        return text if isinstance(text, str) else self.malformed(f"attribute {name!r} must be UTF-8 text, not {text!r}")

    def _value(self, index: int) -> ir.Value:
        value = self.node.inputs[index] if self.has_input(index) else None
        return self.undefined() if value is None else value

    # What defines it

    def __call__(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """Add a node of one output and return that. Attributes that are None are left out."""
        return self.several(1, op_type, *inputs, **attributes)[0]

    def several(self, count: int, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> tuple[ir.Value, ...]:
        """Add a node and return its outputs."""
        given = ir.convenience.convert_attributes({k: value for k, value in attributes.items() if value is not None})
        node = ir.Node("", op_type, inputs, given, num_outputs=count)
        for value in node.outputs:
            value.name = f"value_{self._count}_{value.index()}"
        self._count += 1
        self._nodes.append(node)
        return tuple(node.outputs)

    def const(self, value: Any, dtype: ir.DataType = ir.DataType.INT64) -> ir.Value:
        """A constant."""
        return self("Constant", value=ir.Tensor(np.asarray(value, dtype.numpy())))

    def texts_of(self, values: Sequence[Any]) -> ir.Value:
        """A constant list of texts."""
        return self(
            "Constant", value=ir.StringTensor([str(value).encode() for value in values], shape=ir.Shape([len(values)]))
        )

    def ints(self, *values: int) -> ir.Value:
        """A list of integers, int64."""
        return self.const(np.array(values, np.int64))

    def like(self, value: float, operand: ir.Value) -> ir.Value:
        """A number in the element type of a value."""
        return self("CastLike", self.const(value, ir.DataType.FLOAT), operand)

    def cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """A value in another element type."""
        return self("Cast", value, to=int(dtype))

    def dim(self, value: ir.Value, axis: int) -> ir.Value:
        """One dim of a value, int64 [1]."""
        return self("Shape", value, start=axis, end=axis + 1 or None)

    def reshape(self, value: ir.Value, *sizes: ir.Value | int) -> ir.Value:
        """A value in another shape, of integers and of lists of sizes; 0 keeps a dim and -1 is inferred."""
        parts = [self.ints(size) if isinstance(size, int) else size for size in sizes]
        return self("Reshape", value, self("Concat", *parts, axis=0))

    def add(self, value: ir.Value, other: ir.Value | None) -> ir.Value:
        """The sum with a value that may be left out."""
        return value if other is None else self("Add", value, other)

    def body(self, count: int, build: Callable[[Sequence[ir.Value]], Sequence[ir.Value]]) -> ir.Graph:
        """A body of ``count`` inputs; ``build`` makes its outputs of them, from nodes that it adds."""
        formals = [ir.Value(name=f"formal_{self._count}_{i}") for i in range(count)]
        self._count += 1
        around, self._nodes = self._nodes, []
        results = build(formals)
        made, self._nodes = ir.Graph(formals, results, nodes=self._nodes, name="body"), around
        return made

    def function(self, outputs: Sequence[ir.Value]) -> ir.Function:
        """The function, of a domain and a name that the caller gives it."""
        return ir.Function("", self.type, graph=ir.Graph(self._inputs, outputs, nodes=self._nodes), attributes=[])
