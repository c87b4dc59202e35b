"""Names and serialized forms of nets, operators and blobs, given as texts, protobufs or objects."""
# ruff: noqa: N802 - Caffe2's names

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.wire.messages import is_message

# The names of the classes of Caffe2's core and of the builder.
_NETS = ("Net", "NetWithShapeInference")
_BLOBS = ("BlobReference", "Blob")


def StringifyProto(obj: Any) -> str | bytes:
    """Serialize a protobuf or an object with ``Proto()``; a text or bytes is returned unchanged.

    Raises ValueError for any other object, as in Caffe2.
    """
    if isinstance(obj, str | bytes):
        return obj
    if not isinstance(obj, Message) and hasattr(obj, "Proto"):
        obj = obj.Proto()
    if not isinstance(obj, Message):
        raise ValueError(f"Unexpected argument to StringifyProto of type {type(obj).__name__}")  # noqa: TRY004 - Caffe2's exception
    return obj.SerializeToString()


def StringifyBlobName(name: Any) -> str:
    """Return the name of a blob, given as text or BlobReference. Raises AssertionError for others, as in Caffe2."""
    return _text(name, _BLOBS, "BlobReference")


def StringifyNetName(name: Any) -> str:
    """Return the name of a net, given as a text or a net. Raises AssertionError for any other object, as in Caffe2."""
    return _text(name, _NETS, "Net")


def _text(name: Any, types: tuple[str, ...], expected: str) -> str:
    if isinstance(name, str):
        return name
    if isinstance(name, bytes):
        return name.decode()
    if type(name).__name__ not in types:
        raise AssertionError(f"Expected a string or {expected}")
    return GetNetName(name) if expected == "Net" else str(name)


def GetNetName(net: Any) -> str:
    """Return the name of a net: of an object with ``Name()``, or a NetDef; a text is returned unchanged.

    Raises TypeError for any other object.
    """
    if isinstance(net, str):
        return net
    name = getattr(net, "Name", None)
    if callable(name):
        return str(name())
    if isinstance(net, bytes):
        return as_net_def(net).name
    if is_message(net, "NetDef"):
        return str(net.name)  # type: ignore[attr-defined] # a NetDef of any protobuf package
    raise TypeError(f"Not a Net object: {net}")
