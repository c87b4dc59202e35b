"""Sink weights that only one branch of an If reads into that branch."""

from __future__ import annotations

from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import bodies
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.state import Export


class SinkWeights(InPlacePass[Export]):
    """Move the initializers that only one branch of an If reads into that branch.

    onnxruntime packs a constant matrix ahead of time where it is at most one graph further out than the product: that
    makes the steps of a loop inside a branch twice as fast.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph", "pruned"})
    ensures: ClassVar[frozenset[str]] = frozenset({"sunk"})

    def __call__(self, state: Export) -> None:
        """Move the initializers."""
        graph = state.graph
        for node in graph:
            for branch in bodies(node) if standard_type(node) == "If" else ():
                inside = set(branch.all_nodes())
                for value in _read_constants(branch, graph):
                    if all(use.node in inside for use in value.uses()) and not value.is_graph_output():
                        graph.initializers.pop(str(value.name))
                        branch.register_initializer(value)


def _read_constants(branch: ir.Graph, graph: ir.Graph) -> list[ir.Value]:
    """Return the initializers of ``graph`` that nodes in ``branch`` read."""
    read = dict.fromkeys(value for node in branch.all_nodes() for value in node.inputs if value is not None)
    return [value for value in read if graph.initializers.get(str(value.name)) is value]
