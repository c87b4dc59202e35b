"""Decode the tensors and strings in the records of a database, of any of the database formats.

The value of a record is a BlobProto. A tensor is stored in chunks with the keys ``name#%0``, ``name#%1``, ... in any
order; each chunk has the shape of the whole tensor and, as its segment, the range ``begin:end`` of its elements. The
key of a string or an Int8 tensor is its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from caffe2_bridge import wire
from caffe2_bridge.bounds import is_possible_shape
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.netdef.parameters import DTYPES, Array, Parameter
from caffe2_bridge.proto.caffe2_pb2 import BlobProto, QTensorProto, TensorProto
from caffe2_bridge.wire.messages import parse_message

M = TypeVar("M", bound=Message)

# Returns a record's value. Called on demand, and the result is not kept: not every database is a mapped file.
Fetch = Callable[[], wire.Span]

SEPARATOR: Final = "#%"

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
# The types that are stored with a fixed width: the field, and the dtype of its elements.
_FIXED: Final = {
    np.dtype(np.float32): (TensorProto.FLOAT_DATA_FIELD_NUMBER, "<f4"),
    np.dtype(np.float64): (TensorProto.DOUBLE_DATA_FIELD_NUMBER, "<f8"),
}
# The element types of an Int8 tensor: int32 for biases, uint8 for all others.
_INT8_TYPES: Final[dict[int, np.dtype[Any]]] = {
    TensorProto.INT32: np.dtype(np.int32),
    TensorProto.UINT8: np.dtype(np.uint8),
}


@dataclass
class Blob:
    """A stored blob: the values of its records."""

    name: str
    chunks: list[Fetch] = field(default_factory=list)

    def text(self) -> bytes:
        """Return the content of a string blob: its chunks in order."""
        spans = sorted((fetch() for fetch in self.chunks), key=lambda span: self._header(span).content_chunk_id)
        return b"".join(p.tobytes() for span in spans for p in wire.payloads(span, BlobProto.CONTENT_FIELD_NUMBER))

    def kind(self) -> str:
        """Return the type of the blob as Caffe2 calls it; empty where the record does not say it."""
        return self._header(self.chunks[0]()).type

    def _header(self, span: wire.Span) -> BlobProto:
        """Decode the BlobProto of a chunk without its content."""
        return _parsed(BlobProto, wire.split(span, _CONTENT)[0], self.name)

    def parameter(self) -> Parameter:
        """Return the tensor. Raises NetFormatError if its chunks overlap or do not cover it."""
        if wire.payloads(self.chunks[0](), BlobProto.QTENSOR_FIELD_NUMBER):
            return _quantized(self.name, self.chunks)
        return _tensor(self.name, [self._chunk(fetch) for fetch in self.chunks])

    def _chunk(self, fetch: Fetch) -> _Chunk:
        def tensor() -> wire.Span:
            span = fetch()
            found = wire.payloads(span, BlobProto.TENSOR_FIELD_NUMBER)
            if len(found) != 1:
                kind = self._header(span).type
                raise NetFormatError(f"blob {self.name!r} is not a tensor" + (f" but of type {kind!r}" if kind else ""))
            return found[0]

        return _Chunk.of(self.name, tensor)


@dataclass(frozen=True)
class StoredSize:
    """How much of a blob a record holds: elements of a tensor, or chunks of a text; of other blobs, none of none."""

    total: int
    stored: int

    @classmethod
    def of(cls, name: str, content: bytes) -> StoredSize:
        """Read the size from the record of a blob. Raises NetFormatError if it is damaged."""
        span = wire.Span.of(content)
        header = _parsed(BlobProto, wire.split(span, _CONTENT)[0], name)
        if header.HasField("content_num_chunks"):
            return cls(header.content_num_chunks, 1)
        tensors = wire.payloads(span, BlobProto.TENSOR_FIELD_NUMBER)
        if not tensors:
            return cls(0, 0)
        tensor = _parsed(TensorProto, wire.split(tensors[-1], _DATA)[0], name)
        total = math.prod(tensor.dims)
        return cls(total, tensor.segment.end - tensor.segment.begin if tensor.HasField("segment") else total)


def decode_key(key: bytes) -> str:
    """Decode the key of a record. Raises NetFormatError if it is not UTF-8 text."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise NetFormatError(f"key {key[:40]!r} is not UTF-8 text") from None


def gather(records: Iterable[tuple[str, Fetch]]) -> Mapping[str, Blob]:
    """Group the records of a database into blobs, by name."""
    found: dict[str, Blob] = {}
    for key, fetch in records:
        name = key.partition(SEPARATOR)[0]
        found.setdefault(name, Blob(name)).chunks.append(fetch)
    return found


@dataclass(frozen=True)
class _Chunk:
    """The elements ``begin:end`` of a tensor."""

    light: TensorProto
    begin: int
    end: int
    dtype: np.dtype[Any]
    fetch: Fetch

    @classmethod
    def of(cls, name: str, fetch: Fetch) -> _Chunk:
        span = fetch()
        light = _parsed(TensorProto, wire.split(span, _DATA)[0], name)
        dtype = DTYPES.get(light.data_type)
        if dtype is None:
            raise NetFormatError(f"tensor {name!r} has data type {light.data_type}, which Caffe2's tensors cannot have")
        size = math.prod(light.dims)
        begin, end = (light.segment.begin, light.segment.end) if light.HasField("segment") else (0, size)
        if not is_possible_shape(light.dims) or not 0 <= begin <= end <= size:
            raise NetFormatError(f"tensor {name!r} of shape {list(light.dims)} has an invalid chunk {begin}:{end}")
        if end - begin > len(span):  # an element takes at least a byte
            raise NetFormatError(f"chunk {begin}:{end} of tensor {name!r} is larger than its record")
        return cls(light, begin, end, dtype, fetch)

    def values(self) -> Array:
        """Decode the elements, from raw bytes or from the field of their type."""
        span = self.fetch()
        for number in (TensorProto.RAW_DATA_FIELD_NUMBER, TensorProto.BYTE_DATA_FIELD_NUMBER):
            stored = wire.payloads(span, number)
            if stored and len(stored[-1]):
                return self._from_bytes(stored[-1])
        if self.dtype.kind == "O":
            texts = wire.payloads(span, TensorProto.STRING_DATA_FIELD_NUMBER)
            out = np.empty(len(texts), self.dtype)
            out[:] = [text.tobytes() for text in texts]
            return out
        if self.dtype in _FIXED:
            return wire.fixed(span, *_FIXED[self.dtype])
        if self.dtype == np.int64:
            return wire.varints(span, TensorProto.INT64_DATA_FIELD_NUMBER)
        integers = wire.varints(span, TensorProto.INT32_DATA_FIELD_NUMBER)
        return integers.astype(np.uint16).view(self.dtype) if self.dtype == np.float16 else integers.astype(self.dtype)

    def _from_bytes(self, span: wire.Span) -> Array:
        stored = np.dtype(np.uint16) if self.light.data_format == _BFLOAT16 else self.dtype
        if stored.kind == "O" or len(span) % stored.itemsize:
            raise NetFormatError(
                f"the size of the raw data, {len(span)} bytes, is not a multiple of the size of {stored.name}"
            )
        out = np.frombuffer(span.view, stored.newbyteorder("<")).astype(stored)
        span.release()
        if self.light.data_format == _BFLOAT16:
            return (out.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return out


def _tensor(name: str, chunks: list[_Chunk]) -> Parameter:
    """Join the chunks of a tensor."""
    first = chunks[0]
    shape = tuple(first.light.dims)
    if any(tuple(c.light.dims) != shape or c.dtype != first.dtype for c in chunks):
        raise NetFormatError(f"the chunks of tensor {name!r} differ in shape or type")
    chunks = sorted(chunks, key=lambda chunk: (chunk.begin, chunk.end))
    size = math.prod(shape)
    at = 0
    for chunk in chunks:
        if chunk.begin != at:
            overlaps = chunk.begin < at
            part = f"{chunk.begin}:{min(at, chunk.end)}" if overlaps else f"{at}:{chunk.begin}"
            problem = "stored twice" if overlaps else "missing"
            raise NetFormatError(f"elements {part} of tensor {name!r} are {problem}")
        at = chunk.end
    if at != size:
        raise NetFormatError(f"tensor {name!r} of shape {list(shape)} has {size} elements, but only {at} are stored")

    def make() -> Array:
        out = np.empty(size, first.dtype)
        for chunk in chunks:
            values = chunk.values()
            if values.size != chunk.end - chunk.begin:
                raise NetFormatError(f"chunk {chunk.begin}:{chunk.end} of tensor {name!r} holds {values.size} elements")
            out[chunk.begin : chunk.end] = values
        return out.reshape(shape)

    device = first.light.device_detail if first.light.HasField("device_detail") else None
    return Parameter(name, first.dtype, shape, make, device=device)


def _quantized(name: str, stored: list[Fetch]) -> Parameter:
    """Decode an Int8 tensor; its field ``bias`` holds the zero point."""
    if len(stored) > 1:
        raise NetFormatError(f"quantized tensor {name!r} is stored {len(stored)} times")

    def tensor() -> wire.Span:
        return wire.payloads(stored[0](), BlobProto.QTENSOR_FIELD_NUMBER)[-1]

    span = tensor()
    light = _parsed(QTensorProto, wire.split(span, (QTensorProto.DATA_FIELD_NUMBER,))[0], name)
    if light.is_multiparam:
        raise NetFormatError(
            f"quantized tensor {name!r} has a scale per slice, which Caffe2's Int8 tensors do not support"
        )
    dtype = _INT8_TYPES.get(light.data_type)
    shape = tuple(light.dims)
    if dtype is None or not is_possible_shape(shape) or math.prod(shape) > len(span):
        raise NetFormatError(
            f"quantized tensor {name!r} of type {light.data_type}, shape {list(shape)} is not a valid Int8 tensor"
        )

    def make() -> Array:
        values = wire.varints(tensor(), QTensorProto.DATA_FIELD_NUMBER, dtype)
        if values.size != math.prod(shape):
            raise NetFormatError(f"tensor {name!r} of shape {list(shape)} holds {values.size} elements")
        return values.reshape(shape)

    return Parameter(name, dtype, shape, make, float(light.scale), int(light.bias))


def _parsed(kind: type[M], data: bytes, name: str) -> M:
    try:
        return parse_message(kind, data)
    except DecodeError as error:
        raise NetFormatError(f"the record of blob {name!r} is damaged: {error}") from None
