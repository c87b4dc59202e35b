"""Blobs of a workspace as BlobProto messages."""

from __future__ import annotations

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_backend.runtime.host.storage.codecs import encode_object
from caffe2_backend.runtime.host.storage.messages import decode_value
from caffe2_bridge.files.blobs.messages import encode_blob


def serialize_blob(workspace: Workspace, name: str, written: str | None = None) -> bytes:
    """Serialize a blob of a workspace as one BlobProto, under the name ``written`` or its own.

    Raises NoBlobError if it does not exist, RunError if Caffe2 does not serialize its kind.
    """
    value = workspace.host_object(name)
    label = name if written is None else written
    return encode_blob(label, workspace.fetch(name)) if value is None else encode_object(label, value)


def deserialize_blob(workspace: Workspace, name: str, content: bytes) -> None:
    """Set a blob of a workspace to what a BlobProto holds. Raises NetFormatError if it is not one of a known type."""
    workspace.feed(name, decode_value(name, [content]))
