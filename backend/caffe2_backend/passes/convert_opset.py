"""Convert a model of an earlier opset to the working opset."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from typing import ClassVar

import onnx
import onnx.version_converter
import onnx_ir as ir

from caffe2_backend.opsets import UpgradeError, upgrade
from caffe2_backend.passes.upgrade_scan import rewritten, undisguise
from caffe2_backend.state import WORKING_OPSET, Import
from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_bridge.passes import FunctionalPass, InPlacePass
from caffe2_frontend.interop.bodies import all_nodes, bodies, captured_values
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.files.strip_weights import with_weights, without_weights
from caffe2_frontend.interop.inference.value_types import forget_maps

logger = logging.getLogger(__name__)

_SECOND_SCAN = 9
_SECOND_RESIZE = 11  # and Clip with bounds that are operands
_COORDINATES = "coordinate_transformation_mode"
_HINT = (
    f"export the model with opset {WORKING_OPSET} or later where it was made, or carry its operators: "
    "--foreign carry, or foreign='carry'"
)
_FAILED_CONDITION = re.compile(r"` failed: ([^\n]+)")
_SEPARATE_INITIALIZERS = 4
# What ONNX's converters raise where they cannot convert a model.
_FAILURES = (
    onnx.version_converter.ConvertError,
    RuntimeError,
    ValueError,
    IndexError,
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
)


class RelabelOpset(InPlacePass[Import]):
    """Declare the working opset for a model of an earlier one, if none of its operators has changed since."""

    requires: ClassVar[frozenset[str]] = frozenset({"inlined"})
    ensures: ClassVar[frozenset[str]] = frozenset({"relabeled"})

    def __call__(self, state: Import) -> None:
        """Change the model's opset import."""
        model = state.model
        version = _opset(model)
        if version < WORKING_OPSET and not _has_changed_nodes(model.graph, version):
            model.graph.opset_imports[""] = WORKING_OPSET


class ConvertOpset(FunctionalPass[Import]):
    """Convert a model of an earlier opset to the working opset; a later one stays unchanged.

    Opsets before 7, and what ONNX's converter gets wrong, are converted by :mod:`caffe2_backend.opsets`, the rest by
    ONNX's converter.

    A model that cannot be converted is reported, or, where operators may be carried, travels unchanged; so does one
    with nodes of other domains whose bodies would have to be converted.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined", "relabeled"})
    ensures: ClassVar[frozenset[str]] = frozenset({"opset"})

    def __call__(self, state: Import) -> Import:
        """Return the state with a converted model, if the model's opset is earlier than the working opset."""
        version = _opset(state.model)
        latest = onnx.defs.onnx_opset_version()
        if version > latest:
            name = state.model.graph.name or "graph"
            reason = f"the model names opset {version}, and the installed onnx knows opsets up to {latest}"
            hint = "install a later onnx; or correct the opset that the model names"
            return replace(state, findings=(*state.findings, Diagnostic("opset", reason, Location(name), hint=hint)))
        if version >= WORKING_OPSET:
            return state
        if state.options.carries_nodes and _has_foreign_bodies(state.model.graph, version):
            return replace(state, lowers=False)
        try:
            converted = _converted(state.model, version)
        except (UpgradeError, *_FAILURES) as error:
            if state.options.carries_nodes:
                logger.debug("operators are carried in opset %d, which cannot be converted", version, exc_info=True)
                return replace(state, lowers=False)
            found = error.diagnostics if isinstance(error, UpgradeError) else _failed(state.model, version, error)
            return replace(state, findings=(*state.findings, *found))
        if version < _SECOND_RESIZE:
            _set_legacy_resize_attributes(converted.graph)
            _set_types_of_bounds(converted.graph)
        return replace(state, model=converted)


def _has_foreign_bodies(graph: ir.Graph, version: int) -> bool:
    """Whether nodes of other domains have bodies that mean something else later: the converters leave them."""
    foreign = (body for node in all_nodes(graph) if not is_standard(node) for body in bodies(node))
    return any(_has_changed_nodes(body, version) for body in foreign)


def _opset(model: ir.Model) -> int:
    return model.opset_imports.get("", model.opset_imports.get("ai.onnx", WORKING_OPSET))


def _failed(model: ir.Model, version: int, error: Exception) -> list[Diagnostic]:
    """Return the nodes that ONNX's converter does not convert; the model, where it converts each alone."""
    name = model.graph.name or "graph"
    found = []
    for index, node in enumerate(model.graph):
        if is_standard(node) and _has_changed(node.op_type, version):
            try:
                _convert_alone(node, model)
            except _FAILURES as fault:
                reason = f"the node cannot be converted from opset {version} to {WORKING_OPSET}{_detail(fault)}"
                found.append(
                    Diagnostic("opset", reason, Location(name, index, node.op_type, node.name or ""), hint=_HINT)
                )
    if found:
        return found
    reason = f"the model cannot be converted from opset {version} to {WORKING_OPSET}{_detail(error)}"
    return [Diagnostic("opset", reason, Location(name), hint=_HINT)]


def _convert_alone(node: ir.Node, model: ir.Model) -> None:
    """Convert a model of one node, whose operands are inputs. Raises what the converter raises."""
    proto = onnx.ModelProto(ir_version=_SEPARATE_INITIALIZERS, opset_import=[_opset_id(model)])
    proto.graph.name = "node"
    proto.graph.node.append(ir.to_proto(node))
    for value in dict.fromkeys(value for value in (*node.inputs, *captured_values(node)) if value is not None):
        proto.graph.input.append(ir.serde.serialize_value(value))
    proto.graph.output.extend(ir.serde.serialize_value(value) for value in node.outputs if value.name)
    onnx.version_converter.convert_version(proto, WORKING_OPSET)


def _opset_id(model: ir.Model) -> onnx.OperatorSetIdProto:
    return onnx.OperatorSetIdProto(domain="", version=_opset(model))


def _detail(error: Exception) -> str:
    """Return what the converter says after the place in its source code, and the condition that failed there."""
    said = _FAILED_CONDITION.search(str(error).strip())
    detail = said.group(1) if said else ""
    if "No Adapter" in detail or "no registered schema" in detail:
        return ": ONNX's converter does not know the operator in one of the opsets"
    return f": {detail}" if detail else ""


def _converted(model: ir.Model, version: int) -> ir.Model:
    model, version = upgrade(model, version, _HINT)
    if version < _SECOND_SCAN:
        model = rewritten(model)
    proto = onnx.version_converter.convert_version(without_weights(model), WORKING_OPSET)
    forget_maps((*proto.graph.output, *proto.graph.value_info))  # which the converter infers
    converted = with_weights(proto, model)
    if version < _SECOND_SCAN:
        undisguise(converted)
    return converted


def _set_legacy_resize_attributes(graph: ir.Graph) -> None:
    """Set the attributes for what Resize and Upsample did before they had them, which ONNX's converter omits."""
    for node in all_nodes(graph):
        if node.op_type == "Resize" and not node.domain and len(node.inputs) > 2:
            node.attributes.setdefault(_COORDINATES, ir.AttrString(_COORDINATES, "asymmetric"))
            node.attributes.setdefault("nearest_mode", ir.AttrString("nearest_mode", _rounding(node)))


def _set_types_of_bounds(graph: ir.Graph) -> None:
    """Give the bounds of Clip, attributes once, the type of what is clipped: ONNX's converter makes floats of them."""
    for node in all_nodes(graph):
        x, *bounds = node.inputs if node.op_type == "Clip" and not node.domain and node.inputs else (None,)
        if x is None or x.dtype is None or not x.dtype.is_floating_point():
            continue
        for bound in bounds:
            constant = None if bound is None else bound.producer()
            value = None if constant is None or constant.op_type != "Constant" else constant.attributes.get("value")
            if bound is not None and constant is not None and value is not None:
                number = value.as_tensor().numpy().astype(x.dtype.numpy())
                constant.attributes["value"] = ir.AttrTensor("value", ir.Tensor(number))
                bound.type = ir.TensorType(x.dtype)


def _rounding(node: ir.Node) -> str:
    """Return how the nearest element was found: ONNX's tests of opset 10 round up where sizes shrink."""
    scales = None if node.inputs[2] is None else ir.convenience.get_const_tensor(node.inputs[2])
    return "ceil" if scales is not None and (scales.numpy() < 1).any() else "floor"


def _has_changed_nodes(graph: ir.Graph, version: int) -> bool:
    """Whether a node means something else in the working opset."""
    op_types = {node.op_type for node in all_nodes(graph) if is_standard(node)}
    return any(_has_changed(op_type, version) for op_type in op_types)


def _has_changed(op_type: str, version: int) -> bool:
    """Whether an operator means something else in the working opset."""
    try:
        old = onnx.defs.get_schema(op_type, version, "")
        new = onnx.defs.get_schema(op_type, WORKING_OPSET, "")
    except onnx.defs.SchemaError:
        return True
    return old.since_version != new.since_version
