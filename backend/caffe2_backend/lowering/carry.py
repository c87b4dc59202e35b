"""ONNX nodes carried unchanged as operators of a Caffe2 net, in the format of ``caffe2_frontend.interop``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import onnx_ir as ir

from caffe2_backend.lowering.types import STORED_AS
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef
from caffe2_frontend.interop.bodies import captured_values
from caffe2_frontend.interop.metadata.embedded_onnx import CAPTURED, INPUT_TYPES, ONNX_DOMAIN, OPSETS, TYPES
from caffe2_frontend.interop.metadata.origin import QUANTIZATION_KEY
from caffe2_frontend.interop.types import Quantization

_FIELDS: Final = {
    ir.AttributeType.INT: "i",
    ir.AttributeType.FLOAT: "f",
    ir.AttributeType.STRING: "s",
    ir.AttributeType.INTS: "ints",
    ir.AttributeType.FLOATS: "floats",
    ir.AttributeType.STRINGS: "strings",
}
_PROTOS: Final = frozenset({
    ir.AttributeType.TENSOR, ir.AttributeType.SPARSE_TENSOR, ir.AttributeType.TYPE_PROTO,
    ir.AttributeType.TENSORS, ir.AttributeType.SPARSE_TENSORS, ir.AttributeType.TYPE_PROTOS,
})  # fmt: skip
_PROTO_FIELDS: Final = {
    ir.AttributeType.TENSOR: "t",
    ir.AttributeType.SPARSE_TENSOR: "sparse_tensor",
    ir.AttributeType.TYPE_PROTO: "tp",
    ir.AttributeType.TENSORS: "tensors",
    ir.AttributeType.SPARSE_TENSORS: "sparse_tensors",
    ir.AttributeType.TYPE_PROTOS: "type_protos",
}

SubNet = Callable[[ir.Graph, str], NetDef]


def carried(node: ir.Node, sub_net: SubNet) -> OperatorDef:
    """Return the operator that carries a node; ``sub_net`` makes the net of a body, by the name of its attribute."""
    op = OperatorDef(type=node.op_type, name=node.name or "", domain=node.domain or ONNX_DOMAIN)
    op.input.extend("" if value is None else str(value.name) for value in node.inputs)
    op.output.extend(str(value.name or "") for value in node.outputs)
    # A reference that is left refers to an attribute of a function that its call does not give.
    op.arg.extend(_argument(attr, sub_net) for attr in node.attributes.values() if not attr.is_ref())
    outer = list(dict.fromkeys(str(value.name) for value in captured_values(node)))
    if outer:
        op.input.extend(outer)
        op.arg.append(Argument(name=CAPTURED, strings=[name.encode() for name in outer]))
    types = [_type(value) for value in node.outputs]
    if any(types):
        op.arg.append(Argument(name=TYPES, strings=types))
    return op


def carried_constant(name: str, attr: ir.Attr, value: ir.Value) -> OperatorDef:
    """Return a Constant of an element type that Caffe2's tensors cannot hold."""
    op = OperatorDef(type="Constant", domain=ONNX_DOMAIN, output=[name])
    op.arg.append(_proto_argument(attr))
    op.arg.append(Argument(name=TYPES, strings=[_type(value)]))
    return op


def describe_net(
    net: NetDef,
    graph: ir.Graph,
    opsets: dict[str, int],
    quantized: Mapping[str, Quantization] | None = None,
    defaults: Iterable[ir.Value] = (),
    *,
    stores_bits: bool = False,
) -> None:
    """Write the types of a net's inputs, with the quantization of Int8 tensors, and the opset versions that it uses.

    Args:
        net: the net.
        graph: the graph that it was made of.
        opsets: the versions of the domains.
        quantized: the quantization of Int8 tensors.
        defaults: parameters that are inputs with defaults, too: a described parameter is one.
        stores_bits: whether inputs of types that Caffe2 has no tensors of are described by the types of their bits.
    """
    inputs = [_as_bits(value) if stores_bits else value for value in (*graph.inputs, *defaults)]
    infos = [_info(value, (quantized or {}).get(str(value.name))) for value in inputs]
    if infos:
        net.arg.append(Argument(name=INPUT_TYPES, strings=infos))
    if opsets:
        versions = [f"{domain or ONNX_DOMAIN}:{version}".encode() for domain, version in opsets.items()]
        net.arg.append(Argument(name=OPSETS, strings=versions))


def _as_bits(value: ir.Value) -> ir.Value:
    dtype = STORED_AS.get(value.type.dtype) if isinstance(value.type, ir.TensorType) else None
    return value if dtype is None else ir.Value(name=value.name, type=ir.TensorType(dtype), shape=value.shape)


def _info(value: ir.Value, how: Quantization | None) -> bytes:
    info = ir.serde.serialize_value(value)
    if how is not None:
        info.metadata_props.add(key=QUANTIZATION_KEY, value=how.to_text())
    return bytes(info.SerializeToString())


def _argument(attr: ir.Attr, sub_net: SubNet) -> Argument:
    if attr.type == ir.AttributeType.GRAPH:
        return Argument(name=attr.name, n=sub_net(attr.as_graph(), attr.name))
    if attr.type == ir.AttributeType.GRAPHS and attr.value:
        return Argument(name=attr.name, nets=[sub_net(graph, attr.name) for graph in attr.as_graphs()])
    if attr.type in _PROTOS:
        return _proto_argument(attr)
    argument = Argument(name=attr.name)
    field = _FIELDS.get(attr.type)
    match attr.value:
        case str():
            argument.s = attr.value.encode()
        case bytes():  # what is not UTF-8
            argument.s = attr.value
        case int() | float():
            setattr(argument, str(field), attr.value)
        case values if values and field is not None:
            getattr(argument, field).extend(value.encode() if isinstance(value, str) else value for value in values)
        case _:
            argument.name = f"{attr.name}:{attr.type.name}"
    return argument


def _proto_argument(attr: ir.Attr) -> Argument:
    value = getattr(ir.to_proto(attr), _PROTO_FIELDS[attr.type])
    name = f"{attr.name}:{attr.type.name}"
    if attr.type in (ir.AttributeType.TENSOR, ir.AttributeType.SPARSE_TENSOR, ir.AttributeType.TYPE_PROTO):
        return Argument(name=name, s=value.SerializeToString())
    return Argument(name=name, strings=[item.SerializeToString() for item in value])


def _type(value: ir.Value) -> bytes:
    if value.type is None or not value.name:
        return b""
    return bytes(ir.serde.serialize_value(value).type.SerializeToString())
