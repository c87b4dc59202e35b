"""Read LMDB files without LMDB, which trusts the numbers of a file, and crashes on those of a damaged one.

The format is that of LMDB 0.9 (data version 1) on 64-bit little-endian systems, as ``mdb.c`` defines it. A file is a
sequence of pages of one size. The first two are meta pages, of which the one with the greater transaction is current:
it has the root of the tree of records, whose branch pages lead to leaf pages. A value that is too long for a leaf
lies in overflow pages, which follow each other.

Whatever a page says is checked before it is used, and keys must ascend, so that no page can be visited twice.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.wire import Span

_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
_NO_PAGE: Final = (1 << 64) - 1
_METAS: Final = 2  # pages
_DEPTHS: Final = 32  # levels of a tree, at most
_SIZES: Final = range(256, (1 << 15) + 1)  # bytes of a page

# The number of the page, its flags, and the ends of the list of its nodes and of its free space: offsets in the page.
_HEADER: Final = struct.Struct("<Q2xHHH")
# magic, version, (address, size of the map); of the free list: page size, (the rest); of the records: flags, depth,
# (numbers of pages), entries, root; the last page, the transaction
_META: Final = struct.Struct("<II16xI44x4xHH24xQQQQ")
_NODE: Final = struct.Struct("<HHHH")  # two halves of a size, or of a page number; flags, size of the key
_OFFSET: Final = struct.Struct("<H")
_NUMBER: Final = struct.Struct("<Q")

_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 0x01, 0x02, 0x04, 0x08
_KINDS: Final = 0x6F  # without the flag of pages that are not written yet, which LMDB leaves in some
_LONG, _TABLE, _REPEATED = 0x01, 0x02, 0x04  # the value has pages of its own; is a database; is a list of values
_VALID: Final = 0x8000  # a flag of a database in memory


@dataclass(frozen=True, slots=True)
class _Page:
    """A page of the tree: its position in the file, and the number of its nodes."""

    start: int
    is_leaf: bool
    count: int


class Tree:
    """The records of an LMDB file, sorted by key.

    Args:
        span: the whole file. Later changes of the file are not seen, but those of pages that LMDB has used again.

    Raises NetFormatError, without a source, if the file is damaged, or has what databases of Caffe2 do not have; so do
    all methods, for what they read.
    """

    def __init__(self, span: Span) -> None:
        self._span = span
        self._view = span.view
        self._size = self._page_size()
        metas = [self._meta(number) for number in range(_METAS)]
        current = metas[0] if metas[0][-1] >= metas[1][-1] else metas[1]
        _, _, _, flags, _, self.entries, self._root, self._last, _ = current
        if flags & ~_VALID:
            raise NetFormatError(f"the LMDB database has the flags {flags:#x}, which databases of Caffe2 do not have")

    def cursor(self) -> Cursor:
        """Make a cursor, at no record yet."""
        return Cursor(self)

    def records(self) -> Iterator[tuple[bytes, Span]]:
        """Yield the keys, and the values where they lie in the file."""
        cursor = self.cursor()
        count = size = 0
        found = cursor.first()
        while found:
            value = cursor.value
            count += 1
            size += len(value)
            if size > len(self._span):
                raise damaged("values overlap")
            yield cursor.key, value
            found = cursor.next()
        if count != self.entries:
            raise damaged(f"it has {count} records, but its header counts {self.entries}")

    @property
    def root(self) -> int | None:
        """The page of the root; None if there are no records."""
        return None if self._root == _NO_PAGE else self._root

    def page(self, number: int) -> _Page:
        """Return a page of the tree."""
        start, flags, lower, upper = self._header(number)
        kind = flags & _KINDS
        if kind not in {_BRANCH, _LEAF}:
            raise damaged(f"page {number} has the flags {flags:#x}, which pages of records do not have")
        count = (lower - _HEADER.size) // _OFFSET.size
        if not _HEADER.size < lower <= upper <= self._size or count < 1:
            raise damaged(f"page {number} has free space from {lower} to {upper} of {self._size} bytes")
        return _Page(start, kind == _LEAF, count)

    def key(self, page: _Page, index: int) -> bytes:
        """Return the key of a node."""
        at, _, _, length = self._node(page, index)
        return self._view[at : at + length].tobytes()

    def child(self, page: _Page, index: int) -> int:
        """Return the page that a node of a branch leads to."""
        _, size, flags, _ = self._node(page, index)
        return size | flags << 32

    def value(self, page: _Page, index: int) -> Span:
        """Return the value of a node of a leaf."""
        key, size, flags, length = self._node(page, index)
        start = key + length
        if flags & (_TABLE | _REPEATED):
            kind = "a database" if flags & _TABLE else "several values"
            name = self._view[key:start].tobytes()
            raise NetFormatError(f"the LMDB database has {kind} with the key {name[:40]!r}, not a record")
        if not flags & _LONG:
            self._require_within(page, start + size)
        else:
            self._require_within(page, start + _NUMBER.size)
            (number,) = _NUMBER.unpack_from(self._view, start)
            start = self._overflow(number, size)
        return self._span.within(self._span.start + start, self._span.start + start + size)

    def _overflow(self, number: int, size: int) -> int:
        """Return the position of a value of so many bytes in overflow pages, the first of which is given."""
        start, flags, _, _ = self._header(number)
        if flags & _KINDS != _OVERFLOW:
            raise damaged(f"page {number} has the flags {flags:#x}, which pages of a value do not have")
        last = number + (_HEADER.size + size - 1) // self._size
        self._require_page(last)
        return start + _HEADER.size

    def _node(self, page: _Page, index: int) -> tuple[int, int, int, int]:
        """Return a node: the position of the key, the size of the value, the flags, and the size of the key."""
        (offset,) = _OFFSET.unpack_from(self._view, page.start + _HEADER.size + _OFFSET.size * index)
        at = page.start + offset
        self._require_within(page, at + _NODE.size)
        low, high, flags, length = _NODE.unpack_from(self._view, at)
        at += _NODE.size
        self._require_within(page, at + length)
        return at, low | high << 16, flags, length

    def _require_within(self, page: _Page, end: int) -> None:
        if end > page.start + self._size:
            raise damaged(f"a record of page {page.start // self._size} does not end in the page")

    def _require_page(self, number: int) -> None:
        if number > self._last or (number + 1) * self._size > len(self._view):
            raise damaged(f"page {number} is missing")

    def _header(self, number: int) -> tuple[int, int, int, int]:
        """Return the position, the flags and the ends of the free space of a page that is not a meta page."""
        self._require_page(number)
        start = number * self._size
        stated, flags, lower, upper = _HEADER.unpack_from(self._view, start)
        if stated != number or number < _METAS:
            raise damaged(f"page {number} is page {stated}" if stated != number else f"page {number} is a header")
        return start, flags, lower, upper

    def _page_size(self) -> int:
        if len(self._view) < _HEADER.size + _META.size:
            raise damaged("its header is incomplete")
        magic, version, size, *_ = _META.unpack_from(self._view, _HEADER.size)
        if (magic, version) != (_MAGIC, _VERSION):
            raise NetFormatError(
                "the file is not an LMDB database of version 0.9, written on a 64-bit little-endian system"
            )
        if size not in _SIZES or size & (size - 1):
            raise damaged(f"its pages have {size} bytes")
        return int(size)

    def _meta(self, number: int) -> tuple[int, ...]:
        start = number * self._size
        if start + _HEADER.size + _META.size > len(self._view):
            raise damaged(f"page {number} is missing")
        _, flags, _, _ = _HEADER.unpack_from(self._view, start)
        found = _META.unpack_from(self._view, start + _HEADER.size)
        if not flags & _META_PAGE or found[:3] != (_MAGIC, _VERSION, self._size):
            raise damaged(f"page {number} is not a header")
        return found


class Cursor:
    """A position in a tree. What it is at is valid after a method returned True, until one returns False."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._path: list[tuple[_Page, int]] = []  # from the root to a leaf, the node of each
        self.key = b""

    @property
    def value(self) -> Span:
        """The value at the position."""
        return self._tree.value(*self._path[-1])

    def first(self) -> bool:
        """Move to the first record; return whether there is one."""
        return self._start(lambda _: 0)

    def seek(self, key: bytes) -> bool:
        """Move to the first record whose key is not before ``key``; return whether there is one."""

        def choose(page: _Page) -> int:
            def key_at(index: int) -> bytes:
                return self._tree.key(page, index)

            if page.is_leaf:
                return bisect_left(range(page.count), key, key=key_at)
            return bisect_right(range(page.count), key, 1, key=key_at) - 1  # the first key of a branch is empty

        return self._start(choose)

    def next(self) -> bool:
        """Move to the next record; return whether there is one."""
        page, index = self._path.pop()
        return self._forward(page, index + 1, self.key)

    def _start(self, choose: Callable[[_Page], int]) -> bool:
        self._path.clear()
        if self._tree.root is None:
            return False
        self._descend(self._tree.root, choose)
        page, index = self._path.pop()
        return self._forward(page, index, None)

    def _forward(self, page: _Page, index: int, before: bytes | None) -> bool:
        """Move to a node, or to the first one of the next page, whose key is after another."""
        while index == page.count:
            if not self._path:
                return False
            page, index = self._path.pop()
            index += 1
        self._path.append((page, index))
        if not page.is_leaf:
            self._descend(self._tree.child(page, index), lambda _: 0)
        self.key = self._tree.key(*self._path[-1])
        if before is not None and self.key <= before:
            raise damaged("its keys are not sorted")
        return True

    def _descend(self, number: int, choose: Callable[[_Page], int]) -> None:
        while True:
            if len(self._path) == _DEPTHS:
                raise damaged(f"its tree has more than {_DEPTHS} levels")
            page = self._tree.page(number)
            index = choose(page)
            self._path.append((page, index))
            if page.is_leaf:
                return
            number = self._tree.child(page, index)


def damaged(reason: str) -> NetFormatError:
    """Make the error for a file that contradicts itself."""
    return NetFormatError(f"the LMDB database is truncated or damaged: {reason}")
