"""The operands and attributes of one ONNX node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NoReturn

import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.interop.constants import constant_of


class NodeReader(ABC):
    """Reads a node, which is refused where it has another form than its operator."""

    def __init__(self, node: ir.Node) -> None:
        self.node = node

    @abstractmethod
    def refuse(self, reason: str) -> NoReturn:
        """Refuse the node. ``reason`` is a sentence without the node."""

    def has_input(self, index: int) -> bool:
        """Whether an optional operand is given."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def input(self, index: int) -> ir.Value:
        """Return operand ``index``."""
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        return self.refuse(f"input {index} is missing") if value is None else value

    def constant(self, index: int) -> Array | None:
        """Return the contents of operand ``index`` if they are known, else None."""
        return constant_of(self.node.inputs[index] if index < len(self.node.inputs) else None)

    def has(self, name: str) -> bool:
        """Whether the node has an attribute."""
        return name in self.node.attributes

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        given = self.attribute(name, ir.AttributeType.INT)
        return default if given is None else given.as_int()

    def number(self, name: str, default: float) -> float:
        """Return a float attribute."""
        given = self.attribute(name, ir.AttributeType.FLOAT)
        return default if given is None else given.as_float()

    def text(self, name: str, default: str) -> str:
        """Return a text attribute."""
        given = self.attribute(name, ir.AttributeType.STRING)
        return default if given is None else self.decoded(name, given.value)

    def integers(self, name: str) -> list[int]:
        """Return a list of integers; empty where it is not given."""
        given = self.attribute(name, ir.AttributeType.INTS)
        return [] if given is None else list(given.as_ints())

    def numbers(self, name: str) -> list[float]:
        """Return a list of floats; empty where it is not given."""
        given = self.attribute(name, ir.AttributeType.FLOATS)
        return [] if given is None else list(given.as_floats())

    def attribute(self, name: str, kind: ir.AttributeType) -> ir.Attr | None:
        """Return an attribute, which must be of a kind; None where it is not given."""
        given = self.node.attributes.get(name)
        if given is not None and given.type != kind:
            self.refuse(f"attribute {name!r} must be {kind.name}, not {given.type.name}")
        return given

    def decoded(self, name: str, text: object) -> str:
        """Return the text of an attribute, which must be UTF-8."""
        return text if isinstance(text, str) else self.refuse(f"attribute {name!r} must be UTF-8 text, not {text!r}")
