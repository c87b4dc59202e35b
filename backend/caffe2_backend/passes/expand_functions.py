"""ONNX operators that ONNX itself defines by others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import onnx
import onnx.inliner
import onnx_ir as ir

from caffe2_backend.ops import converters
from caffe2_backend.state import WORKING_OPSET, Import
from caffe2_frontend.weightless import with_weights, without_weights


class ExpandFunctions:
    """Replace operators that have no conversion by ONNX's own definition of them, where there is one.

    Carried operators are not: they travel whole.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined", "opset"})
    ensures: ClassVar[frozenset[str]] = frozenset({"expanded"})

    def __call__(self, state: Import) -> Import:
        """The state with a new model, where something was expanded."""
        if state.foreign == "carry":
            return state
        model = state.model
        version = model.opset_imports.get("", WORKING_OPSET)
        before = -1
        while names := sorted({node.op_type for node in _defined_by_others(model.graph, version)}):
            _write_defaults(model.graph, version)
            count = sum(1 for _ in ir.traversal.RecursiveGraphIterator(model.graph))
            if count == before:
                break  # their definitions do not hold for these types
            before = count
            proto = without_weights(_inferred(model))
            expanded = onnx.inliner.inline_selected_functions(
                proto, [("", name) for name in names], inline_schema_functions=True
            )
            model = with_weights(expanded, model)
        return replace(state, model=model)


def _inferred(model: ir.Model) -> ir.Model:
    """The model with the types of its values: definitions depend on them."""
    inferred = onnx.shape_inference.infer_shapes(without_weights(model), data_prop=True)
    return with_weights(inferred, model)


def _write_defaults(graph: ir.Graph, version: int) -> None:
    """Write what attributes are by default: the inliner leaves out the constants of those that a node has not."""
    for node in _defined_by_others(graph, version):
        for name, attribute in onnx.defs.get_schema(node.op_type, version, "").attributes.items():
            if name not in node.attributes and attribute.default_value.name:
                node.attributes[name] = ir.from_proto(attribute.default_value)


def _defined_by_others(graph: ir.Graph, version: int) -> Iterator[ir.Node]:
    for node in ir.traversal.RecursiveGraphIterator(graph):
        if node.domain or node.op_type in converters():
            continue
        try:
            schema = onnx.defs.get_schema(node.op_type, version, "")
        except onnx.defs.SchemaError:
            continue
        defined: Any = schema  # onnx's own annotations lack these two
        if defined.has_function or defined.has_context_dependent_function:
            yield node
