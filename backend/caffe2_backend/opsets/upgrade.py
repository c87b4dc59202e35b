"""Conversion of the nodes of early opsets that ONNX's own converter does not know, or gets wrong.

ONNX's converter goes from opset 7 on. Before, binary operators broadcast by attributes, and many operands were
attributes: :mod:`.legacy` has an adapter for every operator that changed. :mod:`.meaning` has those of later opsets,
:mod:`.experimental` those of operators that ONNX dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import onnx_ir as ir

from caffe2_backend.opsets import experimental, legacy, meaning
from caffe2_backend.opsets.old_node import OldNode, Ranks, RanksNeededError
from caffe2_backend.opsets.rules import Rules
from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_frontend.interop.bodies import all_nodes, value_names
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.files.strip_weights import without_weights
from caffe2_frontend.interop.inference.shape_inference import infer_shapes
from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.operators import COMPARISONS, LOGIC
from caffe2_frontend.interop.rewriting.node_rewriter import InexpressibleError

_RULES: Final = Rules(legacy.rules, meaning.rules, experimental.rules)
_FIRST_MODERN: Final = 7  # the first opset of ONNX's converter


class UpgradeError(Exception):
    """Nodes that cannot be converted, as diagnostics of code ``opset``."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        super().__init__(str(diagnostics[0]))
        self.diagnostics = tuple(diagnostics)


def upgrade(model: ir.Model, version: int, hint: str) -> tuple[ir.Model, int]:
    """Convert a model of opset ``version`` to one that ONNX's converter takes, and converts as ONNX means it.

    Args:
        model: the model, with unique names of values. It is not changed.
        version: its opset.
        hint: of diagnostics.

    Returns:
        The model, or a copy of it, and its opset: 7 or later.

    Raises:
        UpgradeError: nodes cannot be converted.
    """
    if version >= _FIRST_MODERN and not any(_RULES.find(node.op_type, version) for node in _nodes(model)):
        return model, version
    model = model.clone()
    _Upgrade(model, version, hint).run()
    version = max(version, _FIRST_MODERN)
    model.opset_imports.pop("ai.onnx", None)
    model.opset_imports[""] = version
    return model, version


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    return (n for n in all_nodes(model.graph) if is_standard(n))


class _Upgrade:
    def __init__(self, model: ir.Model, version: int, hint: str) -> None:
        self._model = model
        self._version = version
        self._hint = hint
        self._names = Names(value_names(model.graph))
        self._faults: dict[ir.Node, str] = {}

    def run(self) -> None:
        """Convert the nodes, those last whose conversion depends on ranks."""
        later = [node for node in list(_nodes(self._model)) if not self._convert(node, None)]
        if later:
            ranks = self._ranks(later)
            for node in later:
                self._convert(node, ranks)
        if self._faults:
            raise UpgradeError(list(self._diagnostics(self._model.graph, Location(self._model.graph.name or "graph"))))

    def _convert(self, node: ir.Node, ranks: Ranks | None) -> bool:
        """Convert a node. Return false where its conversion depends on ranks that are not given."""
        if self._version < _FIRST_MODERN:
            node.attributes.pop("consumed_inputs", None)
        at = OldNode(node, self._names, ranks)
        try:
            results = (adapter(at) for adapter in _RULES.find(node.op_type, self._version))
            result = next((value for value in results if value is not None), None)
        except RanksNeededError:
            at.restore()
            return False
        except InexpressibleError as error:
            self._faults[node] = error.reason
        else:
            at.commit(None if result is None else [result])
        return True

    def _ranks(self, later: list[ir.Node]) -> Ranks:
        """Return the ranks of all values, by ONNX's inference on a sketch: old nodes have the shape of an operand."""
        waiting = {str(node.outputs[0].name) for node in later}
        sketch = self._model.clone()
        for node in _nodes(sketch):
            if node.outputs and node.outputs[0].name in waiting:
                boolean = node.op_type in LOGIC | COMPARISONS
                node.op_type = "Cast" if boolean else "Identity"
                node.attributes.clear()
                if boolean:
                    node.attributes.add(ir.AttrInt64("to", int(ir.DataType.BOOL)))
                node.resize_inputs(1)
        sketch.opset_imports[""] = max(self._version, _FIRST_MODERN)
        inferred = infer_shapes(without_weights(sketch), data_prop=True)
        known = ir.from_proto(inferred)
        values = (v for graph in known.graphs() for v in (*graph.inputs, *(o for node in graph for o in node.outputs)))
        return {str(value.name): len(value.shape) for value in values if value.shape is not None}

    def _diagnostics(self, graph: ir.Graph, location: Location) -> Iterator[Diagnostic]:
        """Yield the faults, in the order of the nodes."""
        for index, node in enumerate(graph):
            here = Location(location.net, index, node.op_type, node.name or "", location.path)
            if node in self._faults:
                reason = f"a node of opset {self._version} cannot be converted: {self._faults[node]}"
                yield Diagnostic("opset", reason, here, hint=self._hint)
            for name, attr in node.attributes.items():
                if attr.type == ir.AttributeType.GRAPH:
                    yield from self._diagnostics(attr.as_graph(), here.enter(name))
