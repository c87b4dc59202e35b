"""Registries by operator type: families of handlers, one file each, that are merged into one table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

H = TypeVar("H")


@dataclass
class Family(Generic[H]):
    """A named set of handlers by operator type.

    Subclasses offer decorators whose names say what a handler does: converters, importers and gradient makers.
    """

    name: str
    handlers: dict[str, H] = field(default_factory=dict)

    def add(self, handler: H, *op_types: str) -> None:
        """Register a handler for operator types. Raises ValueError for a type that has one in this family."""
        for op_type in op_types:
            if op_type in self.handlers:
                both = f"{_name(self.handlers[op_type])} and {_name(handler)}"
                raise ValueError(f"family {self.name!r} registers two handlers for {op_type}: {both}")
            self.handlers[op_type] = handler


def merge(families: Iterable[Family[H]]) -> dict[str, H]:
    """Return one table of all families. Raises ValueError for an operator type that two of them register."""
    table: dict[str, H] = {}
    owners: dict[str, str] = {}
    for family in families:
        for op_type, handler in family.handlers.items():
            if op_type in owners:
                raise ValueError(f"families {owners[op_type]!r} and {family.name!r} both register {op_type}")
            owners[op_type] = family.name
            table[op_type] = handler
    return table


def _name(handler: object) -> str:
    """Return the name of a function, or the text of another handler."""
    return getattr(handler, "__qualname__", None) or str(handler)
