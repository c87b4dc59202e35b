"""Write ONNX models as protobufs: the same messages as ``onnx_ir.to_proto`` in less time and memory.

Nodes, and the descriptions of what they compute, are written in protobuf's wire format, and types and attributes that
many of them share are made once. What is rare, such as initializers, inputs and functions, is left to onnx_ir.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, cast

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.wire import LEN
from caffe2_bridge.wire.write import encode_len, encode_varint

# Tensors that are written here, as raw bytes; by type, because onnx_ir's classes are slow to test for instances.
_OWN_KINDS: Final = (ir.Tensor, ir.LazyTensor)
# The key of the quantization of a value in the data that onnx_ir keeps of it.
_ANNOTATION: Final = "quant_parameter_tensor_names"
# Attributes of these kinds are small, and many nodes have equal ones.
_SHARED_KINDS: Final = frozenset({
    ir.AttributeType.FLOAT, ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.STRING,
})  # fmt: skip


@dataclass(frozen=True)
class WrittenModel:
    """A model whose nodes are serialized already.

    Attributes:
        frame: the model, its graph without inputs, nodes and descriptions of what these compute.
        nodes: these fields of the graph, serialized.
    """

    frame: onnx.ModelProto
    nodes: bytes

    @property
    def data(self) -> bytes:
        """The serialized model: a message in two parts is the sum of the two."""
        return self.frame.SerializeToString() + encode_len(onnx.ModelProto.GRAPH_FIELD_NUMBER, self.nodes)


def to_proto(model: ir.Model, *, metadata: bool = True) -> onnx.ModelProto:
    """Return the model as a protobuf, with its weights. Quantization annotations of intermediate values are left out.

    Without ``metadata`` nodes have none: ONNX's own code does not read it.

    Raises onnx_ir.serde.SerdeError where the model holds what a protobuf cannot.
    """
    if model.functions:
        with own_errors():
            return ir.to_proto(model)
    written = write_model(model, metadata=metadata)
    try:
        written.frame.graph.MergeFromString(written.nodes)
    except DecodeError:  # bodies are nested deeper than protobuf parses
        with own_errors():
            return ir.to_proto(model)
    return written.frame


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise the project's own error, where the tensor that onnx_ir failed to write raised one when it was read."""
    try:
        yield
    except ir.serde.SerdeError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, BridgeError):
            cause = cause.__cause__
        if cause is None:
            raise
        raise cause from None


def write_model(model: ir.Model, *, metadata: bool = True) -> WrittenModel:
    """Write a model without functions; see :func:`to_proto`."""
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
    frame = ir.to_proto(shell)
    writer = _Writer(metadata=metadata)
    try:
        nodes = writer.write(frame.graph, model.graph)
    except (TypeError, ValueError) as error:  # a name that is None, or not text
        raise ir.serde.SerdeError(f"graph {model.graph.name!r} cannot be written as a protobuf: {error}") from error
    return WrittenModel(frame, nodes)


class _Heads(dict[int, bytes]):
    """What precedes a field of bytes, its tag and its length, by length."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._tag = encode_varint(number << 3 | LEN)

    def __missing__(self, length: int) -> bytes:
        head = self[length] = self._tag + encode_varint(length)
        return head


_GRAPH_INPUT: Final = _Heads(onnx.GraphProto.INPUT_FIELD_NUMBER)
_NODE: Final = _Heads(onnx.GraphProto.NODE_FIELD_NUMBER)
_VALUE_INFO: Final = _Heads(onnx.GraphProto.VALUE_INFO_FIELD_NUMBER)
_INPUT: Final = _Heads(onnx.NodeProto.INPUT_FIELD_NUMBER)
_OUTPUT: Final = _Heads(onnx.NodeProto.OUTPUT_FIELD_NUMBER)
_NODE_NAME: Final = _Heads(onnx.NodeProto.NAME_FIELD_NUMBER)
_OP_TYPE: Final = _Heads(onnx.NodeProto.OP_TYPE_FIELD_NUMBER)
_ATTRIBUTE: Final = _Heads(onnx.NodeProto.ATTRIBUTE_FIELD_NUMBER)
_NODE_DOC: Final = _Heads(onnx.NodeProto.DOC_STRING_FIELD_NUMBER)
_DOMAIN: Final = _Heads(onnx.NodeProto.DOMAIN_FIELD_NUMBER)
_OVERLOAD: Final = _Heads(onnx.NodeProto.OVERLOAD_FIELD_NUMBER)
_NODE_METADATA: Final = _Heads(onnx.NodeProto.METADATA_PROPS_FIELD_NUMBER)
_GRAPH: Final = _Heads(onnx.AttributeProto.G_FIELD_NUMBER)
_GRAPHS: Final = _Heads(onnx.AttributeProto.GRAPHS_FIELD_NUMBER)
_KEY: Final = _Heads(onnx.StringStringEntryProto.KEY_FIELD_NUMBER)
_VALUE: Final = _Heads(onnx.StringStringEntryProto.VALUE_FIELD_NUMBER)
_INFO_NAME: Final = _Heads(onnx.ValueInfoProto.NAME_FIELD_NUMBER)
_INFO_TYPE: Final = _Heads(onnx.ValueInfoProto.TYPE_FIELD_NUMBER)
_INFO_DOC: Final = _Heads(onnx.ValueInfoProto.DOC_STRING_FIELD_NUMBER)
_INFO_METADATA: Final = _Heads(onnx.ValueInfoProto.METADATA_PROPS_FIELD_NUMBER)


class _Writer:
    """Writes the graphs of one model, and remembers what they repeat. The model holds all objects meanwhile."""

    def __init__(self, *, metadata: bool) -> None:
        self._metadata = metadata
        self._attributes: dict[int, bytes] = {}  # by id: many nodes share the objects
        self._equal_attributes: dict[Hashable, bytes] = {}
        self._types: dict[tuple[int, int], bytes] = {}
        self._equal_types: dict[Hashable, bytes] = {}
        self._op_types: dict[tuple[str, str], bytes] = {}

    def write(self, proto: onnx.GraphProto, graph: ir.Graph) -> bytes:
        """Fill an empty GraphProto but for its inputs, nodes and descriptions of values; return these, serialized."""
        initializers = tuple(graph.initializers.values())
        nodes: list[bytes] = []
        infos: list[bytes] = []
        if any(_ANNOTATION in value.meta for value in (*graph.inputs, *initializers)):
            self._frame(proto, graph, graph.inputs, initializers)
        else:
            self._frame(proto, graph, (), ())
            for value in graph.inputs:
                data = self._info(value)
                nodes += (_GRAPH_INPUT[len(data)], data)
            for value in initializers:
                _write_tensor(proto, value)
                if _is_described(value) and not value.is_graph_input():
                    data = self._info(value)
                    infos += (_VALUE_INFO[len(data)], data)
        for node in graph:
            data = self._node(node)
            nodes += (_NODE[len(data)], data)
            for value in node.outputs:
                if _is_described(value) and value.name and not value.is_graph_output():
                    data = self._info(value)
                    infos += (_VALUE_INFO[len(data)], data)
        return b"".join(nodes + infos)

    @staticmethod
    def _frame(
        proto: onnx.GraphProto, graph: ir.Graph, inputs: Sequence[ir.Value], initializers: Sequence[ir.Value]
    ) -> None:
        view = ir.GraphView(
            inputs,
            graph.outputs,
            nodes=(),
            initializers=initializers,
            doc_string=graph.doc_string,
            name=graph.name,
            metadata_props=graph.metadata_props,
        )
        ir.serde.serialize_graph_into(proto, cast("ir.Graph", view))  # which takes views, but is not typed so

    def _info(self, value: ir.Value) -> bytes:
        """Return the description of a value."""
        kind, shape = value.type, value.shape
        written = self._types.get((id(kind), id(shape)))
        data = _field(_INFO_NAME, value.name)  # type: ignore[arg-type] # raises TypeError
        data += self._type(kind, shape) if written is None else written
        if value.doc_string:
            data += _field(_INFO_DOC, value.doc_string)
        if value.metadata_props:
            data += _entries(_INFO_METADATA, value.metadata_props)
        return data

    def _node(self, node: ir.Node) -> bytes:
        if node.device_configurations:
            return ir.serde.serialize_node(node).SerializeToString()
        parts: list[bytes] = []
        for value in node.inputs:
            data = b"" if value is None else str.encode(value.name)  # type: ignore[arg-type] # raises TypeError
            parts += (_INPUT[len(data)], data)
        for value in _listed(node.outputs):
            data = str.encode(value.name)  # type: ignore[arg-type] # raises TypeError
            parts += (_OUTPUT[len(data)], data)
        name = node.name
        if name:
            data = str.encode(name)
            parts += (_NODE_NAME[len(data)], data)
        kind = (node.domain, node.op_type)
        parts.append(self._op_types.get(kind) or self._op_type(*kind))
        if node.attributes:
            known = self._attributes
            parts += [known.get(id(each)) or self._attribute(each) for each in node.attributes.values()]
        if node.doc_string:
            parts.append(_field(_NODE_DOC, node.doc_string))
        if node.overload:
            parts.append(_field(_OVERLOAD, node.overload))
        if self._metadata and node.metadata_props:
            parts.append(_entries(_NODE_METADATA, node.metadata_props))
        return b"".join(parts)

    def _op_type(self, domain: str, op_type: str) -> bytes:
        """Return the type of a node, and its domain unless that is ONNX's own."""
        written = _field(_OP_TYPE, op_type) + (_field(_DOMAIN, domain) if domain else b"")
        self._op_types[domain, op_type] = written
        return written

    def _attribute(self, attribute: ir.Attr) -> bytes:
        key = _attribute_key(attribute)
        written = None if key is None else self._equal_attributes.get(key)
        if written is None:
            data = self._bodies(attribute) if attribute.type in _BODIES else self._plain(attribute)
            written = _ATTRIBUTE[len(data)] + data
            if key is not None:
                self._equal_attributes[key] = written
        self._attributes[id(attribute)] = written
        return written

    def _plain(self, attribute: ir.Attr) -> bytes:
        proto = onnx.AttributeProto()
        if attribute.is_ref():
            ir.serde.serialize_reference_attribute_into(proto, attribute)
        else:
            ir.serde.serialize_attribute_into(proto, attribute)
        return proto.SerializeToString()

    def _bodies(self, attribute: ir.Attr) -> bytes:
        if attribute.is_ref():
            return self._plain(attribute)
        proto = onnx.AttributeProto(name=attribute.name, type=_BODIES[attribute.type])
        if attribute.doc_string:
            proto.doc_string = attribute.doc_string
        parts = [proto.SerializeToString()]
        is_one = attribute.type == ir.AttributeType.GRAPH
        for graph in (attribute.as_graph(),) if is_one else attribute.as_graphs():
            frame = onnx.GraphProto()
            nodes = self.write(frame, graph)
            data = frame.SerializeToString() + nodes
            parts += ((_GRAPH if is_one else _GRAPHS)[len(data)], data)
        return b"".join(parts)

    def _type(self, kind: ir.TypeProtocol | None, shape: ir.Shape | None) -> bytes:
        """Return the type of a value. Many values share the objects, and most others are equal to a few."""
        if kind is None:
            return b""
        key = _type_key(kind, shape)
        written = None if key is None else self._equal_types.get(key)
        if written is None:
            proto = onnx.TypeProto()
            ir.serde.serialize_type_into(proto, kind)
            if shape is not None:
                ir.serde.serialize_shape_into(proto, shape)
            data = proto.SerializeToString()
            written = _INFO_TYPE[len(data)] + data
            if key is not None:
                self._equal_types[key] = written
        self._types[id(kind), id(shape)] = written
        return written


_BODIES: Final[Mapping[ir.AttributeType, onnx.AttributeProto.AttributeType]] = {
    ir.AttributeType.GRAPH: onnx.AttributeProto.GRAPH,
    ir.AttributeType.GRAPHS: onnx.AttributeProto.GRAPHS,
}


def _is_described(value: ir.Value) -> bool:
    return value.type is not None or value.shape is not None


def _write_tensor(proto: onnx.GraphProto, value: ir.Value) -> None:
    """Write the contents of an initializer."""
    tensor = value.const_value
    if tensor is None:
        return
    tensor.name = value.name
    is_plain = type(tensor) in _OWN_KINDS and tensor.dtype != ir.DataType.STRING
    if is_plain and not (tensor.doc_string or tensor.metadata_props):
        proto.initializer.add(
            name=value.name, data_type=int(tensor.dtype), dims=tensor.shape.numpy(), raw_data=tensor.tobytes()
        )
    else:
        ir.serde.serialize_tensor_into(proto.initializer.add(), tensor)


def _field(heads: _Heads, text: str) -> bytes:
    data = str.encode(text)  # raises TypeError where it is not text
    return heads[len(data)] + data


@lru_cache(maxsize=64)
def _key(key: str) -> bytes:
    return _field(_KEY, key)


def _entries(heads: _Heads, metadata: Mapping[str, str]) -> bytes:
    parts: list[bytes] = []
    for key in sorted(metadata):
        data = _key(key) + _field(_VALUE, metadata[key])
        parts += (heads[len(data)], data)
    return b"".join(parts)


def _attribute_key(attribute: ir.Attr) -> Hashable | None:
    """Return what determines the protobuf of an attribute; None where equal ones are rare."""
    if attribute.type not in _SHARED_KINDS or attribute.doc_string or attribute.is_ref():
        return None
    value = attribute.value
    if isinstance(value, float):
        value = struct.pack("<d", value)  # 0.0 and -0.0 are equal
    return attribute.name, attribute.type, value if isinstance(value, str | bytes | int) else tuple(value)


def _type_key(kind: ir.TypeProtocol, shape: ir.Shape | None) -> Hashable:
    """Return what determines the protobuf of a type; None for another than a tensor."""
    if not isinstance(kind, ir.TensorType):
        return None
    if shape is None:
        return kind.dtype, kind.denotation
    return kind.dtype, kind.denotation, shape.dims, tuple(shape.get_denotation(axis) for axis in range(len(shape)))


def _listed(outputs: Sequence[ir.Value]) -> Sequence[ir.Value]:
    """Return the outputs of a node without those at the end that are left out."""
    if not outputs or outputs[-1].name:
        return outputs
    return outputs[: max((i for i, value in enumerate(outputs, 1) if value.name), default=0)]
