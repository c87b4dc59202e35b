"""Names and metadata of a model are text: protobuf gives what is not UTF-8 as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from caffe2_backend.admission.scopes import GraphScope, attributes_of
from caffe2_bridge.diagnostics import Diagnostic, Location


def check_texts(model: onnx.ModelProto, scopes: Iterable[GraphScope]) -> Iterator[Diagnostic]:
    """Report text that is not UTF-8, other than the names of nodes and their operands."""
    texts = (
        model.producer_name,
        model.producer_version,
        model.domain,
        model.doc_string,
        *_properties(model.metadata_props),
    )
    imports = (entry.domain for entry in model.opset_import)
    devices = (text for placed in model.configuration for text in (placed.name, *placed.device))
    yield from (_fault(text, _place(model)) for text in (*texts, *imports, *devices) if isinstance(text, bytes))
    for scope in scopes:
        for index, text in _of_scope(scope):
            if isinstance(text, bytes):
                yield _fault(text, scope.at(index))


def _place(model: onnx.ModelProto) -> Location:
    name: object = model.graph.name
    return Location(name if isinstance(name, str) and name else "graph")


def _of_scope(scope: GraphScope) -> Iterator[tuple[int | None, object]]:
    """Yield the texts of a scope, with the index of the node that they are in."""
    yield from ((None, text) for text in _of_graph(scope.proto))
    for tensor in scope.tensors:
        yield tensor.node, tensor.proto.name
        yield tensor.node, tensor.proto.doc_string
        yield from ((tensor.node, text) for text in _properties(tensor.proto.metadata_props))
    for index, attribute in attributes_of(scope):
        if attribute.doc_string or attribute.ref_attr_name or attribute.HasField("tp") or attribute.type_protos:
            yield from ((index, text) for text in _of_attribute(attribute))
    for index, node in enumerate(scope.nodes):
        yield from ((index, text) for text in _of_node(node))


def _of_node(node: onnx.NodeProto) -> Iterator[object]:
    yield from (node.overload, node.doc_string)
    yield from _properties(node.metadata_props)
    for placed in node.device_configurations:
        yield placed.configuration_id
        yield from (sharding.tensor_name for sharding in placed.sharding_spec)


def _of_attribute(attribute: onnx.AttributeProto) -> Iterator[object]:
    yield from (attribute.name, attribute.doc_string, attribute.ref_attr_name)
    for kind in ([attribute.tp] if attribute.HasField("tp") else []) + [*attribute.type_protos]:
        yield from _of_type(kind)


def _of_graph(proto: onnx.GraphProto | onnx.FunctionProto) -> Iterator[object]:
    yield from (proto.name, proto.doc_string)
    yield from _properties(proto.metadata_props)
    if isinstance(proto, onnx.FunctionProto):
        yield from (proto.domain, proto.overload, *proto.input, *proto.output, *proto.attribute)
        yield from (entry.domain for entry in proto.opset_import)
        infos = [*proto.value_info]
    else:
        infos = [*proto.input, *proto.output, *proto.value_info]
        for annotation in proto.quantization_annotation:
            yield annotation.tensor_name
            yield from _properties(annotation.quant_parameter_tensor_names)
    for info in infos:
        yield from (info.name, info.doc_string)
        yield from _properties(info.metadata_props)
        yield from _of_type(info.type)


def _of_type(kind: onnx.TypeProto) -> Iterator[object]:
    while kind.HasField("sequence_type") or kind.HasField("optional_type"):
        kind = kind.sequence_type.elem_type if kind.HasField("sequence_type") else kind.optional_type.elem_type
    yield kind.denotation
    for dim in kind.tensor_type.shape.dim:
        yield from (dim.dim_param, dim.denotation)


def _properties(entries: Iterable[onnx.StringStringEntryProto]) -> Iterator[object]:
    for entry in entries:
        yield from (entry.key, entry.value)


def _fault(text: bytes, location: Location) -> Diagnostic:
    return Diagnostic("malformed-model", f"text {text[:40]!r} is not UTF-8", location)
