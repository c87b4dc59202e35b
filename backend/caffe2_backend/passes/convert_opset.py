"""One opset for all models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import onnx
import onnx.version_converter
import onnx_ir as ir

from caffe2_backend.passes.upgrade_scan import rewritten, undisguise
from caffe2_backend.state import WORKING_OPSET, Import
from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_frontend.interop.strip_weights import with_weights, without_weights

# What ONNX's converters raise where they cannot convert a model.
_SECOND_SCAN = 9
_SECOND_RESIZE = 11
_PLACE = "coordinate_transformation_mode"
_FAILURES = (
    onnx.version_converter.ConvertError,
    RuntimeError,
    ValueError,
    IndexError,
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
)


class ConvertOpset:
    """Bring a model of an older opset to the working opset, with ONNX's converter; a later one stays as it is.

    A model that cannot be converted is a finding, or, where operators may be carried, travels as it is.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined"})
    ensures: ClassVar[frozenset[str]] = frozenset({"opset"})

    def __call__(self, state: Import) -> Import:
        """Convert, unless nothing in the model has changed its meaning since."""
        model = state.model
        version = model.opset_imports.get("", model.opset_imports.get("ai.onnx", WORKING_OPSET))
        if version >= WORKING_OPSET:
            return state
        if not any(_has_changed(node, version) for node in _nodes(model.graph)):
            model.graph.opset_imports[""] = WORKING_OPSET
            return state
        try:
            converted = _converted(model, version)
        except _FAILURES as error:
            if state.foreign == "carry":
                return replace(state, lowers=False)
            reason = f"the model cannot be converted from opset {version} to {WORKING_OPSET}: {_first_line(error)}"
            return replace(state, findings=(*state.findings, Diagnostic("opset", reason, Location(_name(model)))))
        if version < _SECOND_RESIZE:
            _say_how_it_was_resized(converted.graph)
        return replace(state, model=converted)


def _converted(model: ir.Model, version: int) -> ir.Model:
    if version < _SECOND_SCAN:
        model = rewritten(model)
    converted = with_weights(onnx.version_converter.convert_version(without_weights(model), WORKING_OPSET), model)
    if version < _SECOND_SCAN:
        undisguise(converted)
    return converted


def _say_how_it_was_resized(graph: ir.Graph) -> None:
    """Write what Resize and Upsample did before they had attributes for it, which ONNX's converter leaves out."""
    for node in _nodes(graph):
        if node.op_type == "Resize" and not node.domain:
            node.attributes.setdefault(_PLACE, ir.AttrString(_PLACE, "asymmetric"))
            node.attributes.setdefault("nearest_mode", ir.AttrString("nearest_mode", "floor"))


def _nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    return iter(ir.traversal.RecursiveGraphIterator(graph))


def _has_changed(node: ir.Node, version: int) -> bool:
    """Whether the operator means something else in the working opset."""
    if node.domain not in ("", "ai.onnx"):
        return False
    try:
        old = onnx.defs.get_schema(node.op_type, version, "")
        new = onnx.defs.get_schema(node.op_type, WORKING_OPSET, "")
    except onnx.defs.SchemaError:
        return True
    return old.since_version != new.since_version


def _name(model: ir.Model) -> str:
    return model.graph.name or "graph"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
