"""Tables of adapters: for each operator, what a node of an opset before a version becomes."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from caffe2_backend.opsets.old_node import OldNode

# Returns the value that replaces the node's first output, or changes the node, and returns None.
Adapter = Callable[[OldNode], ir.Value | None]


class Rules:
    """Adapters by operator type, each with the opset before which it applies, in the order of the opsets."""

    def __init__(self) -> None:
        self._adapters: dict[str, list[tuple[int, Adapter]]] = {}

    def before(self, version: int, *op_types: str) -> Callable[[Adapter], Adapter]:
        """Register an adapter of operator types for models of an opset before ``version``."""

        def register(adapter: Adapter) -> Adapter:
            for op_type in op_types:
                known = self._adapters.setdefault(op_type, [])
                known.append((version, adapter))
                known.sort(key=lambda pair: pair[0])
            return adapter

        return register

    @classmethod
    def merged(cls, *tables: Rules) -> Rules:
        """One table of several."""
        result = cls()
        for table in tables:
            for op_type, known in table._adapters.items():  # noqa: SLF001 - of the same class
                for version, adapter in known:
                    result.before(version, op_type)(adapter)
        return result

    @property
    def operators(self) -> frozenset[str]:
        """The operator types that have adapters."""
        return frozenset(self._adapters)

    def find(self, op_type: str, version: int) -> list[Adapter]:
        """The adapters of an operator type for a model of opset ``version``."""
        return [adapter for before, adapter in self._adapters.get(op_type, ()) if version < before]
