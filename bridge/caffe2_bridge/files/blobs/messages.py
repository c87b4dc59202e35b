"""Encode blobs as BlobProto messages, byte for byte as Caffe2's SerializeBlob and Save, and decode them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from google.protobuf.message import DecodeError

from caffe2_bridge import wire
from caffe2_bridge.diagnostics import NetFormatError, RunError
from caffe2_bridge.files.blobs.record_writer import CHUNK_SIZE, encode_values, text_record
from caffe2_bridge.files.blobs.records import SEPARATOR, Blob
from caffe2_bridge.netdef.parameters import NUMBERS, Array, Int8Tensor
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CPU, BlobProto, DeviceOption, QTensorProto, TensorProto
from caffe2_bridge.wire import write as wire_write

# The types whose field comes after name and device_detail: Caffe2 writes fields in the order of their numbers.
_LATE_FIELDS: Final = (np.dtype(np.float64), np.dtype(np.int64))
_PRECISION: Final = 8  # bits; Caffe2 writes it for int32 biases, too


def encode_blob(name: str, value: Array | Int8Tensor | bytes) -> bytes:
    """Encode a blob on the host: an array (objects are bytes), an Int8Tensor, or a text.

    Raises RunError if Caffe2 has no tensor of the array's dtype.
    """
    ((_, content),) = blob_records(name, value, chunk_size=0)
    return content


def blob_records(
    name: str, value: Array | Int8Tensor | bytes, *, chunk_size: int = CHUNK_SIZE, as_bfloat16: bool = False
) -> Iterator[tuple[str, bytes]]:
    """Yield the keys and values of a blob in a database, byte for byte as Caffe2's Save.

    Args:
        name: the blob.
        value: an array (objects are bytes), an Int8Tensor, or a text.
        chunk_size: elements of a record; 0 does not divide tensors. Texts and tensors of texts are never divided.
        as_bfloat16: whether float32 is stored as bfloat16, rounded half up.

    Raises RunError if Caffe2 has no tensor of the array's dtype.
    """
    if isinstance(value, bytes):
        yield text_record(name, value)
        return
    if isinstance(value, Int8Tensor):
        head = BlobProto(name=name, type="Int8TensorCPU").SerializeToString()
        yield name, head + wire_write.encode_len(BlobProto.QTENSOR_FIELD_NUMBER, _quantized(name, value))
        return
    if value.dtype not in NUMBERS:
        raise RunError(f"blob {name!r} is {value.dtype}, an element type that Caffe2 does not have")
    head = BlobProto(name=name, type="Tensor").SerializeToString()
    size = max(value.size, 1)
    step = chunk_size if chunk_size > 0 and value.dtype != object else size
    for index, begin in enumerate(range(0, size, step)):
        tensor = _tensor(name, value, begin, min(begin + step, value.size), as_bfloat16=as_bfloat16)
        yield f"{name}{SEPARATOR}{index}", head + wire_write.encode_len(BlobProto.TENSOR_FIELD_NUMBER, tensor)


def _tensor(name: str, array: Array, begin: int, end: int, *, as_bfloat16: bool) -> bytes:
    head = TensorProto(dims=array.shape, data_type=NUMBERS[array.dtype])
    label = TensorProto(name=name, device_detail=DeviceOption(device_type=PROTO_CPU))
    rest = TensorProto(segment=TensorProto.Segment(begin=begin, end=end))
    values = array.reshape(-1)[begin:end]
    data = b""
    if array.dtype == np.float32:
        rest.data_format = TensorProto.FMT_PROTOBUF
    if array.dtype == np.float32 and as_bfloat16:
        rest.raw_data = _bfloat16(values)
        rest.data_format = TensorProto.FMT_BFLOAT16
    elif values.size:
        data = encode_values(values)
    middle = (label.SerializeToString(), data) if array.dtype in _LATE_FIELDS else (data, label.SerializeToString())
    return b"".join((head.SerializeToString(), *middle, rest.SerializeToString()))


def _bfloat16(values: Array) -> bytes:
    return ((values.view(np.uint32) + np.uint32(1 << 15)) >> np.uint32(16)).astype("<u2").tobytes()


def _quantized(name: str, tensor: Int8Tensor) -> bytes:
    data = tensor.data
    head = QTensorProto(
        dims=data.shape, precision=_PRECISION, scale=tensor.scale, bias=tensor.zero_point, is_signed=False
    ).SerializeToString()
    values = b""
    if data.size:
        values = wire_write.encode_len(QTensorProto.DATA_FIELD_NUMBER, wire_write.encode_varints(data))
    rest = QTensorProto(name=name, data_type=NUMBERS[data.dtype]).SerializePartialToString()
    return head + values + rest


def decode_blob(content: bytes) -> Array | Int8Tensor | bytes:
    """Decode a serialized BlobProto: a tensor, an Int8 tensor or a text.

    Raises NetFormatError if it is not a BlobProto, or one of another type.
    """
    return decode_records("", [content])


def decode_records(name: str, contents: Sequence[bytes]) -> Array | Int8Tensor | bytes:
    """Decode the values of a blob's records; raises as :func:`decode_blob`, and if they are not the whole blob."""
    try:
        kind = BlobProto.FromString(contents[0]).type
    except DecodeError:
        raise NetFormatError("the content is not a BlobProto") from None
    spans = [wire.Span.of(content) for content in contents]
    blob = Blob(name, [lambda span=span: span for span in spans])  # type: ignore[misc] # a default binds the current value
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
