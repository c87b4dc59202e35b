"""Encode parameters and strings as the records of a database; :mod:`caffe2_bridge.files.blobs.records` decodes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from caffe2_bridge.files.blobs.records import SEPARATOR
from caffe2_bridge.netdef.parameters import NUMBERS, Array, Parameter
from caffe2_bridge.proto.caffe2_pb2 import BlobProto, QTensorProto, TensorProto
from caffe2_bridge.wire import write as wire_write
from caffe2_bridge.wire.write import Pieces

# A key, and a value; a large one, which cannot be divided, is made while it is written.
Record = tuple[str, bytes | Pieces]

CHUNK_SIZE: Final = 1_000_000  # elements, Caffe2's default


def text_record(name: str, content: bytes) -> tuple[str, bytes]:
    """Return the key and value of a string blob."""
    return name, BlobProto(name=name, type="std::string", content=content).SerializeToString()


def tensor_records(parameter: Parameter) -> Iterator[Record]:
    """Yield the keys and values of a tensor in chunks; its values are decoded here, or while they are written."""
    if parameter.scale is not None:
        yield parameter.name, _quantized(parameter)
        return
    name, values = parameter.name, parameter.load().reshape(-1)
    for index, begin in enumerate(range(0, max(values.size, 1), CHUNK_SIZE)):
        part = values[begin : begin + CHUNK_SIZE]
        tensor = TensorProto(
            dims=parameter.shape, data_type=NUMBERS[parameter.dtype], name=name,
            segment=TensorProto.Segment(begin=begin, end=begin + part.size),
        ).SerializeToString()  # fmt: skip
        head = BlobProto(name=name, type="Tensor").SerializeToString()
        blob = head + wire_write.encode_len(BlobProto.TENSOR_FIELD_NUMBER, tensor, encode_values(part))
        yield f"{name}{SEPARATOR}{index}", blob


def _quantized(parameter: Parameter) -> Pieces:
    """Return the value of an Int8 tensor, which no chunks divide; its elements are decoded while it is written."""
    tensor = QTensorProto(
        name=parameter.name, dims=parameter.shape, precision=8, scale=parameter.scale, bias=parameter.zero_point or 0,
        is_signed=False, data_type=TensorProto.INT32 if parameter.dtype == np.int32 else TensorProto.UINT8,
    ).SerializeToString()  # fmt: skip
    size = len(wire_write.varints(parameter.load()))
    data = Pieces(size, lambda: iter(wire_write.varints(parameter.load())))
    head = BlobProto(name=parameter.name, type="Int8TensorCPU").SerializeToString()
    values = wire_write.len_field(QTensorProto.DATA_FIELD_NUMBER, data)
    return wire_write.concatenated(head, wire_write.len_field(BlobProto.QTENSOR_FIELD_NUMBER, tensor, values))


def encode_values(values: Array) -> bytes:
    """Encode the data field of a TensorProto: a flat array in the field of its type."""
    kind = values.dtype.kind
    if kind == "O":
        return b"".join(wire_write.encode_len(TensorProto.STRING_DATA_FIELD_NUMBER, bytes(text)) for text in values)
    if values.dtype == np.float32:
        return wire_write.encode_len(TensorProto.FLOAT_DATA_FIELD_NUMBER, values.astype("<f4").tobytes())
    if values.dtype == np.float64:
        return wire_write.encode_len(TensorProto.DOUBLE_DATA_FIELD_NUMBER, values.astype("<f8").tobytes())
    if values.dtype == np.int64:
        return wire_write.encode_len(TensorProto.INT64_DATA_FIELD_NUMBER, wire_write.encode_varints(values))
    if values.dtype == np.float16:
        values = values.view(np.uint16)
    return wire_write.encode_len(TensorProto.INT32_DATA_FIELD_NUMBER, wire_write.encode_varints(values))
