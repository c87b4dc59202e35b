"""Eliminate identities and common subexpressions."""

from __future__ import annotations

import logging
from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_graphs
from caffe2_frontend.interop.cleanup.common_nodes import eliminate_common_nodes
from caffe2_frontend.state import Export

logger = logging.getLogger(__name__)


class EliminateRedundancy(InPlacePass[Export]):
    """Remove Identity nodes and nodes that compute what another node computes, in bodies too."""

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})
    ensures: ClassVar[frozenset[str]] = frozenset({"deduplicated"})

    def __call__(self, state: Export) -> None:
        """Simplify the model; ``state.traces`` follows the values that are replaced."""
        model = state.model
        if model is None:
            return
        replaced: dict[ir.Value, ir.Value] = {}
        for graph in list(all_graphs(model.graph)):
            replaced |= _remove_identities(graph, keeps_names=graph is model.graph)
        state.traces.replace(replaced)
        if state.foreign:  # two nodes of an unknown domain need not compute the same
            logger.debug("common subexpressions kept: the net carries ONNX operators")
        else:
            state.traces.merge(eliminate_common_nodes(model.graph))


def _remove_identities(graph: ir.Graph, *, keeps_names: bool) -> dict[ir.Value, ir.Value]:
    """Let the readers of an Identity read its operand. Return the values that were replaced, each with its operand.

    An output of the graph stays, under its name if ``keeps_names``; where a node of the same graph makes the operand,
    and it is not an output too, that node makes the output itself. (onnx_ir's own pass does this to operands of outer
    graphs as well, which takes them away from there.)
    """
    replaced: dict[ir.Value, ir.Value] = {}
    for node in [node for node in graph if node.op_type == "Identity" and not node.domain]:
        source, target = node.inputs[0], node.outputs[0]
        if source is None:
            continue
        if target.is_graph_output():
            maker = source.producer()
            if maker is None or maker.graph is not graph or source.is_graph_output():
                continue
            name = target.name
            source.type, source.shape = source.type or target.type, source.shape or target.shape
            ir.convenience.replace_all_uses_with(target, source, replace_graph_outputs=True)
            graph.remove(node, safe=True)
            if keeps_names:
                source.name = name
        else:
            ir.convenience.replace_all_uses_with(target, source)
            graph.remove(node, safe=True)
        replaced[target] = source
    return replaced
