"""Expand ONNX operators that ONNX defines as functions of others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final

import onnx
import onnx_ir as ir
from onnx_ir.passes import common

from caffe2_backend.ops import converters
from caffe2_backend.state import WORKING_OPSET, Import
from caffe2_bridge.passes import FunctionalPass
from caffe2_frontend.interop.shape_inference import infer_shapes
from caffe2_frontend.interop.strip_weights import with_weights, without_weights

logger = logging.getLogger(__name__)

# The domain of the definitions among the model's functions, until they are inlined.
_DOMAIN: Final = "caffe2_bridge.definitions"


class ExpandFunctions(FunctionalPass[Import]):
    """Replace operators without a converter by ONNX's own function definition of them, if it has one.

    Where operators may be carried, nothing is expanded: they travel whole.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined", "opset"})
    ensures: ClassVar[frozenset[str]] = frozenset({"expanded"})

    def __call__(self, state: Import) -> Import:
        """Return the state with a new model, if an operator was expanded."""
        if state.options.carries_nodes:
            return state
        model = state.model
        version = model.opset_imports.get("", WORKING_OPSET)
        while any(_defined_by_others(model.graph, version)):
            model = _inferred(model)  # definitions depend on the types of values
            if not _define(model, version):
                logger.debug("ONNX has no function definition for the types of the operators without a converter")
                break
            common.InlinePass()(model)
            model.graph.opset_imports.pop(_DOMAIN)
        return replace(state, model=model)


def _inferred(model: ir.Model) -> ir.Model:
    """A copy of the model with inferred types."""
    try:
        inferred = infer_shapes(without_weights(model), data_prop=True)
    except onnx.shape_inference.InferenceError:  # of an optional output that is left out, among others
        logger.debug("types not inferred", exc_info=True)
        return model.clone()
    return with_weights(inferred, model)


def _defined_by_others(graph: ir.Graph, version: int) -> Iterator[ir.Node]:
    for node in ir.traversal.RecursiveGraphIterator(graph):
        if node.domain or node.op_type in converters():
            continue
        schema = _schema(node, version)
        if schema is not None and (schema.has_function or schema.has_context_dependent_function):
            yield node


def _schema(node: ir.Node, version: int) -> Any:  # onnx's own annotations lack the attributes that are read here
    try:
        return onnx.defs.get_schema(node.op_type, version, "")
    except onnx.defs.SchemaError:
        return None


def _define(model: ir.Model, version: int) -> int:
    """Replace nodes that ONNX defines as functions by calls of functions of the model. Return how many there were."""
    count = 0
    for node in list(_defined_by_others(model.graph, version)):
        schema = _schema(node, version)
        body = _definition(node, schema, version)
        if body is None:
            continue
        body.domain, body.name = _DOMAIN, f"{node.op_type}_{count}"
        del body.opset_import[:]
        body.opset_import.add(version=version)
        _call(node, body, schema)
        function = ir.from_proto(body)
        model.functions[function.identifier()] = function
        count += 1
    if count:
        model.graph.opset_imports[_DOMAIN] = 1
    return count


def _call(node: ir.Node, body: onnx.FunctionProto, schema: Any) -> None:
    """Replace a node by a call of ``body``, with only the outputs that the node has."""
    wanted = [i for i, value in enumerate(node.outputs) if value.name]
    names = [body.output[i] for i in wanted]
    del body.output[:]
    body.output.extend(names)
    call = ir.Node(body.domain, body.name, node.inputs, _attributes(node, schema), num_outputs=len(wanted))
    assert node.graph is not None
    old = [node.outputs[i] for i in wanted]
    ir.convenience.replace_nodes_and_values(node.graph, node, [node], [call], old, call.outputs)


def _attributes(node: ir.Node, schema: Any) -> list[ir.Attr]:
    """The attributes, with defaults for those that are not set. The definition holds the graph attributes."""
    graphs = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    own = {name: attr for name, attr in node.attributes.items() if attr.type not in graphs}
    defaults = {
        name: ir.from_proto(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    return list((defaults | own).values())


def _definition(node: ir.Node, schema: Any, version: int) -> onnx.FunctionProto | None:
    """The newest definition that is valid in the model's opset; None if ONNX has none for these types."""
    if schema.has_context_dependent_function:
        known = [old for old in schema.context_dependent_function_opset_versions if old <= version]
        types = [_type(value).SerializeToString() for value in node.inputs]
        own = ir.to_proto(node).SerializeToString()
        made = known and schema.get_context_dependent_function_with_opset_version(max(known), own, types)
    else:
        known = [old for old in schema.function_opset_versions if old <= version]
        made = known and schema.get_function_with_opset_version(max(known))
    return onnx.FunctionProto.FromString(made) if made else None


def _type(value: ir.Value | None) -> onnx.TypeProto:
    """What is known of an operand's type; empty for a missing operand."""
    if value is None or value.type is None:
        return onnx.TypeProto()
    kind = ir.to_proto(value.type)
    if value.shape is not None:
        ir.serde.serialize_shape_into(kind, value.shape)
    return kind
