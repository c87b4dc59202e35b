"""Tables of adapters between opsets: for each operator, those that apply to opsets before a version of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

A = TypeVar("A")


class VersionRules(Generic[A]):
    """Adapters by operator type, each with the version before which it applies.

    Args:
        latest_first: whether those of the latest versions come first, as a conversion to an earlier opset needs them;
            else those of the earliest do.
    """

    def __init__(self, *, latest_first: bool) -> None:
        self._latest_first = latest_first
        self._adapters: dict[str, list[tuple[int, A]]] = {}

    def before(self, version: int, *op_types: str) -> Callable[[A], A]:
        """Register an adapter of operator types for opsets before ``version``."""

        def register(adapter: A) -> A:
            for op_type in op_types:
                self._add(op_type, version, adapter)
            return adapter

        return register

    def include(self, *tables: VersionRules[A]) -> None:
        """Add the adapters of other tables."""
        for table in tables:
            for op_type, known in table._adapters.items():  # noqa: SLF001 - of the same class
                for version, adapter in known:
                    self._add(op_type, version, adapter)

    @property
    def operators(self) -> frozenset[str]:
        """The operator types that have adapters."""
        return frozenset(self._adapters)

    def find(self, op_type: str, opset: int) -> list[A]:
        """Return the adapters of an operator type that apply to an opset, in the order of the table."""
        return [adapter for version, adapter in self._adapters.get(op_type, ()) if opset < version]

    def _add(self, op_type: str, version: int, adapter: A) -> None:
        known = self._adapters.setdefault(op_type, [])
        if any(version == other for other, _ in known):
            raise ValueError(f"{op_type} has two adapters for opsets before {version}")
        known.append((version, adapter))
        known.sort(key=lambda pair: pair[0], reverse=self._latest_first)
