"""Objects as BlobProto messages, and back: those that Caffe2 serializes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from caffe2_backend.databases import Mode, create_database
from caffe2_backend.runtime.host.datasets.packed_records import PackedRecords
from caffe2_backend.runtime.host.datasets.tree import Tree, TreeCursor
from caffe2_backend.runtime.host.objects.atomics import HostMutex
from caffe2_backend.runtime.host.objects.counters import HostCounter
from caffe2_backend.runtime.host.objects.indices import HostIndex
from caffe2_backend.runtime.host.objects.maps import HostMap
from caffe2_backend.runtime.host.storage.key_codecs import (
    MAP_TYPES,
    decode_index,
    decode_map,
    encode_index,
    encode_map,
    vector_message,
)
from caffe2_backend.runtime.host.storage.readers import HostReader
from caffe2_backend.runtime.values import HostObject
from caffe2_bridge.diagnostics import NetFormatError, RunError
from caffe2_bridge.files.blobs.stored_indices import INDEX_TYPE
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CPU, BlobProto, DBReaderProto, DeviceOption, TensorProto

_SEPARATOR: Final = " "


@dataclass(frozen=True)
class Codec:
    """How the objects of a class are serialized.

    Attributes:
        kind: the class.
        type_name: the type in the message, which is not always the C++ type.
        encode: writes an object into a message that has a name and a type, and may change the type.
        decode: makes an object of a message.
        fits: whether it decodes a message of this type.
    """

    kind: type[HostObject]
    type_name: str
    encode: Callable[[Any, BlobProto], None]
    decode: Callable[[BlobProto], HostObject]
    fits: Callable[[BlobProto], bool] = lambda _: True


def _encode_cursor(cursor: TreeCursor, proto: BlobProto) -> None:
    """Encode the offsets as a tensor, and the names of the fields, each followed by a space."""
    proto.content = "".join(name + _SEPARATOR for name in cursor.tree.fields).encode()
    if cursor.offsets:
        proto.tensor.CopyFrom(vector_message(np.array(cursor.offsets, np.int64)))


def _decode_cursor(proto: BlobProto) -> HostObject:
    return TreeCursor(Tree.of(proto.content.decode().split()), proto.tensor.int64_data)


def _encode_counter(counter: HostCounter, proto: BlobProto) -> None:
    proto.tensor.CopyFrom(
        TensorProto(dims=[1], data_type=TensorProto.INT64, name=proto.name, int64_data=[counter.count])
    )


def _decode_counter(proto: BlobProto) -> HostObject:
    if len(proto.tensor.int64_data) != 1:
        raise NetFormatError(f"the counter {proto.name!r} must have one count")
    return HostCounter(proto.tensor.int64_data[0])


def _encode_mutex(_: HostMutex, proto: BlobProto) -> None:
    proto.content = b""


def _encode_reader(reader: HostReader, proto: BlobProto) -> None:
    """Encode the database, and the key at the position if the database can seek to it."""
    message = DBReaderProto(name=proto.name, source=reader.source, db_type=reader.db_type)
    cursor = reader.reader.cursor
    if cursor.supports_seek:
        message.key = cursor.key.decode()
    proto.content = message.SerializeToString()


def _decode_reader(proto: BlobProto) -> HostObject:
    message = DBReaderProto.FromString(proto.content)
    reader = HostReader(message.db_type, message.source, create_database(message.db_type, message.source, Mode.READ))
    if message.HasField("key"):
        reader.reader.cursor.seek(message.key.encode())
    return reader


def _encode_records(records: PackedRecords, proto: BlobProto) -> None:
    """Encode a tensor of serialized elements, which Caffe2 writes without their contents."""
    if records.is_single:
        raise RunError(f"blob {proto.name!r} cannot be serialized: it is {records.description}")
    element = BlobProto(name="", type="std::shared_ptr<std::vector<TensorCPU>>", content=b"").SerializeToString()
    count = len(records.records)
    proto.tensor.CopyFrom(
        TensorProto(
            dims=[count],
            data_type=TensorProto.UNDEFINED,
            string_data=[element] * count,
            name=proto.name,
            device_detail=DeviceOption(device_type=PROTO_CPU),
            segment=TensorProto.Segment(begin=0, end=count),
        )
    )


def _holds_records(proto: BlobProto) -> bool:
    return proto.tensor.data_type == TensorProto.UNDEFINED and bool(proto.tensor.string_data)


CODECS: Final = (
    Codec(TreeCursor, "std::unique_ptr<TreeCursor>", _encode_cursor, _decode_cursor),
    Codec(HostCounter, "std::unique_ptr<Counter<int64_t>>", _encode_counter, _decode_counter),
    Codec(HostMutex, "std::unique_ptr<std::mutex>", _encode_mutex, lambda _: HostMutex()),
    Codec(HostReader, "DBReader", _encode_reader, _decode_reader),
    # Caffe2 reads elements without contents, which samplers treat as none.
    Codec(PackedRecords, "Tensor", _encode_records, lambda _: PackedRecords(()), _holds_records),
    Codec(HostIndex, INDEX_TYPE, encode_index, decode_index),
    *(Codec(HostMap, name, encode_map, decode_map) for name in MAP_TYPES),
)


def encode_object(name: str, value: HostObject) -> bytes:
    """Serialize an object. Raises RunError if Caffe2 does not serialize objects of its type."""
    for codec in CODECS:
        if isinstance(value, codec.kind):
            proto = BlobProto(name=name, type=codec.type_name)
            codec.encode(value, proto)
            return proto.SerializeToString()
    raise RunError(f"blob {name!r} cannot be serialized: it is {value.description}")


def decode_object(proto: BlobProto) -> HostObject | None:
    """Make the object of a message; None if its type is not that of an object.

    Raises NetFormatError if the message is damaged, RunError if the object cannot be made.
    """
    for codec in CODECS:
        if proto.type == codec.type_name and codec.fits(proto):
            return codec.decode(proto)
    return None
