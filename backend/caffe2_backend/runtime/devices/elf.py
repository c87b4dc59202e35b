"""The shared libraries that a 64-bit ELF file names as needed, read from its dynamic section."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import mmap

# /usr/include/elf.h: the file header, a program header and a dynamic entry of 64-bit files, little-endian.
_HEADER: Final = struct.Struct("<4sB11xHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_ENTRY: Final = struct.Struct("<qQ")
_MAGIC: Final = b"\x7fELF"
_CLASS_64: Final = 2
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_NEEDED, _DT_STRTAB = 0, 1, 5


class _Segment(NamedTuple):
    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    size: int
    memory: int
    alignment: int


def needed_libraries(path: Path) -> tuple[str, ...]:
    """Return the names of the shared libraries that the loader must find for a library, in order.

    Raises ValueError if the file is not a 64-bit little-endian ELF file with a dynamic section.
    """
    import mmap

    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        segments = list(_segments(data, path))
        dynamic = next((segment for segment in segments if segment.kind == _PT_DYNAMIC), None)
        if dynamic is None:
            raise ValueError(f"{path} has no dynamic section")
        entries = list(_entries(data, dynamic))
        table = next(value for tag, value in entries if tag == _DT_STRTAB)
        strings = next(s.offset + table - s.address for s in segments if _holds(s, table))
        return tuple(_text(data, strings + value) for tag, value in entries if tag == _DT_NEEDED)


def _segments(data: mmap.mmap, path: Path) -> Iterator[_Segment]:
    if len(data) < _HEADER.size:
        raise ValueError(f"{path} is not an ELF file")
    header = _HEADER.unpack_from(data)
    if header[:2] != (_MAGIC, _CLASS_64):
        raise ValueError(f"{path} is not a 64-bit ELF file")
    start, size, count = header[6], header[10], header[11]
    for index in range(count):
        yield _Segment(*_SEGMENT.unpack_from(data, start + index * size))


def _entries(data: mmap.mmap, dynamic: _Segment) -> Iterator[tuple[int, int]]:
    for offset in range(dynamic.offset, dynamic.offset + dynamic.size, _ENTRY.size):
        tag, value = _ENTRY.unpack_from(data, offset)
        if tag == _DT_NULL:
            return
        yield tag, value


def _holds(segment: _Segment, address: int) -> bool:
    return segment.kind == _PT_LOAD and segment.address <= address < segment.address + segment.size


def _text(data: mmap.mmap, start: int) -> str:
    return data[start : data.find(b"\0", start)].decode()
