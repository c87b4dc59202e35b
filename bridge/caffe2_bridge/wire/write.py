"""Encode arrays in protobuf's wire format; :mod:`caffe2_bridge.wire.arrays` decodes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from caffe2_bridge.wire.fields import FIXED32, FIXED64, LEN, MAX_VARINT, VARINT


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
    return b"".join((encode_varint(number << 3 | LEN), encode_varint(sum(map(len, parts))), *parts))


def encode_fixed(number: int, values: npt.NDArray[Any]) -> bytes:
    """Encode float32 or float64 values as a repeated field that is not packed."""
    kind = FIXED32 if values.dtype.itemsize == 4 else FIXED64
    rows = np.empty(values.size, [("tag", "u1"), ("value", values.dtype.newbyteorder("<"))])
    rows["tag"] = number << 3 | kind
    rows["value"] = values.reshape(-1)
    return rows.tobytes()


def encode_varints(values: npt.NDArray[Any], number: int | None = None) -> bytes:
    """Encode integers as varints: the payload of a packed field, or with ``number`` an unpacked repeated field.

    The length of each varint is computed first, which gives the offset of each in the result; then the k-th bytes of
    all varints that have one are written at once, for each k.
    """
    raw = values.reshape(-1).astype(np.int64).view(np.uint64)
    lengths = np.ones(raw.size, np.int64)
    for k in range(1, MAX_VARINT):
        lengths += raw >= np.uint64(1 << 7 * k)
    tag_size = 0 if number is None else 1
    ends = np.cumsum(lengths + tag_size)
    out = np.empty(int(ends[-1]) if raw.size else 0, np.uint8)
    starts = ends - lengths
    if number is not None:
        out[starts - 1] = number << 3 | VARINT
    for k in range(int(lengths.max(initial=0))):
        longer = lengths > k
        byte = (raw[longer] >> np.uint64(7 * k)) & np.uint64(0x7F)
        byte |= np.where(lengths[longer] > k + 1, np.uint64(0x80), np.uint64(0))
        out[starts[longer] + k] = byte
    return out.tobytes()
