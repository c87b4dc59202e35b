"""Find the fields of a serialized message, and runs of adjacent scalars with the same tag, without decoding them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.wire.spans import Span

VARINT: Final = 0
FIXED64: Final = 1
LEN: Final = 2
FIXED32: Final = 5

MAX_VARINT: Final = 10  # bytes
CHUNK: Final = 1 << 20  # elements, or bytes of varints, decoded at once
_WIDTHS: Final = {FIXED32: 4, FIXED64: 8}


class WireError(NetFormatError):
    """The bytes are not a well-formed protobuf message."""


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
        tag, start = varint(span, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise WireError(f"the bytes are not a protobuf message: field number 0 at byte {at}")
        if kind == LEN:
            length, start = varint(span, start)
            end = start + length
            if end > span.end:
                raise WireError(
                    f"truncated: field {number} at byte {at} has {length} bytes, but only {span.end - start} remain"
                )
        elif kind in _WIDTHS:
            *_, (_, count) = fixed_chunks(span, at, start, _WIDTHS[kind])
            end = _ + count * (start - at + _WIDTHS[kind])
        elif kind == VARINT:
            end = varint(span, start)[1]
            if end < span.end and start - at == 1 and span.buffer.view[end] == tag:
                for _, end in varint_chunks(span, at, tag):  # noqa: B007 - only the end of the run is wanted
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


def payloads(span: Span, number: int) -> list[Span]:
    """Return the payloads of a repeated string, bytes or message field."""
    return [span.within(f.start, f.end) for f in fields(span) if f.number == number and f.kind == LEN]


def varint(span: Span, at: int) -> tuple[int, int]:
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


def fixed_chunks(span: Span, at: int, start: int, width: int) -> Iterator[tuple[int, int]]:
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
        chunk = min(chunk * 4, CHUNK)


def varint_chunks(span: Span, at: int, tag: int) -> Iterator[tuple[int, int]]:
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
            end = varint(span, at + 1)[1]
            yield at, end
        at = end
        chunk = min(chunk * 4, CHUNK)
