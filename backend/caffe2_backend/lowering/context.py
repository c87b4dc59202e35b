"""The interface of a lowering that a node under conversion uses."""

from __future__ import annotations

from typing import Protocol

import onnx_ir as ir

from caffe2_bridge.diagnostics import Location, Severity
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_frontend.interop.names import Names


class LoweringContext(Protocol):
    """What an :class:`~caffe2_backend.lowering.op.Op` needs of the lowering that it is part of."""

    @property
    def names(self) -> Names:
        """The names of all blobs."""
        ...

    @property
    def carries_nodes(self) -> bool:
        """Whether nodes without an equivalent in Caffe2 are carried unchanged."""
        ...

    @property
    def errors(self) -> int:
        """How many diagnostics of this lowering are errors."""
        ...

    def graph(self, graph: ir.Graph, location: Location) -> list[OperatorDef]:
        """Lower the nodes of a graph; ``location`` is the graph's own location."""
        ...

    def report(
        self, code: str, reason: str, here: Location, hint: str = "", severity: Severity = Severity.ERROR
    ) -> None:
        """Add a diagnostic."""
