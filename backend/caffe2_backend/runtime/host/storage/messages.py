"""Values of every kind as BlobProto messages and records of databases, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from google.protobuf.message import DecodeError

from caffe2_backend.runtime.host.storage.codecs import decode_object, encode_object
from caffe2_backend.runtime.values import DeviceTensor, HostObject, Value, string_bytes
from caffe2_bridge.files.blobs.messages import blob_records, decode_records
from caffe2_bridge.files.blobs.record_writer import CHUNK_SIZE, Record
from caffe2_bridge.proto.caffe2_pb2 import BlobProto


def value_records(
    name: str, value: Value, *, chunk_size: int = CHUNK_SIZE, as_bfloat16: bool = False
) -> Iterator[Record]:
    """Yield the records of a blob in a database: see :func:`blob_records`.

    Raises RunError if Caffe2 does not serialize the kind of value.
    """
    if isinstance(value, HostObject):
        yield name, encode_object(name, value)
        return
    if isinstance(value, DeviceTensor):
        value = value.numpy()
    if isinstance(value, np.ndarray) and value.dtype == object:
        value = string_bytes(value)
    yield from blob_records(name, value, chunk_size=chunk_size, as_bfloat16=as_bfloat16)


def decode_value(name: str, contents: Sequence[bytes]) -> Value:
    """Decode the records of a blob. Raises NetFormatError if they are damaged, or not the whole blob."""
    proto = BlobProto()
    if len(contents) == 1 and _parses(proto, contents[0]):
        decoded = decode_object(proto)
        if decoded is not None:
            return decoded
    return decode_records(name, contents)


def _parses(proto: BlobProto, content: bytes) -> bool:
    try:
        proto.ParseFromString(content)
    except DecodeError:
        return False
    return True
