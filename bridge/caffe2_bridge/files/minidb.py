"""Minidb databases: the records, and the tensors and strings stored in them.

A record is two little-endian 32-bit lengths, a key and a value; there is no header and no index. The value is a
BlobProto. A tensor comes in chunks with keys ``name#%0``, ``name#%1`` ... in any order; a string, and an Int8 tensor,
has its name as its key.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from caffe2_bridge import wire, wire_write
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.params import DTYPES, NUMBERS, Array, Parameter
from caffe2_bridge.proto.caffe2_pb2 import BlobProto, QTensorProto, TensorProto

M = TypeVar("M", bound=Message)

CHUNK_SIZE: Final = 1_000_000  # elements, as Caffe2 writes by default
_SEPARATOR: Final = "#%"
_LENGTHS: Final = struct.Struct("<ii")
_LONGEST_KEY: Final = 4095
_MOST_DIMENSIONS: Final = 32  # what every numpy holds

_DATA: Final = {
    TensorProto.FLOAT_DATA_FIELD_NUMBER,
    TensorProto.INT32_DATA_FIELD_NUMBER,
    TensorProto.BYTE_DATA_FIELD_NUMBER,
    TensorProto.STRING_DATA_FIELD_NUMBER,
    TensorProto.DOUBLE_DATA_FIELD_NUMBER,
    TensorProto.INT64_DATA_FIELD_NUMBER,
    TensorProto.RAW_DATA_FIELD_NUMBER,
}
_CONTENT: Final = (
    BlobProto.TENSOR_FIELD_NUMBER,
    BlobProto.CONTENT_FIELD_NUMBER,
    BlobProto.QTENSOR_FIELD_NUMBER,
)
_BFLOAT16: Final = TensorProto.FMT_BFLOAT16
# The types that are stored with fixed width: in which field, and how.
_FIXED: Final = {
    np.dtype(np.float32): (TensorProto.FLOAT_DATA_FIELD_NUMBER, "<f4"),
    np.dtype(np.float64): (TensorProto.DOUBLE_DATA_FIELD_NUMBER, "<f8"),
}
# The element types of an Int8 tensor: of biases, and of all others.
_INT8_TYPES: Final[dict[int, np.dtype[Any]]] = {
    TensorProto.INT32: np.dtype(np.int32),
    TensorProto.UINT8: np.dtype(np.uint8),
}


def looks_like_minidb(head: bytes, size: int) -> bool:
    """Whether a file of ``size`` bytes that begins so may be a minidb database."""
    if len(head) < _LENGTHS.size:
        return False
    key_length, value_length = _LENGTHS.unpack_from(head)
    if not 0 < key_length <= min(_LONGEST_KEY, size - _LENGTHS.size) or value_length <= 0:
        return False
    return head[_LENGTHS.size : _LENGTHS.size + key_length].decode("utf-8", "replace").isprintable()


def records(span: wire.Span) -> Iterator[tuple[str, wire.Span]]:
    """The keys and values of a database in the order in which they stand. Raises NetFormatError where it is cut off."""
    at = span.start
    while span.end - at >= 4:
        head = span.buffer.view[at : at + _LENGTHS.size]
        key_length, value_length = _LENGTHS.unpack(head) if len(head) == _LENGTHS.size else (0, 0)
        start = at + _LENGTHS.size + key_length
        end = start + value_length
        if key_length <= 0 or value_length <= 0 or end > span.end:
            raise NetFormatError(f"the minidb database is cut off or damaged: no whole record at byte {at}")
        key = span.within(at + _LENGTHS.size, start).tobytes()
        try:
            yield key.decode(), span.within(start, end)
        except UnicodeDecodeError:
            raise NetFormatError(f"the key {key[:40]!r} of the record at byte {at} is not UTF-8 text") from None
        at = end


@dataclass
class Blob:
    """A stored blob: the values of its records."""

    name: str
    chunks: list[wire.Span] = field(default_factory=list)

    def header(self, index: int = 0) -> BlobProto:
        """The BlobProto of a chunk without its content."""
        return _parsed(BlobProto, wire.split(self.chunks[index], _CONTENT)[0], self.name)

    def text(self) -> bytes:
        """The content of a string blob; its chunks in their order."""
        order = sorted(range(len(self.chunks)), key=lambda i: self.header(i).content_chunk_id)
        spans = [payload for i in order for payload in wire.payloads(self.chunks[i], BlobProto.CONTENT_FIELD_NUMBER)]
        return b"".join(span.tobytes() for span in spans)

    def parameter(self) -> Parameter:
        """The tensor. Raises NetFormatError where its chunks do not make a whole."""
        if wire.payloads(self.chunks[0], BlobProto.QTENSOR_FIELD_NUMBER):
            return _quantized(self.name, self.chunks)
        chunks = []
        for span in self.chunks:
            tensors = wire.payloads(span, BlobProto.TENSOR_FIELD_NUMBER)
            if len(tensors) != 1:
                kind = self.header().type
                raise NetFormatError(f"blob {self.name!r} is no tensor" + (f" but of type {kind!r}" if kind else ""))
            chunks.append(_Chunk.of(self.name, tensors[0]))
        return _tensor(self.name, chunks)


def blobs(span: wire.Span) -> Mapping[str, Blob]:
    """The blobs of a database, by name."""
    found: dict[str, Blob] = {}
    for key, value in records(span):
        name = key.partition(_SEPARATOR)[0]
        found.setdefault(name, Blob(name)).chunks.append(value)
    return found


@dataclass(frozen=True)
class _Chunk:
    """A part of a tensor: the elements ``begin:end`` of it."""

    light: TensorProto
    begin: int
    end: int
    dtype: np.dtype[Any]
    span: wire.Span

    @classmethod
    def of(cls, name: str, span: wire.Span) -> _Chunk:
        light = _parsed(TensorProto, wire.split(span, _DATA)[0], name)
        dtype = DTYPES.get(light.data_type)
        if dtype is None:
            raise NetFormatError(
                f"tensor {name!r} has data type {light.data_type}, which is no type of Caffe2's tensors"
            )
        size = math.prod(light.dims)
        begin, end = (light.segment.begin, light.segment.end) if light.HasField("segment") else (0, size)
        if any(dim < 0 for dim in light.dims) or not 0 <= begin <= end <= size:
            raise NetFormatError(f"tensor {name!r} of shape {list(light.dims)} has a chunk {begin}:{end}")
        if end - begin > len(span) or len(light.dims) > _MOST_DIMENSIONS:  # no element takes less than a byte
            raise NetFormatError(f"the chunk {begin}:{end} of tensor {name!r} is larger than its record")
        return cls(light, begin, end, dtype, span)

    def values(self) -> Array:
        """The elements: as raw bytes, or in the field meant for their type."""
        for number in (TensorProto.RAW_DATA_FIELD_NUMBER, TensorProto.BYTE_DATA_FIELD_NUMBER):
            stored = wire.payloads(self.span, number)
            if stored and len(stored[-1]):
                return self._from_bytes(stored[-1])
        if self.dtype.kind == "O":
            texts = wire.payloads(self.span, TensorProto.STRING_DATA_FIELD_NUMBER)
            out = np.empty(len(texts), self.dtype)
            out[:] = [text.tobytes() for text in texts]
            return out
        if self.dtype in _FIXED:
            return wire.fixed(self.span, *_FIXED[self.dtype])
        if self.dtype == np.int64:
            return wire.varints(self.span, TensorProto.INT64_DATA_FIELD_NUMBER)
        integers = wire.varints(self.span, TensorProto.INT32_DATA_FIELD_NUMBER)
        return integers.astype(np.uint16).view(self.dtype) if self.dtype == np.float16 else integers.astype(self.dtype)

    def _from_bytes(self, span: wire.Span) -> Array:
        stored = np.dtype(np.uint16) if self.light.data_format == _BFLOAT16 else self.dtype
        if stored.kind == "O" or len(span) % stored.itemsize:
            raise NetFormatError(f"{len(span)} bytes are no whole number of {stored.name} elements")
        out = np.frombuffer(span.view, stored.newbyteorder("<")).astype(stored)
        span.release()
        if self.light.data_format == _BFLOAT16:
            return (out.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return out


def _tensor(name: str, chunks: list[_Chunk]) -> Parameter:
    first = chunks[0]
    shape = tuple(first.light.dims)
    if any(tuple(c.light.dims) != shape or c.dtype != first.dtype for c in chunks):
        raise NetFormatError(f"the chunks of tensor {name!r} differ in shape or type")
    chunks = sorted(chunks, key=lambda chunk: (chunk.begin, chunk.end))
    size = math.prod(shape)
    at = 0
    for chunk in chunks:
        if chunk.begin != at:
            what = "twice" if chunk.begin < at else "nowhere"
            place = f"{chunk.begin}:{min(at, chunk.end)}" if chunk.begin < at else f"{at}:{chunk.begin}"
            raise NetFormatError(f"the elements {place} of tensor {name!r} are stored {what}")
        at = chunk.end
    if at != size:
        raise NetFormatError(f"tensor {name!r} of shape {list(shape)} has {size} elements, but {at} are stored")

    def make() -> Array:
        out = np.empty(size, first.dtype)
        for chunk in chunks:
            values = chunk.values()
            if values.size != chunk.end - chunk.begin:
                raise NetFormatError(
                    f"the chunk {chunk.begin}:{chunk.end} of tensor {name!r} holds {values.size} elements"
                )
            out[chunk.begin : chunk.end] = values
        return out.reshape(shape)

    device = first.light.device_detail if first.light.HasField("device_detail") else None
    return Parameter(name, first.dtype, shape, make, device=device)


def _quantized(name: str, spans: list[wire.Span]) -> Parameter:
    """An Int8 tensor: ``bias`` holds its zero point."""
    if len(spans) > 1:
        raise NetFormatError(f"the quantized tensor {name!r} is stored {len(spans)} times")
    span = wire.payloads(spans[0], BlobProto.QTENSOR_FIELD_NUMBER)[-1]
    light = _parsed(QTensorProto, wire.split(span, (QTensorProto.DATA_FIELD_NUMBER,))[0], name)
    if light.is_multiparam:
        raise NetFormatError(
            f"the quantized tensor {name!r} has a scale for each slice, which Caffe2's Int8 tensors have not"
        )
    dtype = _INT8_TYPES.get(light.data_type)
    shape = tuple(light.dims)
    if dtype is None or any(dim < 0 for dim in shape) or math.prod(shape) > len(span) or len(shape) > _MOST_DIMENSIONS:
        raise NetFormatError(
            f"the quantized tensor {name!r} of type {light.data_type}, shape {list(shape)} is no Int8 tensor"
        )

    def make() -> Array:
        values = wire.varints(span, QTensorProto.DATA_FIELD_NUMBER)
        if values.size != math.prod(shape):
            raise NetFormatError(f"tensor {name!r} of shape {list(shape)} holds {values.size} elements")
        return values.astype(dtype).reshape(shape)

    return Parameter(name, dtype, shape, make, float(light.scale), int(light.bias))


def _parsed(kind: type[M], data: bytes, name: str) -> M:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise NetFormatError(f"the record of blob {name!r} is damaged: {error}") from None


def record(key: str, value: bytes) -> bytes:
    """A record as it stands in the file."""
    name = key.encode()
    return _LENGTHS.pack(len(name), len(value)) + name + value


def text_record(name: str, content: bytes) -> bytes:
    """The record of a string blob."""
    return record(name, BlobProto(name=name, type="std::string", content=content).SerializeToString())


def tensor_records(parameter: Parameter) -> Iterable[bytes]:
    """The records of a tensor, in chunks. Its values are decoded here."""
    values = parameter.load().reshape(-1)
    name = parameter.name
    if parameter.scale is not None:
        tensor = QTensorProto(
            name=name, dims=parameter.shape, precision=8, scale=parameter.scale, bias=parameter.zero_point or 0,
            is_signed=False, data_type=TensorProto.INT32 if parameter.dtype == np.int32 else TensorProto.UINT8,
        ).SerializeToString()  # fmt: skip
        data = wire_write.encode_len(QTensorProto.DATA_FIELD_NUMBER, wire_write.encode_varints(values))
        head = BlobProto(name=name, type="Int8TensorCPU").SerializeToString()
        yield record(name, head + wire_write.encode_len(BlobProto.QTENSOR_FIELD_NUMBER, tensor, data))
        return
    for index, begin in enumerate(range(0, max(values.size, 1), CHUNK_SIZE)):
        part = values[begin : begin + CHUNK_SIZE]
        tensor = TensorProto(
            dims=parameter.shape, data_type=NUMBERS[parameter.dtype], name=name,
            segment=TensorProto.Segment(begin=begin, end=begin + part.size),
        ).SerializeToString()  # fmt: skip
        head = BlobProto(name=name, type="Tensor").SerializeToString()
        blob = head + wire_write.encode_len(BlobProto.TENSOR_FIELD_NUMBER, tensor, _data(part))
        yield record(f"{name}{_SEPARATOR}{index}", blob)


def _data(values: Array) -> bytes:
    """The data field of a TensorProto."""
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
