"""Decode arrays from protobuf's wire format, vectorized; protobuf itself returns one element at a time.

Caffe2 does not pack the values of its fill operators. Each float is a tag byte and four bytes::

    35 xx xx xx xx 35 xx xx xx xx ...           (field 6, wire type 5)

so a run of floats is one array with a stride of five bytes. Each integer is a tag byte and a varint of one to ten
bytes, of which all but the last have the high bit set::

    38 vv 38 vv vv 38 vv ...                    (field 7, wire type 0)

The bytes below 0x80 end alternately a tag and a value, which gives the start and length of all values at once; the
k-th bytes of all values that have one are then combined at once, for each k.

Runs are decoded in chunks. A :class:`Span` may lie in a mapped file: the pages of each chunk are dropped from memory
once it is decoded, so that decoding takes no more memory than its result.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.proto.caffe2_pb2 import Argument
from caffe2_bridge.wire.regular_file import open_regular

VARINT: Final = 0
FIXED64: Final = 1
LEN: Final = 2
FIXED32: Final = 5

# Fields of Argument.
FLOATS: Final = Argument.FLOATS_FIELD_NUMBER
INTS: Final = Argument.INTS_FIELD_NUMBER
STRINGS: Final = Argument.STRINGS_FIELD_NUMBER
STRING: Final = Argument.S_FIELD_NUMBER

_WIDTHS: Final = {FIXED32: 4, FIXED64: 8}
MAX_VARINT: Final = 10  # bytes
_CHUNK: Final = 1 << 20  # elements, or bytes of varints, decoded at once
_PIECE: Final = 1 << 24  # bytes copied at once
_PROBES: Final = 32
_MAP_FROM: Final = 1 << 20  # bytes; a smaller file is read, since mapping costs more than it saves


class WireError(NetFormatError):
    """The bytes are not a well-formed protobuf message."""


class Buffer:
    """Bytes in memory, or a mapped file whose pages can be dropped after use."""

    __slots__ = ("_map", "view")

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self._map = data if isinstance(data, mmap.mmap) and hasattr(data, "madvise") else None
        self.view = memoryview(data)

    @classmethod
    def of_file(cls, path: str) -> Buffer:
        """Open a file; large files are mapped. Raises OSError if it cannot be read."""
        with open_regular(path) as file:
            size = file.seek(0, 2)
            file.seek(0)
            if size < _MAP_FROM:
                return cls(file.read())
            return cls(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def span(self) -> Span:
        """Return a span of the whole buffer."""
        return Span(self, 0, len(self.view))

    def release(self, start: int, end: int) -> None:
        """Drop the pages of a mapped file that lie fully within ``start:end``; reading them again reloads them."""
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        length = end // mmap.PAGESIZE * mmap.PAGESIZE - first
        if self._map is not None and length > 0:
            self._map.madvise(mmap.MADV_DONTNEED, first, length)


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes ``start:end`` of a buffer: a message, or the payload of a field."""

    buffer: Buffer
    start: int
    end: int

    @classmethod
    def of(cls, data: bytes) -> Span:
        """Return a span of bytes in memory."""
        return Buffer(data).span()

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def view(self) -> memoryview:
        """The bytes, without a copy."""
        return self.buffer.view[self.start : self.end]

    def tobytes(self) -> bytes:
        """Return a copy of the bytes."""
        return self.view.tobytes()

    def pieces(self) -> Iterator[memoryview]:
        """Yield the bytes in pieces; each is valid until the next is requested."""
        for start in range(self.start, self.end, _PIECE):
            piece = self.within(start, min(start + _PIECE, self.end))
            yield piece.view
            piece.release()

    def within(self, start: int, end: int) -> Span:
        """Return another span of the same buffer."""
        return Span(self.buffer, start, end)

    def release(self) -> None:
        """Drop the pages of a mapped file."""
        self.buffer.release(self.start, self.end)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message, or a run of adjacent scalar fields with the same tag.

    ``tag_at:end`` is the range of all its bytes; ``start`` is the start of the (first) payload.
    """

    number: int
    kind: int
    tag_at: int
    start: int
    end: int


def fields(span: Span) -> Iterator[Field]:
    """Yield the fields of a message in order; adjacent scalars with the same tag are one field. Raises WireError."""
    at = span.start
    while at < span.end:
        tag, start = _varint(span, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise WireError(f"the bytes are not a protobuf message: field number 0 at byte {at}")
        if kind == LEN:
            length, start = _varint(span, start)
            end = start + length
            if end > span.end:
                raise WireError(
                    f"truncated: field {number} at byte {at} has {length} bytes, but only {span.end - start} remain"
                )
        elif kind in _WIDTHS:
            *_, (_, count) = _fixed_chunks(span, at, start, _WIDTHS[kind])
            end = _ + count * (start - at + _WIDTHS[kind])
        elif kind == VARINT:
            end = _varint(span, start)[1]
            if end < span.end and start - at == 1 and span.buffer.view[end] == tag:
                for _, end in _varint_chunks(span, at, tag):  # noqa: B007 - only the end of the run is wanted
                    pass
        else:
            raise WireError(f"the bytes are not a protobuf message of this type: wire type {kind} at byte {at}")
        yield Field(number, kind, at, start, end)
        at = end


def split(span: Span, heavy: Collection[int]) -> tuple[bytes, list[Field]]:
    """Split a message into the bytes of all fields but those numbered ``heavy``, and the heavy fields."""
    light, separate = [], []
    for field in fields(span):
        if field.number in heavy:
            separate.append(field)
        else:
            light.append(span.buffer.view[field.tag_at : field.end])
    return b"".join(light), separate


def fixed(span: Span, number: int, dtype: npt.DTypeLike) -> np.ndarray[tuple[int], np.dtype[Any]]:
    """Decode all values of a repeated float or double field of a message, packed or not, into a new array.

    ``dtype`` is little-endian, of 4 bytes for a float field and 8 bytes for a double field.
    """
    dtype = np.dtype(dtype)
    kind = FIXED32 if dtype.itemsize == 4 else FIXED64
    out = np.empty(len(span) // dtype.itemsize, dtype)  # an upper bound; pages that are never written cost nothing
    filled = 0
    at = span.start
    while at < span.end:
        tag, start = _varint(span, at)
        if tag == number << 3 | kind:
            row = _row(dtype, start - at)
            stride = row.itemsize
            for first, count in _fixed_chunks(span, at, start, dtype.itemsize):
                rows = np.frombuffer(span.buffer.view, row, count, first)
                out[filled : filled + count] = rows["v"]
                filled += count
                at = first + count * stride
                span.buffer.release(first, at)
            continue
        field = next(fields(span.within(at, span.end)))
        if field.number == number and field.kind == LEN:
            count, odd = divmod(field.end - field.start, dtype.itemsize)
            if odd:
                size = field.end - field.start
                raise WireError(
                    f"packed field {number} at byte {at} has {size} bytes, not a multiple of {dtype.itemsize}"
                )
            for first in range(0, count, _CHUNK):
                part = min(_CHUNK, count - first)
                offset = field.start + first * dtype.itemsize
                out[filled : filled + part] = np.frombuffer(span.buffer.view, dtype, part, offset)
                filled += part
                span.buffer.release(offset, offset + part * dtype.itemsize)
        at = field.end
    return _trimmed(out, filled)


@cache
def _row(dtype: np.dtype[Any], width: int) -> np.dtype[Any]:
    """A tag of so many bytes, and a value."""
    return np.dtype({"names": ["v"], "formats": [dtype], "offsets": [width], "itemsize": width + dtype.itemsize})


def count_fixed(span: Span, number: int, width: int) -> int:
    """Count the values that :func:`fixed` returns.

    A run that fills the rest of the span is recognized by samples of its tags; decoding it checks all.
    """
    count = 0
    at = span.start
    while at < span.end:
        tag, start = _varint(span, at)
        stride = start - at + width
        rest, odd = divmod(span.end - at, stride)
        view = span.buffer.view
        if tag == number << 3 | (FIXED32 if width == 4 else FIXED64) and not odd:
            probes = {at + (rest - 1) * k // _PROBES * stride for k in range(_PROBES + 1)}
            if all(view[probe : probe + start - at] == view[at:start] for probe in probes):
                return count + rest
        field = next(fields(span.within(at, span.end)))
        if field.number == number:
            count += (field.end - field.start) // width if field.kind == LEN else (field.end - field.tag_at) // stride
        at = field.end
    return count


def varints(span: Span, number: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Decode all values of a repeated integer field of a message, packed or not, as int64."""
    parts: list[npt.NDArray[np.int64]] = []
    at = span.start
    while at < span.end:
        tag, start = _varint(span, at)
        if tag == number << 3 | VARINT and start - at == 1:
            for first, end in _varint_chunks(span, at, tag):
                data = np.frombuffer(span.buffer.view, np.uint8, end - first, first)
                stops = np.flatnonzero(data < 0x80)
                starts = np.concatenate(([0], stops[:-1] + 1))
                parts.append(_decode(data, starts[1::2], stops[1::2]))
                span.buffer.release(first, end)
                at = end
            continue
        field = next(fields(span.within(at, span.end)))
        if field.number == number and field.kind == LEN:
            parts.extend(_packed(span, field))
        elif field.number == number and field.kind == VARINT:
            value = _varint(span, field.start)[0]
            parts.append(np.array([value], np.uint64).view(np.int64))
        at = field.end
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def count_varints(span: Span, number: int) -> int:
    """Count the values that :func:`varints` returns, without decoding them: each has one byte below 0x80."""
    count = 0
    for field in fields(span):
        if field.number == number:
            stops = 0
            start = field.tag_at if field.kind == VARINT else field.start
            for first in range(start, field.end, _CHUNK):
                data = np.frombuffer(span.buffer.view, np.uint8, min(_CHUNK, field.end - first), first)
                stops += int(np.count_nonzero(data < 0x80))
                span.buffer.release(first, first + len(data))
            count += (
                stops // 2 if field.kind == VARINT else stops
            )  # an unpacked value has a tag, which ends in such a byte too
    return count


def payloads(span: Span, number: int) -> list[Span]:
    """Return the payloads of a repeated string, bytes or message field."""
    return [span.within(f.start, f.end) for f in fields(span) if f.number == number and f.kind == LEN]


def scalar_array(arg: Argument) -> np.ndarray[tuple[int], np.dtype[Any]]:
    """Return ``floats`` (float32) or ``ints`` (int64) of an argument as a one-dimensional array."""
    span = Span.of(arg.SerializeToString())
    return varints(span, INTS) if arg.ints else fixed(span, FLOATS, "<f4")


def _varint(span: Span, at: int) -> tuple[int, int]:
    """Decode an unsigned varint; return its value and its end."""
    view = span.buffer.view
    if at < span.end and (first := view[at]) < 0x80:
        return first, at + 1  # as most
    value = 0
    for k in range(min(MAX_VARINT, span.end - at)):
        byte = view[at + k]
        value |= (byte & 0x7F) << 7 * k
        if byte < 0x80:
            return value & (1 << 64) - 1, at + k + 1
    if span.end - at < MAX_VARINT:
        raise WireError(f"truncated within a varint at byte {at}")
    raise WireError(f"the bytes are not a protobuf message: the varint at byte {at} has no end")


def _fixed_chunks(span: Span, at: int, start: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield a run of fixed-width fields with the tag ``at:start`` in chunks ``(first byte, count)``."""
    stride = start - at + width
    view = span.buffer.view
    if span.end - at < stride:
        raise WireError(f"truncated: a {width}-byte value at byte {at} has {span.end - start} bytes")
    head = view[at:start]
    total = (span.end - at) // stride
    if total == 1 or view[at + stride : at + stride + len(head)] != head:
        yield at, 1
        return
    chunk = 1024  # grows, so that a short run does not scan much of what follows it
    done = 0
    while done < total:
        count = min(chunk, total - done)
        first = at + done * stride
        rows = np.frombuffer(view, np.uint8, count * stride, first).reshape(count, stride)
        differs = rows[:, 0] != head[0]
        for index in range(1, len(head)):
            differs |= rows[:, index] != head[index]
        (other,) = differs.nonzero()
        count = int(other[0]) if other.size else count
        if count:
            yield first, count
        if other.size:
            return
        done += count
        chunk = min(chunk * 4, _CHUNK)


def _varint_chunks(span: Span, at: int, tag: int) -> Iterator[tuple[int, int]]:
    """Yield a run of varint fields with the one-byte ``tag`` in chunks of complete fields ``(first byte, end)``."""
    chunk = 1024
    while at < span.end:
        size = min(chunk, span.end - at)
        data = np.frombuffer(span.buffer.view, np.uint8, size, at)
        stops = np.flatnonzero(data < 0x80)
        starts = np.concatenate(([0], stops[:-1] + 1))
        pairs = stops.size // 2
        tags = data[starts[: 2 * pairs : 2]]
        other = np.flatnonzero(tags != tag)  # a longer tag has its high bit set, so it differs too
        count = int(other[0]) if other.size else pairs
        if count:
            if np.any(stops[1 : 2 * count : 2] - starts[1 : 2 * count : 2] >= MAX_VARINT):
                raise WireError(
                    f"the bytes are not a protobuf message: a varint after byte {at} exceeds {MAX_VARINT} bytes"
                )
            end = at + int(stops[2 * count - 1]) + 1
            yield at, end
        else:
            end = at
        if other.size:
            return
        if end == at:  # the chunk has no complete field: decoding a single varint raises the precise error
            if data[0] != tag:
                return
            end = _varint(span, at + 1)[1]
            yield at, end
        at = end
        chunk = min(chunk * 4, _CHUNK)


def _packed(span: Span, field: Field) -> Iterator[npt.NDArray[np.int64]]:
    """Decode the varints of a packed field, chunk by chunk."""
    at = field.start
    while at < field.end:
        data = np.frombuffer(span.buffer.view, np.uint8, min(_CHUNK, field.end - at), at)
        stops = np.flatnonzero(data < 0x80)
        if not stops.size:
            raise WireError(f"truncated within a varint at byte {at}")
        starts = np.concatenate(([0], stops[:-1] + 1))
        yield _decode(data, starts, stops)
        used = int(stops[-1]) + 1
        span.buffer.release(at, at + used)
        at += used


def _decode(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Decode the varints whose first and last bytes are at ``starts`` and ``stops``."""
    lengths = stops - starts + 1
    longest = int(lengths.max(initial=0))
    if longest > MAX_VARINT:
        raise WireError(f"the bytes are not a protobuf message: a varint exceeds {MAX_VARINT} bytes")
    out = (data[starts] & 0x7F).astype(np.uint64)
    for k in range(1, longest):
        longer = np.flatnonzero(lengths > k)
        out[longer] |= (data[starts[longer] + k] & 0x7F).astype(np.uint64) << np.uint64(7 * k)
    return out.view(np.int64)


def _trimmed(out: npt.NDArray[Any], filled: int) -> np.ndarray[tuple[int], np.dtype[Any]]:
    """Return the first ``filled`` elements of an array; copy them if that frees more than half of it."""
    if filled * 2 < len(out):
        out = out[:filled].copy()
    elif filled < len(out):
        # The tail was never written, so shrinking in place moves nothing.
        out.resize(filled, refcheck=False)
    if sys.byteorder == "big":
        out = out.astype(out.dtype.newbyteorder("="))
    return cast("np.ndarray[tuple[int], np.dtype[Any]]", out)
