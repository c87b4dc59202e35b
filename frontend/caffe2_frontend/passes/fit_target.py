"""Rewrite what the target of the export takes in another form alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_nodes, bodies
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.state import Export
from caffe2_frontend.targets.table import find_target


class FitTarget(InPlacePass[Export]):
    """Rewrite what the target has in another form alone.

    * Both branches of an If are computed, and a Where selects, if they contain no body and have results of the same
      known shapes.
    * Outputs of loops that are outputs of the model are copied.
    * Omitted outputs of an LSTM are named.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph", "opset"})

    def __call__(self, state: Export) -> None:
        """Rewrite the graph; names of its outputs stay."""
        target = find_target(state.options.target)
        if state.model is None:
            return
        if target.selects:
            _select(state.graph)
        if not target.loop_outputs:
            for index, output in enumerate(state.graph.outputs):
                loop = output.producer()
                if loop is not None and standard_type(loop) == "Loop":
                    state.graph.outputs[index] = _copy(loop, output)
        if not target.omitted_outputs:
            for node in all_nodes(state.graph):
                if standard_type(node) == "LSTM":
                    _name_omitted(node)


def _select(graph: ir.Graph) -> None:
    """Compute both branches of each If, the innermost first."""
    for node in list(graph):
        inside = list(bodies(node))
        for body in inside:
            _select(body)
        if standard_type(node) == "If" and _can_select(node):
            _compute_both(graph, node)


def _can_select(node: ir.Node) -> bool:
    """Whether the branches contain no bodies, and have results of the same known shapes."""
    then, otherwise = _branches(node)
    if any(list(bodies(each)) for branch in (then, otherwise) for each in branch):
        return False
    return all(_same_shape(a, b) for a, b in zip(then.outputs, otherwise.outputs, strict=True))


def _branches(node: ir.Node) -> tuple[ir.Graph, ir.Graph]:
    return node.attributes["then_branch"].as_graph(), node.attributes["else_branch"].as_graph()


def _same_shape(first: ir.Value, second: ir.Value) -> bool:
    if first.shape is None or second.shape is None or first.dtype != second.dtype:
        return False
    unknown = ir.SymbolicDim(None)
    return first.shape == second.shape and not any(dim == unknown for dim in first.shape)


def _compute_both(graph: ir.Graph, node: ir.Node) -> None:
    results = []
    for branch in _branches(node):
        nodes, outputs = list(branch), list(branch.outputs)
        branch.outputs.clear()
        branch.remove(nodes)
        graph.insert_before(node, nodes)
        results.append(outputs)
    for output, first, second in zip(list(node.outputs), *results, strict=True):
        condition = node.inputs[0]
        if not first.shape:  # a condition of one element would give it a dim
            condition = _emit_before(graph, node, "Squeeze", [condition])
            condition.name = f"{output.name}/condition"
            condition.type, condition.shape = ir.TensorType(ir.DataType.BOOL), ir.Shape([])
        value = _emit_before(graph, node, "Where", [condition, first, second])
        value.type, value.shape = output.type, first.shape
        ir.convenience.replace_all_uses_with(output, value, replace_graph_outputs=True)
        value.name, output.name = output.name, None
    graph.remove(node, safe=True)


def _emit_before(graph: ir.Graph, node: ir.Node, op_type: str, inputs: Sequence[ir.Value | None]) -> ir.Value:
    made = ir.Node("", op_type, inputs, metadata_props=dict(node.metadata_props))
    graph.insert_before(node, made)
    return made.outputs[0]


def _copy(loop: ir.Node, value: ir.Value) -> ir.Value:
    node = ir.Node("", "Identity", [value], num_outputs=1, metadata_props=dict(loop.metadata_props))
    copy = node.outputs[0]
    copy.type, copy.shape = value.type, value.shape
    copy.name, value.name = value.name, f"{value.name}/loop"
    loop.append(node)
    return copy


def _name_omitted(node: ir.Node) -> None:
    """Name each output that is omitted before one that is not."""
    names = [value.name or "" for value in node.outputs]
    given = [index for index, name in enumerate(names) if name]
    for index in range(given[-1]):
        if not names[index]:
            node.outputs[index].name = f"{names[given[-1]]}/omitted_{index}"
