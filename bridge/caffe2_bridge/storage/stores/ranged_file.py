"""A remote file as a file object that reads ranges."""

from __future__ import annotations

import io
from typing import Any, Final

from caffe2_bridge.storage.errors import StorageError
from caffe2_bridge.storage.retries import repeated
from caffe2_bridge.storage.store import Status, Store
from caffe2_bridge.storage.urls import Url

_LARGEST: Final = 1 << 28  # bytes that are asked for at once: of an archive, its list of members


class RangedFile(io.RawIOBase):
    """A file of a store that reads ranges, of one version. Raises StorageError where it cannot be read."""

    def __init__(self, store: Store, url: Url, status: Status) -> None:
        super().__init__()
        assert status.size is not None
        assert status.resumable
        self._store, self._url, self._status, self._size = store, url, status, status.size
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"position {base + offset} is negative")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; return how many bytes were read, 0 at the end."""
        view = memoryview(buffer).cast("B")
        end = min(self._at + len(view), self._size)
        if end <= self._at:
            return 0
        if end - self._at > _LARGEST:
            raise StorageError(f"the archive claims a list of members of {end - self._at:,} bytes", str(self._url))
        data = repeated(lambda: b"".join(self._store.read(self._url, self._status, self._at, end)))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
