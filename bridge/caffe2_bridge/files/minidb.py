"""Minidb databases: the records, one after another.

A record is two little-endian 32-bit lengths, a key and a value; there is no header and no index.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files.blob_records import Blob, gather
from caffe2_bridge.wire import read as wire

_LENGTHS: Final = struct.Struct("<ii")
_LONGEST_KEY: Final = 4095


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


def blobs(span: wire.Span) -> Mapping[str, Blob]:
    """The blobs of a database, by name."""
    return gather((key, lambda value=value: value) for key, value in records(span))  # type: ignore[misc] # bound here and now


def record(key: str, value: bytes) -> bytes:
    """A record as it stands in the file."""
    name = key.encode()
    return _LENGTHS.pack(len(name), len(value)) + name + value
