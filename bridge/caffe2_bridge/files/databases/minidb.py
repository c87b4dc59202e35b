"""Read and write minidb databases: records without a header or an index.

A record is the length of the key and of the value, each a little-endian int32, then the key and the value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from caffe2_bridge import wire
from caffe2_bridge.diagnostics import BridgeError, NetFormatError
from caffe2_bridge.files.blobs.record_writer import Record
from caffe2_bridge.files.blobs.records import Blob, decode_key, gather

_LENGTHS: Final = struct.Struct("<ii")
_MAX_KEY_LENGTH: Final = 4095
_LONGEST: Final = 2**31 - 1  # bytes of a value


def looks_like_minidb(head: bytes, size: int) -> bool:
    """Return whether a file of ``size`` bytes with these first bytes may be a minidb database."""
    if len(head) < _LENGTHS.size:
        return False
    key_length, value_length = _LENGTHS.unpack_from(head)
    if not 0 < key_length <= min(_MAX_KEY_LENGTH, size - _LENGTHS.size) or value_length <= 0:
        return False
    return head[_LENGTHS.size : _LENGTHS.size + key_length].decode("utf-8", "replace").isprintable()


def raw_records(span: wire.Span) -> Iterator[tuple[bytes, wire.Span]]:
    """Yield the keys and values of a database in file order. Raises NetFormatError if it is truncated."""
    at = span.start
    while span.end - at >= 4:
        head = span.buffer.view[at : at + _LENGTHS.size]
        key_length, value_length = _LENGTHS.unpack(head) if len(head) == _LENGTHS.size else (0, 0)
        start = at + _LENGTHS.size + key_length
        end = start + value_length
        if key_length <= 0 or value_length <= 0 or end > span.end:
            raise NetFormatError(f"the minidb database is truncated or damaged: the record at byte {at} is incomplete")
        yield span.within(at + _LENGTHS.size, start).tobytes(), span.within(start, end)
        at = end


def records(span: wire.Span) -> Iterator[tuple[str, wire.Span]]:
    """Yield the keys, decoded, and values; raises as :func:`raw_records`, and if a key is not text."""
    for key, value in raw_records(span):
        yield decode_key(key), value


def blobs(span: wire.Span) -> Mapping[str, Blob]:
    """Return the blobs of a database, by name."""
    return gather((key, lambda value=value: value) for key, value in records(span))  # type: ignore[misc] # a default binds the current value


def record(key: str, value: bytes) -> bytes:
    """Encode a record."""
    return raw_record(key.encode(), value)


def content(records: Iterable[Record]) -> Iterator[bytes | memoryview]:
    """Yield a database in pieces. Raises BridgeError for a value that is too long for minidb."""
    for key, value in records:
        if len(value) > _LONGEST:
            raise BridgeError(f"blob {key!r} takes {len(value):,} bytes, but minidb allows at most {_LONGEST:,}")
        name = key.encode()
        yield _LENGTHS.pack(len(name), len(value)) + name
        yield from (value,) if isinstance(value, bytes) else value


def raw_record(key: bytes, value: bytes) -> bytes:
    """Encode a record whose key may be any bytes."""
    return _LENGTHS.pack(len(key), len(value)) + key + value
