"""Open files that a save may replace meanwhile: those of one model come from one save."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files import journal
from caffe2_bridge.wire import read as wire

_ATTEMPTS: Final = 100


def open_file(path: Path) -> wire.Span:
    """Open a file; large files are mapped. Raises NetFormatError if it cannot be read."""
    try:
        found = journal.current(path)
        try:
            return wire.Buffer.of_file(os.fspath(found)).span()
        except FileNotFoundError:  # renamed to its target in the meantime
            if found == path:
                raise
            return wire.Buffer.of_file(os.fspath(path)).span()
    except OSError as error:
        raise NetFormatError(f"cannot be read: {error.strerror or error}", str(path)) from None


def open_together(first: Path, second: Path | None) -> tuple[wire.Span, wire.Span | None]:
    """Open two files that are saved together. What is open stays as it is, for a save replaces files.

    Raises NetFormatError if one cannot be read.
    """
    for _ in range(_ATTEMPTS):
        before = _identities(first, second)
        spans = open_file(first), None if second is None else open_file(second)
        if _identities(first, second) == before:
            return spans
    raise NetFormatError("the files are replaced again and again while they are read", str(first))


def _identities(*paths: Path | None) -> list[tuple[int, int]]:
    """What tells apart the files that paths stand for now."""
    return [journal.identity(journal.current(path)) for path in paths if path is not None]
