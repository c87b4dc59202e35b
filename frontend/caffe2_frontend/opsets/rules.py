"""Tables of adapters: for each operator, what has to change for targets before a version of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from caffe2_frontend.opsets.rewriter import Rewriter

Adapter = Callable[[Rewriter], Sequence[ir.Value] | ir.Value | None]


class Rules:
    """Adapters by operator type, each with the version before which it applies.

    An adapter either returns the values that replace the node's outputs, or changes the node so that it is as before
    that version, and returns None.
    """

    def __init__(self) -> None:
        self.adapters: dict[str, list[tuple[int, Adapter]]] = {}

    def before(self, version: int, *op_types: str) -> Callable[[Adapter], Adapter]:
        """Register an adapter of operator types for targets before ``version``."""

        def register(adapter: Adapter) -> Adapter:
            for op_type in op_types:
                self._add(op_type, version, adapter)
            return adapter

        return register

    @classmethod
    def merged(cls, *tables: Rules) -> Rules:
        """One table of several; a version for which two of them adapt an operator is an error."""
        result = cls()
        for table in tables:
            for op_type, known in table.adapters.items():
                for version, adapter in known:
                    result._add(op_type, version, adapter)
        return result

    def _add(self, op_type: str, version: int, adapter: Adapter) -> None:
        known = self.adapters.setdefault(op_type, [])
        if any(version == other for other, _ in known):
            raise ValueError(f"{op_type} has two adapters for targets before {version}")
        known.append((version, adapter))
        known.sort(key=lambda pair: -pair[0])

    def find(self, op_type: str, target: int) -> list[Adapter]:
        """The adapters of an operator type that apply to a target, those of the latest versions first."""
        return [adapter for version, adapter in self.adapters.get(op_type, ()) if target < version]
