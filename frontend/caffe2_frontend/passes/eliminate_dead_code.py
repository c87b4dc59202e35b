"""Small graphs: what nothing reads, what is there twice, and what does nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import onnx_ir as ir
from onnx_ir.passes import common

from caffe2_frontend.interop.embedded_onnx import is_foreign
from caffe2_frontend.state import Export


class CleanUp:
    """Remove dead and duplicate nodes, pass-through nodes and unused constants, in bodies too."""

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})
    ensures: ClassVar[frozenset[str]] = frozenset({"clean"})

    def __call__(self, state: Export) -> Export:
        """Clean the model; its graph is this export's own, and is changed in place."""
        model = state.model
        if model is None:
            return state
        with state.traces.followed():
            for graph in list(model.graphs()):
                _remove_identities(graph)
            if not is_foreign(state.predict):  # two nodes of an unknown domain need not compute the same
                model = common.CommonSubexpressionEliminationPass()(model).model
        model = common.RemoveUnusedNodesPass()(model).model
        return replace(state, model=model)


class RemoveUnused:
    """Remove nodes and constants that nothing reads."""

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})
    ensures: ClassVar[frozenset[str]] = frozenset({"pruned"})

    def __call__(self, state: Export) -> Export:
        """Prune the model; its graph is this export's own, and is changed in place."""
        if state.model is None:
            return state
        return replace(state, model=common.RemoveUnusedNodesPass()(state.model).model)


def _remove_identities(graph: ir.Graph) -> None:
    """Readers of an Identity read its operand.

    An output of the graph stays under its name; where a node of the same graph makes the operand, and it is no output
    too, that node makes the output itself. (onnx_ir's own pass does this to operands of outer graphs as well, which
    takes them away from there.)
    """
    own = {value for node in graph for value in node.outputs}
    for node in list(graph):
        if node.op_type != "Identity" or node.domain != "" or node.inputs[0] is None:
            continue
        source, target = node.inputs[0], node.outputs[0]
        if target.is_graph_output():
            if source not in own or source.is_graph_output():
                continue
            name = target.name
            source.type, source.shape = source.type or target.type, source.shape or target.shape
            ir.convenience.replace_all_uses_with(target, source, replace_graph_outputs=True)
            graph.remove(node, safe=True)
            source.name = name
        else:
            ir.convenience.replace_all_uses_with(target, source)
            graph.remove(node, safe=True)
