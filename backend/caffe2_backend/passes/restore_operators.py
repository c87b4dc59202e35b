"""Restore the Caffe2 operators that an exported model was converted from."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import ClassVar

import onnx_ir as ir

from caffe2_backend.restore.match import Match, counted, find_operators
from caffe2_backend.restore.restored_nodes import DOMAIN, restored_node
from caffe2_backend.state import WORKING_OPSET, Import
from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_nodes, bodies, captured_values
from caffe2_frontend.interop.metadata.origin import blobs_of
from caffe2_frontend.interop.types import Quantization

logger = logging.getLogger(__name__)


class RestoreOperators(InPlacePass[Import]):
    """Replace the nodes that the export made of an operator by one node with the operator's definition.

    Nodes that were changed since, or whose operands were replaced, stay and are converted as any others.
    """

    requires: ClassVar[frozenset[str]] = frozenset()
    ensures: ClassVar[frozenset[str]] = frozenset({"restored"})

    def __call__(self, state: Import) -> None:
        """Restore the operators of the model; counts them in ``restored``, and notes Int8 tensors in ``quantized``."""
        if state.findings:
            logger.debug("operators not restored: errors were reported before")
            return
        model = state.model
        found = find_operators(model)
        if not found or (state.options.carries_nodes and _may_stay_old(model, found)):
            logger.debug("operators not restored: %s", "the opset may stay" if found else "no operator was recognized")
            return
        restoring = _Restoring(model.graph)
        for match in found:
            restoring.put(match)
        restoring.finish(found)
        state.restored.update(counted(found))
        state.quantized.update(restoring.quantized)


def _may_stay_old(model: ir.Model, found: Sequence[Match]) -> bool:
    """Whether ONNX operators of an earlier opset may remain: a net cannot mix them with Caffe2 operators."""
    version = model.opset_imports.get("", WORKING_OPSET)
    nodes = {node for match in found for node in match.nodes}
    return version < WORKING_OPSET and any(node not in nodes for node in model.graph)


class _Restoring:
    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self.order = {node: number for number, node in enumerate(graph)}
        self.replaced: dict[ir.Value, ir.Value] = {}
        self.quantized: dict[str, Quantization] = {}
        values = (*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs))
        self.taken = {str(value.name) for value in values}

    def put(self, match: Match) -> None:
        """Insert the operator's node before the last of the nodes that compute its outputs."""
        reads, _ = blobs_of(match.origin.operator)
        inputs = [self._input(blob, operand) for blob, operand in zip(reads, match.inputs, strict=True)]
        for known, value in zip(match.origin.operands, inputs, strict=False):
            if value is not None and value.producer() is None and known.type is not None and known.type.quantization:
                self.quantized[str(value.name)] = known.type.quantization
        outputs = [_output(match, index, name) for index, name in enumerate(match.names)]
        self.taken.update(match.names)
        last = max(match.nodes[: match.origin.roots], key=self.order.__getitem__)
        self.graph.insert_before(last, restored_node(match.origin.definitions, inputs, outputs))
        for old, new in zip(match.outputs, outputs, strict=True):
            if old is not None:
                ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
                old.name = None
                self.replaced[old] = new

    def _input(self, blob: str, operand: ir.Value | ir.TensorProtocol | None) -> ir.Value | None:
        if operand is None:
            return None
        if isinstance(operand, ir.Value):
            owner = operand.graph
            if operand.is_initializer() and owner is not None and owner is not self.graph:
                owner.initializers.pop(str(operand.name))
                self.graph.register_initializer(operand)
            return self.replaced.get(operand, operand)
        name, count = blob, 1
        while name in self.taken:
            name = f"{blob}_{count}"
            count += 1
        self.taken.add(name)
        kind, shape = ir.TensorType(operand.dtype), ir.Shape(operand.shape.numpy())
        value = ir.Value(name=name, type=kind, shape=shape, const_value=operand)
        self.graph.register_initializer(value)
        return value

    def finish(self, found: Sequence[Match]) -> None:
        """Remove nodes and initializers that are not used any more."""
        self._remove_unread([node for match in found for node in match.nodes])
        if any(match.origin.roots > 1 for match in found):
            self.graph.sort()
        self.graph.opset_imports[DOMAIN] = 1

    def _remove_unread(self, nodes: Iterable[ir.Node]) -> None:
        waiting = list(dict.fromkeys(nodes))
        known = {*waiting}
        while waiting:
            node = waiting.pop()
            if node.graph is not self.graph or any(v.uses() or v.is_graph_output() for v in node.outputs):
                continue
            read = [value for value in (*node.inputs, *captured_values(node)) if value is not None]
            for body in bodies(node):
                for inner in all_nodes(body):
                    for index in range(len(inner.inputs)):
                        inner.replace_input_with(index, None)
            self.graph.remove(node, safe=True)
            for value in read:
                maker = value.producer()
                if maker in known:
                    waiting.append(maker)
                elif value.is_initializer() and not (value.uses() or value.is_graph_input() or value.is_graph_output()):
                    self.graph.initializers.pop(str(value.name), None)


def _output(match: Match, index: int, name: str) -> ir.Value:
    value = ir.Value(name=name)
    output = match.origin.outputs[index]
    if output is not None:
        value.type = ir.TensorType(output.type.dtype)
        dims = match.dims(output.type)
        value.shape = None if dims is None else ir.Shape(dims)
    return value
