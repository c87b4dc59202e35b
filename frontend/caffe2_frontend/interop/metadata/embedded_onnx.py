"""The format of ONNX operators that are embedded in Caffe2 nets.

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

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.netdef.views import ArgumentError, NetView, decode_text
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef
from caffe2_frontend.interop.domains import STANDARD_DOMAINS
from caffe2_frontend.interop.metadata.origin import QUANTIZATION_KEY
from caffe2_frontend.interop.types import Quantization

ONNX_DOMAIN: Final = "ai.onnx"
CAPTURED: Final = ":captured"
TYPES: Final = ":types"
OPSETS: Final = "onnx_opsets"
INPUT_TYPES: Final = "onnx_types"

_LARGEST_VERSION: Final = 2**31 - 1  # that ONNX can look up
_DIGITS: Final = 10  # of that


def is_foreign(net: NetDef) -> bool:
    """Whether an operator of the net is an ONNX operator."""
    return any(op.domain for op in net.op)


def read_opsets(net: NetDef) -> dict[str, int]:
    """Return the versions of the ONNX domains that a net uses; ONNX's own domain is the empty name.

    Raises NetFormatError where they are damaged.
    """
    opsets = {}
    for text in NetView(net).args.texts(OPSETS, ()):
        domain, _, version = text.rpartition(":")
        if not (version.isascii() and version.isdigit()):
            raise NetFormatError(f"{text!r} in argument {OPSETS!r} is not <domain>:<version>", net.name)
        newest = onnx.defs.onnx_opset_version() if domain in STANDARD_DOMAINS else _LARGEST_VERSION
        if len(version) > _DIGITS or not 1 <= int(version) <= newest:
            raise NetFormatError(f"{text!r} in argument {OPSETS!r} is not a version from 1 to {newest}", net.name)
        opsets["" if domain == ONNX_DOMAIN else domain] = int(version)
    return opsets


def read_input_types(net: NetDef) -> dict[str, ir.TypeAndShape]:
    """Return the types of a net's inputs that are stored in it. Raises NetFormatError where they are damaged."""
    try:
        return {info.name: _type_and_shape(info.type, INPUT_TYPES) for info in _input_infos(net)}
    except ArgumentError as error:
        raise NetFormatError(str(error), net.name) from None


def read_input_quantization(net: NetDef) -> dict[str, Quantization]:
    """Return the quantization of a net's Int8 inputs stored in it. Raises NetFormatError where it is damaged."""
    found = {}
    for info in _input_infos(net):
        for prop in info.metadata_props:
            if prop.key == QUANTIZATION_KEY:
                try:
                    found[info.name] = Quantization.from_text(prop.value)
                except ValueError:
                    reason = f"{prop.value!r} in argument {INPUT_TYPES!r} is not a scale and a zero point"
                    raise NetFormatError(reason, net.name) from None
    return found


def _input_infos(net: NetDef) -> Iterator[onnx.ValueInfoProto]:
    for data in NetView(net).args.blobs(INPUT_TYPES, ()):
        try:
            yield onnx.ValueInfoProto.FromString(data)
        except DecodeError as error:
            raise NetFormatError(f"argument {INPUT_TYPES!r} is damaged: {error}", net.name) from None


def _parsed(kind: Any, data: bytes, name: str) -> Any:
    """Return the protobuf that argument ``name`` holds, serialized. Raises ArgumentError where it is damaged."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ArgumentError(f"argument {name!r} is not a serialized {kind.__name__}: {error}") from None


def _type_and_shape(proto: onnx.TypeProto, name: str) -> ir.TypeAndShape:
    if not proto.WhichOneof("value"):
        return ir.TypeAndShape(None, None)
    with _refused(name):
        kind = ir.serde.deserialize_type_proto_for_type(proto)
        if isinstance(kind, ir.TensorType) and kind.dtype is ir.DataType.UNDEFINED:
            kind = None  # a tensor of unknown elements: its shape alone is known
        return ir.TypeAndShape(kind, ir.serde.deserialize_type_proto_for_shape(proto))


@contextmanager
def _refused(name: str) -> Iterator[None]:
    """Raise ArgumentError where argument ``name`` holds a protobuf that is well-formed, but means nothing."""
    try:
        yield
    except ir.serde.SerdeError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        # What is not implemented asks the reader to contribute.
        reason = f" ({str(cause).partition(chr(10))[0]})" if isinstance(cause, ValueError) else ""
        raise ArgumentError(f"argument {name!r} holds a type or tensor that is not supported{reason}") from None


def read_attribute(arg: Argument) -> ir.Attr:
    """Return the attribute that an argument without nets stands for. Raises ArgumentError where it is damaged."""
    name, _, kind = arg.name.partition(":")
    return _typed_attribute(name, kind, arg) if kind else _plain_attribute(name, arg)


def read_type(data: bytes) -> ir.TypeAndShape:
    """Return the type of an output, as argument :data:`TYPES` holds it. Raises ArgumentError where it is damaged."""
    return _type_and_shape(_parsed(onnx.TypeProto, data, TYPES), TYPES)


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
        raise ArgumentError(
            f"argument {arg.name!r} is empty: the name of an empty list must end in its kind, such as :INTS"
        )
    return made


def _typed_attribute(name: str, kind: str, arg: Argument) -> ir.Attr:
    proto = onnx.AttributeProto(name=name)
    if kind == "GRAPH" or kind not in onnx.AttributeProto.AttributeType.keys():  # noqa: SIM118 - no dict
        raise ArgumentError(f"argument {arg.name!r}: {kind!r} is not a kind of ONNX attributes")
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
        _require_values(tensor, arg.name)
    with _refused(arg.name):
        return ir.from_proto(proto)


def _require_values(tensor: onnx.TensorProto, name: str) -> None:
    """Raise ArgumentError unless a tensor of argument ``name`` holds as many values as its shape and type ask for."""
    try:
        ir.serde.deserialize_tensor(tensor).numpy()
    except (ValueError, TypeError):
        shape = list(tensor.dims)
        reason = f"a tensor of type {tensor.data_type}, shape {shape} does not hold values of that type and shape"
        raise ArgumentError(f"argument {name!r}: {reason}") from None


def _tensors(attribute: onnx.AttributeProto) -> Iterator[onnx.TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    if attribute.HasField("sparse_tensor"):
        yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
    for sparse in attribute.sparse_tensors:
        yield from (sparse.values, sparse.indices)
