"""Decode arrays from protobuf's wire format, vectorized; protobuf itself returns one element at a time.

Caffe2 does not pack the values of its fill operators. Each float is a tag byte and four bytes::

    35 xx xx xx xx 35 xx xx xx xx ...           (field 6, wire type 5)

so a run of floats is one array with a stride of five bytes. Each integer is a tag byte and a varint of one to ten
bytes, of which all but the last have the high bit set::

    38 vv 38 vv vv 38 vv ...                    (field 7, wire type 0)

The bytes below 0x80 end alternately a tag and a value, which gives the start and length of all values at once; the
k-th bytes of all values that have one are then combined at once, for each k.

Runs are decoded in chunks, and the pages of each that lie in a mapped file are dropped from memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from caffe2_bridge.proto.caffe2_pb2 import Argument
from caffe2_bridge.wire.fields import (
    CHUNK,
    FIXED32,
    FIXED64,
    LEN,
    MAX_VARINT,
    VARINT,
    Field,
    WireError,
    fields,
    fixed_chunks,
    varint,
    varint_chunks,
)
from caffe2_bridge.wire.spans import Span

# Fields of Argument.
FLOATS: Final = Argument.FLOATS_FIELD_NUMBER
INTS: Final = Argument.INTS_FIELD_NUMBER
STRINGS: Final = Argument.STRINGS_FIELD_NUMBER
STRING: Final = Argument.S_FIELD_NUMBER

_PROBES: Final = 32


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
        tag, start = varint(span, at)
        if tag == number << 3 | kind:
            row = _row(dtype, start - at)
            stride = row.itemsize
            for first, count in fixed_chunks(span, at, start, dtype.itemsize):
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
            for first in range(0, count, CHUNK):
                part = min(CHUNK, count - first)
                offset = field.start + first * dtype.itemsize
                out[filled : filled + part] = np.frombuffer(span.buffer.view, dtype, part, offset)
                filled += part
                span.buffer.release(offset, offset + part * dtype.itemsize)
        at = field.end
    return _trimmed(out, filled)


@cache
def _row(dtype: np.dtype[Any], width: int) -> np.dtype[Any]:
    """Return the dtype of a tag of so many bytes and a value."""
    return np.dtype({"names": ["v"], "formats": [dtype], "offsets": [width], "itemsize": width + dtype.itemsize})


def count_fixed(span: Span, number: int, width: int) -> int:
    """Count the values that :func:`fixed` returns.

    A run that fills the rest of the span is recognized by samples of its tags; decoding it checks all.
    """
    count = 0
    at = span.start
    while at < span.end:
        tag, start = varint(span, at)
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


def varints(span: Span, number: int, dtype: npt.DTypeLike = np.int64) -> np.ndarray[tuple[int], np.dtype[Any]]:
    """Decode all values of a repeated integer field of a message, packed or not, into a new array of a type."""
    return _joined([values.astype(dtype, copy=False) for values in _varints(span, number)], np.dtype(dtype))


def _joined(parts: list[npt.NDArray[Any]], dtype: np.dtype[Any]) -> np.ndarray[tuple[int], np.dtype[Any]]:
    """Concatenate arrays, and drop each once it is copied: the result takes memory as it is filled."""
    out = np.empty(sum(part.size for part in parts), dtype)
    filled = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        out[filled : filled + part.size] = part
        filled += part.size
    return out


def _varints(span: Span, number: int) -> Iterator[npt.NDArray[np.int64]]:
    """Decode values of a repeated integer field, chunk by chunk."""
    at = span.start
    while at < span.end:
        tag, start = varint(span, at)
        if tag == number << 3 | VARINT and start - at == 1:
            for first, end in varint_chunks(span, at, tag):
                data = np.frombuffer(span.buffer.view, np.uint8, end - first, first)
                stops = np.flatnonzero(data < 0x80)
                starts = np.concatenate(([0], stops[:-1] + 1))
                yield _decode(data, starts[1::2], stops[1::2])
                span.buffer.release(first, end)
                at = end
            continue
        field = next(fields(span.within(at, span.end)))
        if field.number == number and field.kind == LEN:
            yield from _packed(span, field)
        elif field.number == number and field.kind == VARINT:
            value = varint(span, field.start)[0]
            yield np.array([value], np.uint64).view(np.int64)
        at = field.end


def count_varints(span: Span, number: int) -> int:
    """Count the values that :func:`varints` returns, without decoding them: each has one byte below 0x80."""
    count = 0
    for field in fields(span):
        if field.number == number:
            stops = 0
            start = field.tag_at if field.kind == VARINT else field.start
            for first in range(start, field.end, CHUNK):
                data = np.frombuffer(span.buffer.view, np.uint8, min(CHUNK, field.end - first), first)
                stops += int(np.count_nonzero(data < 0x80))
                span.buffer.release(first, first + len(data))
            count += (
                stops // 2 if field.kind == VARINT else stops
            )  # an unpacked value has a tag, which ends in such a byte too
    return count


def scalar_array(arg: Argument) -> np.ndarray[tuple[int], np.dtype[Any]]:
    """Return ``floats`` (float32) or ``ints`` (int64) of an argument as a one-dimensional array."""
    span = Span.of(arg.SerializeToString())
    return varints(span, INTS) if arg.ints else fixed(span, FLOATS, "<f4")


def _packed(span: Span, field: Field) -> Iterator[npt.NDArray[np.int64]]:
    """Decode the varints of a packed field, chunk by chunk."""
    at = field.start
    while at < field.end:
        data = np.frombuffer(span.buffer.view, np.uint8, min(CHUNK, field.end - at), at)
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
