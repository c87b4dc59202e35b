"""Typed access to the attributes of an ONNX node: the counterpart of ``Args`` for arguments of Caffe2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import onnx_ir as ir

from caffe2_backend.lowering.value import Array
from caffe2_frontend.interop.operator_base import UnsupportedError


@dataclass(frozen=True, slots=True)
class _Required:
    """The default of an attribute that has none."""


_REQUIRED: Final = _Required()


class Attributes:
    """Typed access to the attributes of a node.

    The kind asked for is the check. Without ``default`` an attribute is required. ``read`` holds the names asked for
    so far. Every accessor raises UnsupportedError where the attribute is missing or of another kind.
    """

    __slots__ = ("_attributes", "read")

    def __init__(self, attributes: Mapping[str, ir.Attr]) -> None:
        self._attributes = attributes
        self.read: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self._attributes

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    @property
    def unread(self) -> list[str]:
        """Names of the attributes that were not asked for yet."""
        return [name for name in self._attributes if name not in self.read]

    def ignore(self, *names: str) -> None:
        """Declare attributes that cannot change the result where they are ignored."""
        self.read.update(names)

    def raw(self, name: str) -> ir.Attr:
        """Return an attribute of any kind."""
        self.read.add(name)
        if name not in self._attributes:
            raise UnsupportedError(f"attribute {name!r} is missing", code="invalid-argument")
        return self._attributes[name]

    def _value(self, name: str, kind: ir.AttributeType, default: Any) -> Any:
        self.read.add(name)
        attr = self._attributes.get(name)
        if attr is None:
            if isinstance(default, _Required):
                reason = f"attribute {name!r} is missing: its kind is {kind.name}"
                raise UnsupportedError(reason, code="invalid-argument")
            return default
        if attr.type != kind:
            reason = f"attribute {name!r} must be {kind.name}, not {attr.type.name}"
            raise UnsupportedError(reason, code="invalid-argument")
        return attr.value

    def integer(self, name: str, default: int | _Required = _REQUIRED) -> int:
        """Return an integer attribute."""
        return int(self._value(name, ir.AttributeType.INT, default))

    def number(self, name: str, default: float | _Required = _REQUIRED) -> float:
        """Return a float attribute."""
        return float(self._value(name, ir.AttributeType.FLOAT, default))

    def flag(self, name: str, default: bool | _Required = _REQUIRED) -> bool:
        """Return a boolean attribute: an integer in the file, 0 or 1."""
        value = self._value(name, ir.AttributeType.INT, default)
        if value not in (0, 1):
            raise UnsupportedError(f"attribute {name!r} must be 0 or 1, not {value}", code="invalid-argument")
        return bool(value)

    def text(self, name: str, default: str | _Required = _REQUIRED) -> str:
        """Return a string attribute."""
        return _decoded(name, self._value(name, ir.AttributeType.STRING, default))

    def choice(self, name: str, *choices: str) -> str:
        """Return a string attribute that is one of several, the first of them by default."""
        text = self.text(name, choices[0])
        if text not in choices:
            reason = f"attribute {name!r} must be {', '.join(choices[:-1])} or {choices[-1]}, not {text!r}"
            raise UnsupportedError(reason, code="invalid-argument")
        return text

    def integers(self, name: str, default: tuple[int, ...] | _Required = _REQUIRED) -> tuple[int, ...]:
        """Return a list of integers."""
        return tuple(int(item) for item in self._value(name, ir.AttributeType.INTS, default))

    def numbers(self, name: str, default: tuple[float, ...] | _Required = _REQUIRED) -> tuple[float, ...]:
        """Return a list of floats."""
        return tuple(float(item) for item in self._value(name, ir.AttributeType.FLOATS, default))

    def texts(self, name: str, default: tuple[str, ...] | _Required = _REQUIRED) -> tuple[str, ...]:
        """Return a list of strings."""
        return tuple(_decoded(name, item) for item in self._value(name, ir.AttributeType.STRINGS, default))

    def tensor(self, name: str) -> Array:
        """Return a tensor."""
        array: Array = self._value(name, ir.AttributeType.TENSOR, _REQUIRED).numpy()
        return array

    def graph(self, name: str) -> ir.Graph:
        """Return a body."""
        graph: ir.Graph = self._value(name, ir.AttributeType.GRAPH, _REQUIRED)
        return graph


def _decoded(name: str, text: object) -> str:
    if not isinstance(text, str):
        raise UnsupportedError(f"attribute {name!r} must be UTF-8 text, not {text!r}", code="invalid-argument")
    return text
