"""Bytes in memory or in a mapped file, and parts of them, without copies.

The pages of a mapped file are dropped from memory once they are decoded, so that decoding takes no more memory than its
result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from caffe2_bridge.regular_file import open_regular

mmap: ModuleType | None
try:
    import mmap
except ImportError:  # WebAssembly: files are in memory already, and are read
    mmap = None

_PIECE: Final = 1 << 24  # bytes copied at once
_MAP_FROM: Final = 1 << 20  # bytes; a smaller file is read, since mapping costs more than it saves


class Buffer:
    """Bytes in memory, or a mapped file whose pages can be dropped after use."""

    __slots__ = ("_map", "view")

    def __init__(self, data: Any) -> None:
        self._map = data if hasattr(data, "madvise") else None
        self.view = memoryview(data)

    @classmethod
    def of_file(cls, path: str) -> Buffer:
        """Open a file; large files are mapped. Raises OSError if it cannot be read."""
        with open_regular(path) as file:
            size = file.seek(0, 2)
            file.seek(0)
            if size < _MAP_FROM or mmap is None:
                return cls(file.read())
            return cls(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def span(self) -> Span:
        """Return a span of the whole buffer."""
        return Span(self, 0, len(self.view))

    def release(self, start: int, end: int) -> None:
        """Drop the pages of a mapped file that lie fully within ``start:end``; reading them again reloads them."""
        if self._map is None or mmap is None:
            return
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        length = end // mmap.PAGESIZE * mmap.PAGESIZE - first
        if length > 0:
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
