"""ONNX operators in Caffe2 nets: how they are written there, and the way back into a graph.

An operator whose ``domain`` is not empty is a node of that ONNX domain (``ai.onnx`` for ONNX's own). Its operands are
the node's, an empty name for one that is left out, and after them the outer blobs that its bodies read. Its arguments
are the node's attributes under their own names, where an Argument's field tells the kind; elsewhere, and for empty
lists, the name is ``<attribute>:<KIND>``, and tensors and types are serialized ONNX protobufs. Names that begin with a
colon are no attributes:

* ``:captured`` (strings): for each of the last operands, the name that the bodies read it under;
* ``:types`` (strings): the serialized TypeProto of each output.

Nets say in ``onnx_opsets`` (strings ``<domain>:<version>``) what their operators mean, and in ``onnx_types`` (strings,
serialized ValueInfoProto) what their inputs are; metadata ``caffe2.quantization`` holds the scale and zero point
of one that is an Int8 tensor. Bodies have no parameters of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.netdef.views import ArgumentError, NetView, decode_text
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef
from caffe2_frontend.interop.origin import QUANTIZATION_KEY, node_metadata
from caffe2_frontend.interop.types import Quantization
from caffe2_frontend.lowering.op import Op, Value

ONNX_DOMAIN: Final = "ai.onnx"
CAPTURED: Final = ":captured"
TYPES: Final = ":types"
OPSETS: Final = "onnx_opsets"
INPUT_TYPES: Final = "onnx_types"


def is_foreign(net: NetDef) -> bool:
    """Whether an operator of the net is an ONNX operator."""
    return any(op.domain for op in net.op)


def read_opsets(net: NetDef) -> dict[str, int]:
    """The versions of the ONNX domains (ONNX's own as the empty name). Raises NetFormatError where it is damaged."""
    opsets = {}
    for text in NetView(net).args.texts(OPSETS, ()):
        domain, _, version = text.rpartition(":")
        if not version.isdigit():
            raise NetFormatError(f"{text!r} in argument {OPSETS!r} is no <domain>:<version>", net.name)
        opsets["" if domain == ONNX_DOMAIN else domain] = int(version)
    return opsets


def read_input_types(net: NetDef) -> dict[str, ir.TypeAndShape]:
    """What the net says of its inputs. Raises NetFormatError where that is damaged."""
    return {info.name: _type_and_shape(info.type) for info in _input_infos(net)}


def read_input_quantization(net: NetDef) -> dict[str, Quantization]:
    """Which inputs the net says are Int8 tensors. Raises NetFormatError where that is damaged."""
    found = {}
    for info in _input_infos(net):
        for prop in info.metadata_props:
            if prop.key == QUANTIZATION_KEY:
                try:
                    found[info.name] = Quantization.from_text(prop.value)
                except ValueError:
                    reason = f"{prop.value!r} in argument {INPUT_TYPES!r} is no scale and zero point"
                    raise NetFormatError(reason, net.name) from None
    return found


def _input_infos(net: NetDef) -> Iterator[onnx.ValueInfoProto]:
    for data in NetView(net).args.blobs(INPUT_TYPES, ()):
        try:
            yield onnx.ValueInfoProto.FromString(data)
        except DecodeError as error:
            raise NetFormatError(f"argument {INPUT_TYPES!r} is damaged: {error}", net.name) from None


def convert_foreign(op: Op) -> tuple[Value | None, ...]:
    """The ONNX node that the operator is, with its bodies."""
    view = op.view
    args = {arg.name: arg for arg in view.proto.arg}
    view.args.ignore(*args)
    captured = view.args.texts(CAPTURED, ())
    count = len(view.inputs) - len(captured)
    if count < 0:
        raise ArgumentError(f"{len(captured)} operands are captured, and there are {len(view.inputs)}")
    inputs = [op.input(i) if name else None for i, name in enumerate(view.inputs[:count])]
    seen = {name: op.input(count + i) for i, name in enumerate(captured)}
    attributes = [_attribute(op, arg, seen) for name, arg in args.items() if not name.startswith(":")]
    domain = view.proto.domain
    node = ir.Node(
        "" if domain == ONNX_DOMAIN else domain,
        view.type,
        inputs,
        attributes,
        name=view.name or None,
        num_outputs=len(view.outputs),
        metadata_props=node_metadata(view.type, op.location),
    )
    types = view.args.blobs(TYPES, ())
    op.scope.append(node, next(filter(None, view.outputs), view.type))
    for index, (name, value) in enumerate(zip(view.outputs, node.outputs, strict=True)):
        if not name:
            op.scope.unbound.discard(value)
            value.name = ""
        elif index < len(types):
            _set_type(value, _parsed(onnx.TypeProto, types[index], TYPES))
    return tuple(value if name else None for name, value in zip(view.outputs, node.outputs, strict=True))


def _parsed(kind: Any, data: bytes, name: str) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ArgumentError(f"argument {name!r} is no serialized {kind.__name__}: {error}") from None


def _type_and_shape(proto: onnx.TypeProto) -> ir.TypeAndShape:
    if not proto.WhichOneof("value"):
        return ir.TypeAndShape(None, None)
    kind = ir.serde.deserialize_type_proto_for_type(proto)
    return ir.TypeAndShape(kind, ir.serde.deserialize_type_proto_for_shape(proto))


def _set_type(value: Value, proto: onnx.TypeProto) -> None:
    known = _type_and_shape(proto)
    value.type, value.shape = known.type, known.shape


def _attribute(op: Op, arg: Argument, captured: Mapping[str, Value]) -> ir.Attr:
    name, _, kind = arg.name.partition(":")
    if kind:
        return _spelled_out(name, kind, arg)
    if arg.HasField("n"):
        return ir.AttrGraph(name, _graph(op, arg.n, name, captured))
    if arg.nets:
        return ir.AttrGraphs(name, [_graph(op, net, name, captured) for net in arg.nets])
    return _plain_attribute(name, arg)


def _plain_attribute(name: str, arg: Argument) -> ir.Attr:
    made: ir.Attr | None = None
    if arg.HasField("i"):
        made = ir.AttrInt64(name, arg.i)
    elif arg.HasField("f"):
        made = ir.AttrFloat32(name, arg.f)
    elif arg.HasField("s"):
        made = ir.AttrString(name, decode_text(arg.name, arg.s))
    elif arg.ints:
        made = ir.AttrInt64s(name, list(arg.ints))
    elif arg.floats:
        made = ir.AttrFloat32s(name, list(arg.floats))
    elif arg.strings:
        made = ir.AttrStrings(name, [decode_text(arg.name, value) for value in arg.strings])
    if made is None:
        raise ArgumentError(f"argument {arg.name!r} is empty: an empty list has its kind in its name")
    return made


def _spelled_out(name: str, kind: str, arg: Argument) -> ir.Attr:
    proto = onnx.AttributeProto(name=name)
    if kind == "GRAPH" or kind not in onnx.AttributeProto.AttributeType.keys():  # noqa: SIM118 - no dict
        raise ArgumentError(f"argument {arg.name!r}: there is no kind {kind!r}")
    number: Any = onnx.AttributeProto.AttributeType.Value(kind)
    proto.type = number
    match kind:
        case "TENSOR":
            proto.t.CopyFrom(_parsed(onnx.TensorProto, arg.s, arg.name))
        case "SPARSE_TENSOR":
            proto.sparse_tensor.CopyFrom(_parsed(onnx.SparseTensorProto, arg.s, arg.name))
        case "TYPE_PROTO":
            proto.tp.CopyFrom(_parsed(onnx.TypeProto, arg.s, arg.name))
        case "TENSORS":
            proto.tensors.extend(_parsed(onnx.TensorProto, data, arg.name) for data in arg.strings)
        case "SPARSE_TENSORS":
            proto.sparse_tensors.extend(_parsed(onnx.SparseTensorProto, data, arg.name) for data in arg.strings)
        case "TYPE_PROTOS":
            proto.type_protos.extend(_parsed(onnx.TypeProto, data, arg.name) for data in arg.strings)
    for tensor in _tensors(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ArgumentError(f"argument {arg.name!r} names a file: tensors in nets must hold their values")
    return ir.from_proto(proto)


def _tensors(attribute: onnx.AttributeProto) -> Iterator[onnx.TensorProto]:
    yield from (attribute.t, *attribute.tensors)
    for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
        yield from (sparse.values, sparse.indices)


def _graph(op: Op, net: NetDef, name: str, captured: Mapping[str, Value]) -> ir.Graph:
    """A body: it sees its own inputs and what it captures, under the names that it has for them."""
    types = read_input_types(net)
    formals = []
    for blob in net.external_input:
        known = types.get(blob)
        value = ir.Value(name=op.scope.names.fresh(blob))
        if known is not None:
            value.type, value.shape = known.type, known.shape
        formals.append(value)
    scope = op.scope.child(sealed=True)
    scope.blobs.update(captured)
    scope.blobs.update(zip(net.external_input, formals, strict=True))
    op.lower_body(net, scope, name)
    own = {value for node in scope.nodes for value in node.outputs}
    results: list[Value] = []
    for blob in net.external_output:
        found = scope.find(blob)
        if found is None:
            op.unsupported(f"body {name!r} gives {blob!r}, which nothing in it makes", code="undefined-output")
        results.append(found if found in own and found not in results else op.inside(scope).emit("Identity", found))
    return scope.graph(formals, results, net.name or name)
