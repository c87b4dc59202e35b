"""Open files that a save may replace meanwhile: those of one model come from one save."""

from __future__ import annotations

import os
from typing import Final

from caffe2_bridge import wire
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.storage import AnyPath, RemotePath, StorageError, journal

_ATTEMPTS: Final = 100


def open_file(path: AnyPath) -> wire.Span:
    """Open a file, or the local copy of a remote one; large files are mapped.

    Raises NetFormatError if it cannot be read.
    """
    try:
        if isinstance(path, RemotePath):
            return wire.Buffer.of_file(os.fspath(path)).span()
        found = journal.current(path)
        try:
            return wire.Buffer.of_file(os.fspath(found)).span()
        except FileNotFoundError:  # renamed to its target in the meantime
            if found == path:
                raise
            return wire.Buffer.of_file(os.fspath(path)).span()
    except OSError as error:
        raise NetFormatError(f"cannot be read: {error.strerror or error}", str(path)) from None


def open_together(first: AnyPath, second: AnyPath | None) -> tuple[wire.Span, wire.Span | None]:
    """Open two files that are saved together. What is open stays as it is, for a save replaces files.

    Raises NetFormatError if one cannot be read.
    """
    paths = [first] if second is None else [first, second]
    for _ in range(_ATTEMPTS):
        try:
            before = [_opened(path) for path in paths]
            spans = open_file(first), None if second is None else open_file(second)
            if [_current(path) for path in paths] == before:
                return spans
            for path in paths:
                if isinstance(path, RemotePath):
                    path.local()
        except StorageError as error:
            raise NetFormatError(f"cannot be read: {error.reason}", error.url) from None
    raise NetFormatError("the files are replaced again and again while they are read", str(first))


def _opened(path: AnyPath) -> object:
    """Return what identifies the file that opening the path will open."""
    if isinstance(path, RemotePath):
        os.fspath(path)  # the local copy is made now, and opened as often as the path
        return path.held_version
    return _current(path)


def _current(path: AnyPath) -> object:
    """Return what tells apart the files that the path stands for in the course of time."""
    return path.version() if isinstance(path, RemotePath) else journal.identity(journal.current(path))
