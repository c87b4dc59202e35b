"""Detect the format of a file by its content."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from google.protobuf.message import Message

from caffe2_bridge import wire
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files import text
from caffe2_bridge.files.databases import minidb
from caffe2_bridge.files.npz import holds_npz
from caffe2_bridge.files.open_files import open_file
from caffe2_bridge.files.pickles.unpack import holds_pickle
from caffe2_bridge.proto.caffe2_pb2 import BlobProto, NetDef, OperatorDef, PlanDef, TensorProto, TensorProtos
from caffe2_bridge.proto.metanet_pb2 import MetaNetDef
from caffe2_bridge.storage import AnyPath


class Format(StrEnum):
    """The formats that are distinguished. The values are used in messages."""

    NET = "a NetDef"
    NET_TEXT = "a NetDef in text"
    PLAN = "a PlanDef"
    PLAN_TEXT = "a PlanDef in text"
    MINIDB = "a minidb database"
    LMDB = "an LMDB database"
    LEVELDB = "a LevelDB database"
    PICKLE = "a pickled checkpoint"
    NPZ = "an .npz archive of arrays"


WITHOUT_NET: Final = frozenset({Format.PICKLE, Format.NPZ})  # parameters by name


# Formats that are easily mistaken for nets: offset, magic bytes, description.
_MAGIC: Final = (
    (0, b"PK\x03\x04", "a zip archive (or a TorchScript file)"),
    (0, b"\x1f\x8b", "a gzip file: unpack it first"),
    (0, b"\x89HDF", "an HDF5 file"),
    (0, b"\x89PNG", "a picture"),
    (0, b"\x93NUMPY", "a numpy array"),
    (0, b"version https://git-lfs.github.com/spec/", "a Git LFS pointer: the file itself was not fetched"),
)
_LMDB: Final = (16, b"\xde\xc0\xef\xbe")
_HTML: Final = re.compile(rb"\s*<(?:!doctype\s+html|html|head|body|\?xml|!--)", re.IGNORECASE)
_HEAD: Final = 4096
_ONNX: Final = ".onnx"
_IR_VERSION: Final = b"\x08"  # the first field of an ONNX model, and of no net

# The wire types of NetDef's fields.
_NET_KINDS: Final = dict.fromkeys(range(1, 10), wire.LEN) | {NetDef.NUM_WORKERS_FIELD_NUMBER: wire.VARINT}


def mistaken_for_model(head: bytes) -> str | None:
    """Describe a file that is neither a net nor an ONNX model by its first bytes; None if it may be one."""
    if not head.strip():
        return "the file is empty" if not head else "the file holds only white space"
    weights = _parameters_without_net(head)
    if weights is not None:
        return f"this is {weights}, which has parameters and no net"
    for offset, magic, what in _MAGIC:
        if head[offset:].startswith(magic):
            return f"this is {what}"
    if _HTML.match(head.removeprefix(b"\xef\xbb\xbf")):
        return "this is a web page; download the file again"
    return None


def detect(span: wire.Span) -> Format:
    """Detect the format of a file's content. Raises NetFormatError, without a source, if it is not supported."""
    head = span.view[:_HEAD].tobytes()
    if not head.strip():
        raise NetFormatError("the file is empty" if not head else "the file holds only white space")
    weights = _parameters_without_net(head)
    if weights is not None:
        return weights
    for offset, magic, what in _MAGIC:
        if head[offset:].startswith(magic):
            raise NetFormatError(f"this is {what}")
    if head[_LMDB[0] :].startswith(_LMDB[1]):
        return Format.LMDB
    if _HTML.match(head.removeprefix(b"\xef\xbb\xbf")):
        raise NetFormatError("this is a web page, not a net; download the file again")
    if minidb.looks_like_minidb(head, len(span)):
        return Format.MINIDB
    if text.looks_like_text(head):
        found = _text_format(text.decode(span.tobytes(), ""))
        if found is not None:
            return found
    return _binary_format(span)


def is_onnx_file(path: AnyPath) -> bool:
    """Whether a path is an ONNX model: a file that begins as one, or that has its suffix and is no file of Caffe2's."""
    try:
        if path.is_dir():
            return False
        span = open_file(path)
        # The version of the format; the length of a minidb's key may have the same first byte, and a zero behind it.
        if (head := span.view[:2].tobytes())[:1] == _IR_VERSION and head[1:] > b"\0":
            return True
        return path.suffix == _ONNX and detect(span) is None
    except (NetFormatError, OSError):
        return path.suffix == _ONNX


def _parameters_without_net(head: bytes) -> Format | None:
    if holds_pickle(head):
        return Format.PICKLE
    return Format.NPZ if holds_npz(head) else None


# A string or comment, a brace, or a field's name.
_TOKEN: Final = re.compile(
    r"""(["'])(?:\\.|(?!\1)[^\\\n])*\1|\#[^\n]*|(?P<brace>[{}<>])|(?P<name>[A-Za-z_]\w*)(?=\s*[:{<\[])"""
)


def _outermost_names(content: str) -> set[str]:
    """Return the names of the outermost fields of protobuf text."""
    depth = 0
    names = set()
    for token in _TOKEN.finditer(content):
        if token["brace"]:
            depth += 1 if token["brace"] in "{<" else -1
        elif token["name"] and depth == 0:
            names.add(token["name"])
    return names


def _text_format(content: str) -> Format | None:
    """Return the format whose message has all of the text's outermost fields; None if none has."""
    names = _outermost_names(content)
    if names <= set(NetDef.DESCRIPTOR.fields_by_name):
        return Format.NET_TEXT
    if names <= set(PlanDef.DESCRIPTOR.fields_by_name):
        return Format.PLAN_TEXT
    for message in _OTHERS:
        if names <= set(message.DESCRIPTOR.fields_by_name):
            raise NetFormatError(f"this is the text of a {message.DESCRIPTOR.name}, not of a net")
    if names & {"op", "external_input", "external_output"}:
        return Format.NET_TEXT  # with an error, of which the parser reports the line
    if names & {"ir_version", "graph"}:
        raise NetFormatError("this is the text of an ONNX model")
    return None


_OTHERS: Final[tuple[type[Message], ...]] = (MetaNetDef, OperatorDef, TensorProto, TensorProtos, BlobProto)


def _binary_format(span: wire.Span) -> Format:
    """Detect the message type of a serialized protobuf by the numbers and wire types of its fields.

    NetDef, PlanDef and MetaNetDef share the number of their main field, 2. What it holds decides: an operator has a
    type, a net has operators, and a MetaNetDef's entry has a key and a net.
    """
    found: list[wire.Field] = []
    try:
        found.extend(wire.fields(span))  # up to where it is damaged
    except wire.WireError as error:
        complete = [f for f in found if _NET_KINDS.get(f.number) == f.kind]
        if error.reason.startswith("truncated") and (complete or _starts_as_net(span)):
            raise NetFormatError(f"the file is truncated or damaged: {error.reason}") from None
        raise NetFormatError("the file is neither a net (binary or text) nor a minidb or LMDB database") from None
    inner = next((span.within(f.start, f.end) for f in found if f.number == 2 and f.kind == wire.LEN), None)
    if all(_NET_KINDS.get(f.number, f.kind) == f.kind for f in found):
        if inner is None and _is_named(span, found):
            return Format.NET
        for is_kind, result in _INNER:
            if inner is not None and is_kind(inner):
                return _accepted(result)
    raise NetFormatError(f"the file is a protobuf, but not a net: {_guess(span, found)}")


def _accepted(result: Format | str) -> Format:
    if isinstance(result, Format):
        return result
    raise NetFormatError(f"this is {result}, not a net")


def _starts_as_net(span: wire.Span) -> bool:
    """Return whether a file that is truncated within its first field starts like a net: with a name or an operator."""
    first = span.view[0]
    return first in (NetDef.NAME_FIELD_NUMBER << 3 | wire.LEN, NetDef.OP_FIELD_NUMBER << 3 | wire.LEN)


def _is_named(span: wire.Span, found: list[wire.Field]) -> bool:
    """Return whether fields without operators are those of an empty net: one printable name and type at most."""
    for number in (NetDef.NAME_FIELD_NUMBER, NetDef.TYPE_FIELD_NUMBER):
        texts = [span.within(f.start, f.end).tobytes() for f in found if f.number == number]
        if len(texts) > 1 or not all(text.decode("utf-8", "replace").isprintable() for text in texts):
            return False
    return True


def _inner_fields(span: wire.Span) -> list[wire.Field]:
    try:
        return list(wire.fields(span))
    except wire.WireError:
        return []


def _is_operator(span: wire.Span) -> bool:
    """Return whether field 2 is that of a NetDef: an operator, which has a type."""
    number = OperatorDef.TYPE_FIELD_NUMBER
    found = _inner_fields(span)
    return any(f.number == number and f.kind == wire.LEN for f in found)


def _is_net(span: wire.Span) -> bool:
    """Return whether field 2 is that of a PlanDef: a net, which has operators."""
    return any(
        f.number == 2 and f.kind == wire.LEN and _is_operator(span.within(f.start, f.end)) for f in _inner_fields(span)
    )


def _is_named_net(span: wire.Span) -> bool:
    """Return whether field 2 is that of a MetaNetDef: a key and a net."""
    found = _inner_fields(span)
    return [f.number for f in found] == [1, 2] and _is_net(span.within(found[1].start, found[1].end))


_INNER: Final[tuple[tuple[Callable[[wire.Span], bool], Format | str], ...]] = (
    (_is_operator, Format.NET),
    (_is_named_net, "a MetaNetDef without the database that it belongs to"),
    (_is_net, Format.PLAN),
)


def _guess(span: wire.Span, found: list[wire.Field]) -> str:
    """Describe what message a protobuf that is not a net may be."""
    kinds = {(f.number, f.kind) for f in found}
    if (1, wire.VARINT) in kinds and (7, wire.LEN) in kinds:
        return "it may be an ONNX model"
    if (1, wire.VARINT) in kinds and (2, wire.VARINT) in kinds:
        return "it may be a TensorProto"
    if kinds == {(1, wire.LEN)}:
        inner = {(f.number, f.kind) for f in _inner_fields(span.within(found[0].start, found[0].end))}
        if (2, wire.VARINT) in inner:
            return "it may be TensorProtos"
    if (4, wire.LEN) in kinds:
        return "it may be an OperatorDef"
    if (2, wire.LEN) in kinds and kinds & {(3, wire.LEN), (4, wire.LEN), (5, wire.LEN)}:
        return "it may be a BlobProto"
    return f"its fields are {sorted({f.number for f in found})}"
