"""Write ONNX models as protobufs: the same messages as ``onnx_ir.to_proto`` in less time and memory.

Nodes, and the descriptions of what they compute, are written here, and types and attributes that many of them share are
made once. What is rare, such as initializers, inputs and functions, is left to onnx_ir.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Sequence
from typing import Final, cast

import onnx
import onnx_ir as ir

# Attributes of these kinds are small, and many nodes have equal ones.
_SHARED_KINDS: Final = frozenset({
    ir.AttributeType.FLOAT, ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.STRING,
})  # fmt: skip


def to_proto(model: ir.Model, *, metadata: bool = True) -> onnx.ModelProto:
    """The model as a protobuf, with its weights. Quantization annotations of intermediate values are left out.

    Without ``metadata`` nodes have none: ONNX's own code does not read it.

    Raises onnx_ir.serde.SerdeError where the model holds what a protobuf cannot.
    """
    if model.functions:
        return ir.to_proto(model)
    shell = ir.Model(
        ir.Graph((), (), nodes=(), opset_imports=model.opset_imports),
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        metadata_props=model.metadata_props,
    )
    shell.device_configurations = model.device_configurations
    proto = ir.to_proto(shell)
    try:
        _Writer(metadata=metadata).write(proto.graph, model.graph)
    except (TypeError, ValueError) as error:  # a name that is None, or not text
        raise ir.serde.SerdeError(f"graph {model.graph.name!r} cannot be written as a protobuf: {error}") from error
    return proto


class _Writer:
    """Writes the graphs of one model, and remembers what they repeat."""

    def __init__(self, *, metadata: bool) -> None:
        self._metadata = metadata
        self._attributes: dict[Hashable, onnx.AttributeProto] = {}
        self._types: dict[tuple[int, int], onnx.TypeProto | None] = {}
        self._equal_types: dict[Hashable, onnx.TypeProto] = {}
        self._alive: list[object] = []  # keeps types and shapes alive, so that their ids stay unique

    def write(self, proto: onnx.GraphProto, graph: ir.Graph) -> None:
        """Fill an empty GraphProto."""
        frame = ir.GraphView(
            graph.inputs,
            graph.outputs,
            nodes=(),
            initializers=tuple(graph.initializers.values()),
            doc_string=graph.doc_string,
            name=graph.name,
            metadata_props=graph.metadata_props,
        )
        ir.serde.serialize_graph_into(proto, cast("ir.Graph", frame))  # which takes views, but is not typed so
        add_node, add_info = proto.node.add, proto.value_info.add
        for node in graph:
            outputs = node.outputs
            written = add_node(
                op_type=node.op_type,
                input=["" if value is None else value.name for value in node.inputs],
                output=[value.name for value in _listed(outputs)],
            )
            self._complete(written, node)
            for value in outputs:
                kind, shape, name = value.type, value.shape, value.name
                if name and (kind is not None or shape is not None) and not value.is_graph_output():
                    known = self._types.get((id(kind), id(shape)))
                    self._describe(add_info(name=name, type=known or self._type(kind, shape)), value)

    def _complete(self, proto: onnx.NodeProto, node: ir.Node) -> None:
        """Write what only some nodes have."""
        if node.name:
            proto.name = node.name
        if node.domain:
            proto.domain = node.domain
        if node.overload:
            proto.overload = node.overload
        if node.doc_string:
            proto.doc_string = node.doc_string
        if self._metadata and node.metadata_props:
            entries, add = node.metadata_props, proto.metadata_props.add
            for key in sorted(entries):
                add(key=key, value=entries[key])
        if node.attributes:
            for attribute in node.attributes.values():
                self._attribute(proto.attribute.add(), attribute)
        if node.device_configurations:
            proto.CopyFrom(ir.serde.serialize_node(node))

    @staticmethod
    def _describe(info: onnx.ValueInfoProto, value: ir.Value) -> None:
        """Write what only some values have."""
        if value.doc_string:
            info.doc_string = value.doc_string
        if value.metadata_props:
            for key in sorted(value.metadata_props):
                info.metadata_props.add(key=key, value=value.metadata_props[key])

    def _attribute(self, proto: onnx.AttributeProto, attribute: ir.Attr) -> None:
        if attribute.is_ref():
            ir.serde.serialize_reference_attribute_into(proto, attribute)
        elif attribute.type == ir.AttributeType.GRAPH:
            proto.name, proto.type = attribute.name, onnx.AttributeProto.GRAPH
            if attribute.doc_string:
                proto.doc_string = attribute.doc_string
            proto.g.SetInParent()
            self.write(proto.g, attribute.as_graph())
        elif attribute.type in _SHARED_KINDS and not attribute.doc_string:
            proto.CopyFrom(self._shared(attribute))
        else:
            ir.serde.serialize_attribute_into(proto, attribute)

    def _shared(self, attribute: ir.Attr) -> onnx.AttributeProto:
        value = attribute.value
        if isinstance(value, float):
            value = struct.pack("<d", value)  # 0.0 and -0.0 are equal
        key = (attribute.name, attribute.type, value if isinstance(value, str | bytes | int) else tuple(value))
        written = self._attributes.get(key)
        if written is None:
            written = self._attributes[key] = ir.serde.serialize_attribute(attribute)
        return written

    def _type(self, kind: ir.TypeProtocol | None, shape: ir.Shape | None) -> onnx.TypeProto | None:
        """The type of a value. Many values share the objects, and most others are equal to a few."""
        if kind is None:
            return None
        key = _type_key(kind, shape)
        written = None if key is None else self._equal_types.get(key)
        if written is None:
            written = onnx.TypeProto()
            ir.serde.serialize_type_into(written, kind)
            if shape is not None:
                ir.serde.serialize_shape_into(written, shape)
            if key is not None:
                self._equal_types[key] = written
        self._alive += (kind, shape)
        self._types[id(kind), id(shape)] = written
        return written


def _type_key(kind: ir.TypeProtocol, shape: ir.Shape | None) -> Hashable:
    """What determines the protobuf of a type; None for another than a tensor."""
    if not isinstance(kind, ir.TensorType):
        return None
    if shape is None:
        return kind.dtype, kind.denotation
    return kind.dtype, kind.denotation, shape.dims, tuple(shape.get_denotation(axis) for axis in range(len(shape)))


def _listed(outputs: Sequence[ir.Value]) -> Sequence[ir.Value]:
    """The outputs of a node without those at the end that are left out."""
    end = len(outputs)
    while end and not outputs[end - 1].name:
        end -= 1
    return outputs if end == len(outputs) else outputs[:end]
