"""Open files that hold content: reading a pipe or a device would wait, or change it."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file to be read. Raises OSError, also for a folder, a pipe, a socket or a device."""
    file: BufferedReader = _open(path, os.O_RDONLY, "rb")
    return file


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a regular file. Raises OSError as :func:`open_regular`."""
    with open_regular(path) as file:
        return file.read()


def append_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file to be added to; a missing one is created. Raises OSError as :func:`open_regular`."""
    file: BinaryIO = _open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, "ab")
    return file


def _open(path: str | os.PathLike[str], flags: int, mode: str) -> Any:
    """Open a file, without waiting for the other end of a pipe, and refuse it if it is not a regular one."""
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o666)
    try:
        require_regular(os.fstat(descriptor), os.fspath(path))
        return os.fdopen(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise


def require_replaceable(path: str | os.PathLike[str]) -> None:
    """Raise OSError if there is something at a path, and it is not a regular file."""
    try:
        status = Path(path).stat()
    except OSError:  # nothing, or what the writing will fail on
        return
    require_regular(status, os.fspath(path))


def followed(path: Path) -> Path:
    """Return the path of what a path stands for: where a symbolic link leads to, or the path itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def require_regular(status: os.stat_result, path: str) -> None:
    """Raise OSError unless the status is that of a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)


def is_utf8(path: str | os.PathLike[str]) -> bool:
    """Whether a path is text that every library takes, rather than other bytes."""
    try:
        os.fspath(path).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
