"""Locks between processes, on files that may be removed while nobody holds them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Final, Self

_fcntl: ModuleType | None
try:
    import fcntl as _fcntl
except ImportError:  # Windows: nothing is locked; files that are open cannot be removed there
    _fcntl = None

_MODE: Final = 0o600


class Lock:
    """A lock that is held until it is released or its object is collected."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock up; nothing if it was given up before."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


def acquire(path: Path, *, shared: bool = False) -> Lock:
    """Wait for a lock. Raises OSError if its file cannot be made."""
    found = _acquire(path, shared=shared, wait=True)
    assert found is not None
    return found


def try_acquire(path: Path) -> Lock | None:
    """Take an exclusive lock if nobody holds it. Raises OSError if its file cannot be made."""
    return _acquire(path, shared=False, wait=False)


def _acquire(path: Path, *, shared: bool, wait: bool) -> Lock | None:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), _MODE)
        except FileNotFoundError:  # the folder was removed in the meantime
            continue
        if not _flock(descriptor, shared=shared, wait=wait):
            os.close(descriptor)
            return None
        if _is_at(descriptor, path):
            return Lock(descriptor)
        os.close(descriptor)  # it was removed before it was locked


def _flock(descriptor: int, *, shared: bool, wait: bool) -> bool:
    if _fcntl is None:
        return True
    kind = _fcntl.LOCK_SH if shared else _fcntl.LOCK_EX
    try:
        _fcntl.flock(descriptor, kind if wait else kind | _fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    own = os.fstat(descriptor)
    with suppress(OSError):
        found = path.stat()
        return (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino)
    return False
