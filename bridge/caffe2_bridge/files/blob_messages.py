"""Encode single blobs as BlobProto messages, byte for byte as Caffe2's SerializeBlob, and decode them.

Unlike the records of a database, a message holds the whole tensor, and names the device it lies on.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from google.protobuf.message import DecodeError

from caffe2_bridge.diagnostics import NetFormatError, RunError
from caffe2_bridge.files.blob_record_writer import encode_values, text_record
from caffe2_bridge.files.blob_records import Blob
from caffe2_bridge.netdef.parameters import NUMBERS, Array, Int8Tensor
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CPU, BlobProto, DeviceOption, QTensorProto, TensorProto
from caffe2_bridge.wire import read as wire
from caffe2_bridge.wire import write as wire_write

# The types whose field comes after name and device_detail: Caffe2 writes fields in the order of their numbers.
_LATE_FIELDS: Final = (np.dtype(np.float64), np.dtype(np.int64))
_PRECISION: Final = 8  # bits; Caffe2 writes it for int32 biases, too


def encode_blob(name: str, value: Array | Int8Tensor | bytes) -> bytes:
    """Encode a blob on the host: an array (objects are bytes), an Int8Tensor, or a text.

    Raises RunError if Caffe2 has no tensor of the array's dtype.
    """
    if isinstance(value, bytes):
        return text_record(name, value)[1]
    if isinstance(value, Int8Tensor):
        head = BlobProto(name=name, type="Int8TensorCPU").SerializeToString()
        return head + wire_write.encode_len(BlobProto.QTENSOR_FIELD_NUMBER, _quantized(name, value))
    if value.dtype not in NUMBERS:
        raise RunError(f"blob {name!r} is {value.dtype}, an element type that Caffe2 does not have")
    head = BlobProto(name=name, type="Tensor").SerializeToString()
    return head + wire_write.encode_len(BlobProto.TENSOR_FIELD_NUMBER, _tensor(name, value))


def _tensor(name: str, array: Array) -> bytes:
    head = TensorProto(dims=array.shape, data_type=NUMBERS[array.dtype])
    label = TensorProto(name=name, device_detail=DeviceOption(device_type=PROTO_CPU))
    rest = TensorProto(segment=TensorProto.Segment(begin=0, end=array.size))
    if array.dtype == np.float32:
        rest.data_format = TensorProto.FMT_PROTOBUF
    data = encode_values(array.reshape(-1)) if array.size else b""
    middle = (label.SerializeToString(), data) if array.dtype in _LATE_FIELDS else (data, label.SerializeToString())
    return b"".join((head.SerializeToString(), *middle, rest.SerializeToString()))


def _quantized(name: str, tensor: Int8Tensor) -> bytes:
    data = tensor.data
    head = QTensorProto(
        dims=data.shape, precision=_PRECISION, scale=tensor.scale, bias=tensor.zero_point, is_signed=False
    ).SerializeToString()
    values = b""
    if data.size:
        values = wire_write.encode_len(
            QTensorProto.DATA_FIELD_NUMBER, wire_write.encode_varints(data.reshape(-1).astype(np.int64))
        )
    rest = QTensorProto(name=name, data_type=NUMBERS[data.dtype]).SerializePartialToString()
    return head + values + rest


def decode_blob(content: bytes) -> Array | Int8Tensor | bytes:
    """Decode a serialized BlobProto: a tensor, an Int8 tensor or a text.

    Raises NetFormatError if it is not a BlobProto, or one of another type.
    """
    try:
        kind = BlobProto.FromString(content).type
    except DecodeError:
        raise NetFormatError("the content is not a BlobProto") from None
    span = wire.Span.of(content)
    blob = Blob("", [lambda: span])
    if kind == "std::string":
        return blob.text()
    parameter = blob.parameter()
    if parameter.scale is None:
        return parameter.load()
    return Int8Tensor(parameter.load(), parameter.scale, parameter.zero_point or 0)


def decode_tensor(tensor: TensorProto) -> Array:
    """Decode a tensor of the host. Raises NetFormatError if its data does not fit its shape."""
    value = decode_blob(BlobProto(type="Tensor", tensor=tensor).SerializeToString())
    assert isinstance(value, np.ndarray)
    return value
