"""Encode arrays in protobuf's wire format; :mod:`caffe2_bridge.wire.arrays` decodes them.

The length of a message comes before its content. That of an array is computed first, and the array is encoded piece by
piece while it is written: no encoded copy of it is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from caffe2_bridge.wire.fields import LEN, MAX_VARINT, VARINT

_PIECE: Final = 1 << 14  # elements encoded at once, few enough for the processor's caches


@dataclass(frozen=True, slots=True)
class Pieces:
    """Bytes that are made while they are written.

    Attributes:
        size: their number.
        make: yields them in pieces; each call makes them anew.
    """

    size: int
    make: Callable[[], Iterator[bytes | memoryview]]

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return self.make()

    def __bytes__(self) -> bytes:
        return b"".join(self)


Part: TypeAlias = bytes | memoryview | Pieces


def encode_varint(value: int) -> bytes:
    """Encode a varint; a negative number takes ten bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_len(number: int, *parts: bytes | memoryview) -> bytes:
    """Encode a length-delimited field (string, bytes, message or packed) whose payload is ``parts`` concatenated."""
    return b"".join((_head(number, parts), *parts))


def len_field(number: int, *parts: Part) -> Pieces:
    """Return a length-delimited field as :func:`encode_len`, which is made while it is written."""
    return concatenated(_head(number, parts), *parts)


def concatenated(*parts: Part) -> Pieces:
    """Return what is made of several parts while it is written."""

    def make() -> Iterator[bytes | memoryview]:
        for part in parts:
            if isinstance(part, Pieces):
                yield from part
            else:
                yield part

    return Pieces(sum(map(len, parts)), make)


def _head(number: int, parts: tuple[Part, ...]) -> bytes:
    return encode_varint(number << 3 | LEN) + encode_varint(sum(map(len, parts)))


def raw_bytes(values: npt.NDArray[Any]) -> Pieces:
    """Return the elements of an array as they are in memory."""
    flat = values.reshape(-1)
    return Pieces(flat.nbytes, lambda: (part.tobytes() for part in _parts(flat)))


def fixed(values: npt.NDArray[Any], dtype: npt.DTypeLike) -> Pieces:
    """Return numbers, converted to float32 or float64, as the payload of a packed field."""
    flat, kind = values.reshape(-1), np.dtype(dtype).newbyteorder("<")
    return Pieces(flat.size * kind.itemsize, lambda: (part.astype(kind).tobytes() for part in _parts(flat)))


def varints(values: npt.NDArray[Any], number: int | None = None) -> Pieces:
    """Return integers as varints: the payload of a packed field, or with ``number`` an unpacked repeated field."""
    flat = values.reshape(-1)
    size = sum(map(_encoded_size, _parts(flat))) + (0 if number is None else flat.size)
    return Pieces(size, lambda: (_encoded(part, number).tobytes() for part in _parts(flat)))


def encode_varints(values: npt.NDArray[Any], number: int | None = None) -> bytes:
    """Encode integers as :func:`varints`."""
    return bytes(varints(values, number))


def _parts(flat: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    for first in range(0, flat.size, _PIECE):
        yield flat[first : first + _PIECE]


def _encoded_size(flat: npt.NDArray[Any]) -> int:
    """Return how many bytes the varints of integers have."""
    if flat.dtype == np.uint8:
        return flat.size + int(np.count_nonzero(flat >> 7))
    return int(_lengths(flat).sum())


def _lengths(flat: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return how many bytes the varint of each integer has."""
    raw = _unsigned(flat)
    lengths = np.ones(raw.size, np.int32)
    most = int(raw.max(initial=0))
    for k in range(1, MAX_VARINT):
        if most >> 7 * k:
            lengths += raw >= np.uint64(1 << 7 * k)
    return lengths


def _encoded(flat: npt.NDArray[Any], number: int | None) -> npt.NDArray[np.uint8]:
    """Encode integers as varints.

    The length of each varint is computed first, which gives the offset of each in the result; then the k-th bytes of
    all varints that have one are written at once, for each k.
    """
    if flat.dtype == np.uint8 and number is None:
        return _encoded_bytes(flat)
    lengths = _lengths(flat)
    ends = np.cumsum(lengths + np.int32(number is not None), dtype=np.int32)
    starts = ends - lengths
    out = np.ones(int(ends[-1]) if flat.size else 0, np.uint8)
    if number is not None:
        out[starts - 1] = number << 3 | VARINT
    raw = _unsigned(flat)
    for k in range(MAX_VARINT):
        low = raw.astype(np.uint8) & np.uint8(0x7F)
        longer = np.flatnonzero(lengths > k + 1)
        low[longer] |= np.uint8(0x80)
        out[starts + k] = low
        if not longer.size:
            break
        raw, lengths, starts = raw[longer] >> np.uint64(7), lengths[longer], starts[longer]
    return out


def _encoded_bytes(flat: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Encode bytes as varints: one above 127 has its high bit set, and is followed by a 1."""
    longer = flat >> 7
    if not longer.any():
        return flat
    lengths = longer + np.int64(1)  # int64 as indices are: nothing is converted
    starts = np.cumsum(lengths)
    out = np.ones(int(starts[-1]), np.uint8)
    starts -= lengths
    out[starts] = flat
    return out


def _unsigned(flat: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    return flat.astype(np.int64).view(np.uint64)
