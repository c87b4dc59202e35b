"""Room in the cache for a file that is downloaded: made as its bytes come, however many its server claims."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Final

from caffe2_bridge.storage.cache.evict import make_room, require_fitting
from caffe2_bridge.storage.cache.settings import SIZE_VARIABLE, cache_folder, cache_limit
from caffe2_bridge.storage.errors import StorageError
from caffe2_bridge.storage.retries import TransientError
from caffe2_bridge.storage.urls import Url

_STEP: Final = 1 << 26  # bytes


class Room:
    """Room for one version of a file.

    Args:
        url: the file, for messages.
        size: what its store states; None if it does not.
        keep: the state of the entry in the cache, which is not removed.

    Raises StorageError if the file can never fit: before anything is removed for it.
    """

    def __init__(self, url: Url, size: int | None, keep: Path) -> None:
        self._url, self._size, self._keep = str(url), size, keep
        self._reserved = 0
        require_fitting(size or 0, self._url)

    def take(self, start: int, count: int) -> None:
        """Make room for the ``count`` bytes that follow ``start`` bytes.

        Raises TransientError if they are more than was stated, StorageError if a file without a stated size exceeds the
        cache, OSError if the disk is full.
        """
        end = start + count
        if self._size is not None and end > self._size:
            raise TransientError(f"the server sent {end:,} bytes or more of {self._size:,}", self._url)
        if end > cache_limit():
            reason = f"the file, of a size that is not stated, has more than the {cache_limit():,} bytes of the cache"
            raise StorageError(f"{reason}: {SIZE_VARIABLE} sets them", self._url)
        if count > self._reserved:
            step = max(count, _STEP + start // 8)
            self._reserved = step if self._size is None else min(step, self._size - start)
            make_room(self._reserved, self._keep)
            if shutil.disk_usage(cache_folder()).free < self._reserved:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._reserved -= count
