"""Arrays to protobuf's wire format: the other half of :mod:`caffe2_bridge.wire.read`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from caffe2_bridge.wire import read as wire

_MAX_VARINT: Final = 10


def encode_varint(value: int) -> bytes:
    """A varint; a negative number takes ten bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_len(number: int, *parts: bytes | memoryview) -> bytes:
    """A string, bytes, message or packed field whose payload is the parts joined."""
    return b"".join((encode_varint(number << 3 | wire.LEN), encode_varint(sum(map(len, parts))), *parts))


def encode_fixed(number: int, values: npt.NDArray[Any]) -> bytes:
    """Float32 or float64 values as a repeated field that is not packed."""
    kind = wire.FIXED32 if values.dtype.itemsize == 4 else wire.FIXED64
    rows = np.empty(values.size, [("tag", "u1"), ("value", values.dtype.newbyteorder("<"))])
    rows["tag"] = number << 3 | kind
    rows["value"] = values.reshape(-1)
    return rows.tobytes()


def encode_varints(values: npt.NDArray[Any], number: int | None = None) -> bytes:
    """Integers as varints: packed content, or with ``number`` a repeated field that is not packed."""
    raw = values.reshape(-1).astype(np.int64).view(np.uint64)
    lengths = np.ones(raw.size, np.int64)
    for k in range(1, _MAX_VARINT):
        lengths += raw >= np.uint64(1 << 7 * k)
    extra = 0 if number is None else 1
    ends = np.cumsum(lengths + extra)
    out = np.empty(int(ends[-1]) if raw.size else 0, np.uint8)
    starts = ends - lengths
    if number is not None:
        out[starts - 1] = number << 3 | wire.VARINT
    for k in range(int(lengths.max(initial=0))):
        chosen = lengths > k
        byte = (raw[chosen] >> np.uint64(7 * k)) & np.uint64(0x7F)
        byte |= np.where(lengths[chosen] > k + 1, np.uint64(0x80), np.uint64(0))
        out[starts[chosen] + k] = byte
    return out.tobytes()
