"""Temporary files and folders next to their targets, which are known to be abandoned once their process has ended.

A temporary is locked (``flock``) as long as its process lives. One that can be locked by another process was left
behind by a process that was killed, and is removed by the next save to the same target, unless it holds content of a
save that counts as done (:mod:`.journal`).
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

from caffe2_bridge.storage import journal
from caffe2_bridge.storage.temporary_names import is_temporary_of, temporary_name

_fcntl: ModuleType | None
try:
    import fcntl as _fcntl
except ImportError:  # Windows: nothing is locked, and nothing of dead processes is removed
    _fcntl = None


@contextmanager
def temporary_file(target: Path) -> Iterator[Path]:
    """Yield an empty file next to its target, with the permissions of the target, or of a new file.

    It is removed at the end, unless it was renamed, or is yet to be. Raises OSError if it cannot be made.
    """
    path, descriptor = _locked_file(target)
    try:
        if target.exists():
            path.chmod(target.stat().st_mode & 0o777)
        yield path
    finally:
        with suppress(OSError):
            if not journal.holds(target, path):
                path.unlink(missing_ok=True)
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def temporary_folder(target: Path, mode: int = 0o777) -> Iterator[Path]:
    """Yield an empty folder next to its target. It is removed at the end, with what is in it that does not count.

    ``mode``: its permissions, less those that the process gives to no file.
    """
    path, descriptor = _locked_folder(target, mode)
    try:
        yield path
    finally:
        if not journal.holds(target, path):
            shutil.rmtree(path, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def _locked_folder(target: Path, mode: int) -> tuple[Path, int | None]:
    while True:
        path = target.with_name(temporary_name(target.name))
        path.mkdir(mode)
        if _fcntl is None:
            return path, None
        with suppress(FileNotFoundError):  # another process took it for an abandoned one before it was locked
            descriptor = os.open(path, os.O_RDONLY)
            if _lock(descriptor) and path.exists():
                return path, descriptor
            os.close(descriptor)


def _locked_file(target: Path) -> tuple[Path, int | None]:
    while True:
        path = target.with_name(temporary_name(target.name))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if _fcntl is None:  # Windows renames no file that is open
            os.close(descriptor)
            return path, None
        if _lock(descriptor) and os.fstat(descriptor).st_nlink:
            return path, descriptor
        os.close(descriptor)  # another process took it for an abandoned one before it was locked


def remove_abandoned(target: Path) -> None:
    """Remove the temporaries of a target whose processes have ended."""
    if _fcntl is None:
        return
    with suppress(OSError):
        for entry in target.parent.iterdir():
            if is_temporary_of(entry.name, target.name):
                with suppress(OSError):
                    _remove_if_abandoned(target, entry)


def _remove_if_abandoned(target: Path, path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        # Asked in this order, for a process that has ended adds nothing to the journal.
        if _lock(descriptor) and not journal.holds(target, path):
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a file; return whether no other process has locked it. True also where files cannot be locked."""
    if _fcntl is None:
        return True
    try:
        _fcntl.flock(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


@contextmanager
def folder_locked(folder: Path) -> Iterator[None]:
    """Wait until no other process replaces files of a folder, where folders can be locked."""
    if _fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            _fcntl.flock(descriptor, _fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
