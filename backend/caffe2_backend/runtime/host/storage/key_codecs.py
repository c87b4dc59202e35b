"""Indices and maps in BlobProto messages, byte for byte as Caffe2 writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from caffe2_backend.runtime.blobs.feeding import as_value
from caffe2_backend.runtime.host.objects.indices import HostIndex
from caffe2_backend.runtime.host.objects.maps import HostMap
from caffe2_backend.runtime.values import Array, HostObject, string_bytes
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files.blobs.messages import decode_tensor
from caffe2_bridge.files.blobs.records import Blob
from caffe2_bridge.files.blobs.stored_indices import StoredIndex
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CPU, BlobProto, DeviceOption, TensorProto, TensorProtos
from caffe2_bridge.wire import Span

_FIELDS: Final[Mapping[np.dtype[Any], tuple[Any, str]]] = {
    np.dtype(np.int32): (TensorProto.INT32, "int32_data"),
    np.dtype(np.int64): (TensorProto.INT64, "int64_data"),
    np.dtype(object): (TensorProto.STRING, "string_data"),
}
_NAMES: Final = {np.dtype(np.int32): "int32_t", np.dtype(np.int64): "int64_t"}
# The element types of keys and values by the type of the message.
MAP_TYPES: Final = {
    f"(std::unordered_map<{_NAMES[key]}, {_NAMES[value]}>)": (key, value) for key in _NAMES for value in _NAMES
}


def encode_index(index: HostIndex, proto: BlobProto) -> None:
    """Encode the keys as a tensor; the largest number of elements and whether the index is frozen as a text."""
    proto.tensor.CopyFrom(vector_message(index.keys()))
    proto.content = f"{index.max_elements} {int(index.is_frozen)}".encode()


def decode_index(proto: BlobProto) -> HostObject:
    """Make an index. Raises NetFormatError if the message is damaged."""
    span = Span.of(proto.SerializeToString())
    stored = StoredIndex.of(Blob(proto.name, [lambda: span]))
    keys = as_value("keys", stored.keys.load(), copy=False)
    assert isinstance(keys, np.ndarray)
    index = HostIndex(keys.dtype, stored.max_elements, is_frozen=stored.is_frozen)
    index.load(keys.reshape(-1).tolist())
    return index


def encode_map(found: HostMap, proto: BlobProto) -> None:
    """Encode the keys and the values as two tensors."""
    types = (found.key_dtype, found.value_dtype)
    proto.type = next(name for name, known in MAP_TYPES.items() if known == types)
    proto.content = TensorProtos(protos=[vector_message(array) for array in found.arrays()]).SerializeToString()


def decode_map(proto: BlobProto) -> HostObject:
    """Make a map. Raises NetFormatError if the message is damaged."""
    try:
        keys, values = map(_array, TensorProtos.FromString(proto.content).protos)
    except (DecodeError, ValueError):
        raise NetFormatError(f"the map {proto.name!r} must have two tensors") from None
    if (keys.dtype, values.dtype) != MAP_TYPES[proto.type] or keys.size != values.size:
        raise NetFormatError(f"the map {proto.name!r} must have as many values as keys, of its types")
    made = HostMap(keys.dtype, values.dtype)
    made.add(zip(keys.tolist(), values.tolist(), strict=True))
    return made


def vector_message(array: Array) -> TensorProto:
    """Return the message of a vector of int32, int64 or texts, without a name."""
    data_type, field = _FIELDS[array.dtype]
    items = string_bytes(array) if array.dtype == object else array
    tensor = TensorProto(
        dims=[array.size],
        data_type=data_type,
        device_detail=DeviceOption(device_type=PROTO_CPU),
        segment=TensorProto.Segment(begin=0, end=array.size),
    )
    getattr(tensor, field).extend(items.tolist())
    return tensor


def _array(tensor: TensorProto) -> Array:
    """Return the elements of a tensor of keys. Raises NetFormatError if keys cannot have its type."""
    array = as_value("keys", decode_tensor(tensor), copy=False)
    if not isinstance(array, np.ndarray) or array.dtype not in _FIELDS:
        raise NetFormatError("the keys must be int32, int64 or texts")
    return array.reshape(-1)
