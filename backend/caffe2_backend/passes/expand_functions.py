"""Expand operators that are functions of ONNX's: by ONNX's own definition, or by one of this project."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import onnx
import onnx_ir as ir
from onnx_ir.passes import common

from caffe2_backend.definitions import definition_of, has_definition, has_int8_form
from caffe2_backend.lowering.family import full_type
from caffe2_backend.lowering.malformed import failure_of
from caffe2_backend.ops import converters
from caffe2_backend.state import WORKING_OPSET, Import
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, Location
from caffe2_bridge.passes import FunctionalPass
from caffe2_frontend.interop.bodies import all_nodes
from caffe2_frontend.interop.files.strip_weights import with_weights, without_weights
from caffe2_frontend.interop.inference.shape_inference import infer_shapes
from caffe2_frontend.interop.operator_base import UnsupportedError

logger = logging.getLogger(__name__)

# The domain of the definitions among the model's functions, until they are inlined.
_DOMAIN: Final = "caffe2_bridge.definitions"
# The domains that ONNX has definitions of; the one of drafts has one version.
_DOMAINS: Final = ("", "ai.onnx.preview")


class ExpandFunctions(FunctionalPass[Import]):
    """Replace operators without a converter by their definition as a function, if there is one.

    ONNX defines its own, :mod:`caffe2_backend.definitions` those that onnxruntime's optimizer writes. Where operators
    may be carried, nothing is expanded: they travel whole.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined", "opset"})
    ensures: ClassVar[frozenset[str]] = frozenset({"expanded"})

    def __call__(self, state: Import) -> Import:
        """Return the state with a new model, if an operator was expanded."""
        if state.options.carries_nodes:
            return state
        model = state.model
        version = model.opset_imports.get("", WORKING_OPSET)
        int8 = state.options.int8
        while any(_defined_by_others(model.graph, version, int8=int8)):
            model = _inferred(model)  # definitions depend on the types of values
            if not _define(model, version, int8=int8):
                logger.debug("ONNX has no function definition for the types of the operators without a converter")
                break
            unread = [value for value in model.graph.outputs if not value.uses()]
            common.InlinePass()(model)
            model.graph.opset_imports.pop(_DOMAIN)
            _forget_shapes(model, unread)
        return replace(state, model=model)


def _inferred(model: ir.Model) -> ir.Model:
    """Return a copy of the model with inferred types."""
    try:
        inferred = infer_shapes(without_weights(model), data_prop=True)
    except onnx.shape_inference.InferenceError:  # of an optional output that is left out, among others
        logger.debug("types not inferred", exc_info=True)
        return model.clone()
    return with_weights(inferred, model)


def _forget_shapes(model: ir.Model, unread: Sequence[ir.Value]) -> None:
    """Forget the declared shapes of outputs that definitions read now: they may be wrong, see ReinferShapes."""
    names = {value.name for value in unread}
    for value in model.graph.outputs:
        if value.name in names and value.uses():
            value.shape = None


def _defined_by_others(graph: ir.Graph, version: int, *, int8: bool) -> Iterator[ir.Node]:
    for node in all_nodes(graph):
        if int8 and node.graph is graph and has_int8_form(node):
            yield node
        elif full_type(node) in converters():
            continue
        elif has_definition(node):
            yield node
        elif node.domain in _DOMAINS:
            schema = _schema(node, version)
            if schema is not None and (schema.has_function or schema.has_context_dependent_function):
                yield node


def _schema(node: ir.Node, version: int) -> Any:  # onnx's own annotations lack the attributes that are read here
    try:
        return onnx.defs.get_schema(node.op_type, 1 if node.domain else version, node.domain)
    except onnx.defs.SchemaError:
        return None


def _define(model: ir.Model, version: int, *, int8: bool) -> int:
    """Replace nodes that ONNX defines as functions by calls of functions of the model. Return how many there were."""
    count = 0
    for node in list(_defined_by_others(model.graph, version, int8=int8)):
        function, attributes = None, []
        if int8 and node.graph is model.graph and has_int8_form(node):
            function = _own_definition(node, int8=True)
        if function is None and has_definition(node):
            function = _own_definition(node)
        elif function is None and full_type(node) not in converters():
            schema = _schema(node, version)
            function, attributes = _definition(node, schema, version), _attributes(node, schema)
        if function is None or not _takes(function, node):
            continue
        _require_closed(function, node)
        function.domain, function.name = _DOMAIN, f"{node.op_type}_{count}"
        function.opset_imports.clear()
        function.opset_imports[""] = version
        _call(node, function, attributes)
        model.functions[function.identifier()] = function
        count += 1
    if count:
        model.graph.opset_imports[_DOMAIN] = 1
    return count


def _own_definition(node: ir.Node, *, int8: bool = False) -> ir.Function | None:
    """Return this project's definition of a node, if there is one. Raises ConversionError for a malformed node."""
    here = _location(node)
    try:
        return definition_of(node, int8=int8)
    except UnsupportedError as error:
        found = Diagnostic(error.code, error.reason, here, hint=error.hint)
    except BridgeError:
        raise
    except Exception as error:  # noqa: BLE001 - a malformed node, or a fault of the definition
        found = failure_of(node, error, here)
    raise ConversionError([found])


def _takes(function: ir.Function, node: ir.Node) -> bool:
    """Whether a function has the operands of a node: one with more of them is not the operator that ONNX defines."""
    return len(node.inputs) <= len(function.inputs) and sum(bool(v.name) for v in node.outputs) == len(function.outputs)


def _require_closed(function: ir.Function, node: ir.Node) -> None:
    """Raise ConversionError if a function reads values that it does not compute.

    ONNX's builders take bodies of the node into its definition, whose results they expect to exist.
    """
    for value in (value for inner in all_nodes(function) for value in inner.inputs if value is not None):
        if value.producer() is None and not value.is_graph_input() and not value.is_initializer():
            reason = f"ONNX's definition of the node reads {value.name!r}, which no body of the node computes"
            raise ConversionError([Diagnostic("malformed-model", reason, _location(node))])


def _location(node: ir.Node) -> Location:
    return Location("graph" if node.graph is None else node.graph.name or "graph", None, node.op_type, node.name or "")


def _call(node: ir.Node, function: ir.Function, attributes: list[ir.Attr]) -> None:
    """Replace a node by a call of ``function``, which has only the outputs that the node has."""
    wanted = [i for i, value in enumerate(node.outputs) if value.name]
    call = ir.Node(function.domain, function.name, node.inputs, attributes, num_outputs=len(wanted))
    assert node.graph is not None
    old = [node.outputs[i] for i in wanted]
    ir.convenience.replace_nodes_and_values(node.graph, node, [node], [call], old, call.outputs)


def _attributes(node: ir.Node, schema: Any) -> list[ir.Attr]:
    """Return the attributes, with defaults for those that are not set. The definition holds the graph attributes."""
    graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    own = {name: attr for name, attr in node.attributes.items() if attr.type not in graphs}
    defaults = {
        name: ir.from_proto(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    return list((defaults | own).values())


def _definition(node: ir.Node, schema: Any, version: int) -> ir.Function | None:
    """Return the newest definition that is valid in the model's opset, with the outputs that the node has.

    None if ONNX has none for these types. Raises ConversionError if ONNX cannot build it.
    """
    try:
        made = _built(node, schema, version)
        body = onnx.FunctionProto.FromString(made) if made else None
        if body is None:
            return None
        names = [name for name, value in zip(body.output, node.outputs, strict=False) if value.name]
        del body.output[:]  # those that the node does not have may be computed nowhere in the body
        body.output.extend(names)
        return ir.from_proto(body)
    except Exception as error:
        reason = f"ONNX's definition of the node cannot be built: {str(error).partition(chr(10))[0]}"
        raise ConversionError([Diagnostic("malformed-model", reason, _location(node))]) from error


def _built(node: ir.Node, schema: Any, version: int) -> bytes | None:
    """Return a definition as ONNX builds it, a serialized FunctionProto."""
    if schema.has_context_dependent_function:
        if any(value is not None and value.type is None for value in node.inputs):
            return None  # ONNX's builders of functions rely on the types, and may end the process without them
        known = [old for old in schema.context_dependent_function_opset_versions if old <= version]
        types = [_type(value).SerializeToString() for value in node.inputs]
        own = ir.to_proto(node).SerializeToString()
        return schema.get_context_dependent_function_with_opset_version(max(known), own, types) if known else None
    known = [old for old in schema.function_opset_versions if old <= version]
    return schema.get_function_with_opset_version(max(known)) if known else None


def _type(value: ir.Value | None) -> onnx.TypeProto:
    """Return what is known of an operand's type; empty for a missing operand."""
    if value is None or value.type is None:
        return onnx.TypeProto()
    kind = ir.to_proto(value.type)
    if value.shape is not None:
        ir.serde.serialize_shape_into(kind, value.shape)
    return kind
