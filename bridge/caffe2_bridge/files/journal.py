"""The renames of a save of several files, written down so that a reader never sees some of them alone.

Once all temporaries of a save are complete, a file in their folder lists the targets with their temporaries; it comes
into being by a rename, and from then on the save counts as done: until a temporary is renamed, a reader takes it for
its target. A process that is killed between two renames leaves the list, and the next save completes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from caffe2_bridge.storage.temporaries import is_temporary_of, temporary_name

NAME: Final = ".caffe2-bridge-save"
_LARGEST: Final = 1 << 16  # bytes


def begin(folder: Path, pairs: Mapping[str, str]) -> None:
    """Write down the names of targets, and of their temporaries. Raises OSError."""
    entries = {target: [temporary, *identity(folder / target)] for target, temporary in pairs.items()}
    path = folder / temporary_name(NAME)
    with path.open("w", encoding="utf-8") as file:
        json.dump(entries, file)
        file.flush()
        os.fsync(file.fileno())
    path.replace(folder / NAME)


def complete(folder: Path) -> None:
    """Rename what is written down, and remove the list. Raises OSError."""
    for target, temporary in _pending(folder).items():
        temporary.replace(folder / target)
    (folder / NAME).unlink(missing_ok=True)


def current(path: Path) -> Path:
    """The file that holds the content of ``path``: itself, or a temporary that is about to be renamed to it."""
    return _pending(path.parent).get(path.name, path)


def _pending(folder: Path) -> Mapping[str, Path]:
    """The temporaries that are still to be renamed, by the names of their targets; none if the list is damaged.

    A target that is not the file any more that the save was to replace was written by someone else, and stays.
    """
    try:
        with (folder / NAME).open("rb") as file:
            entries = json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    found = {}
    for target, entry in entries.items() if isinstance(entries, dict) else ():
        match entry:
            case [str(temporary), int(inode), int(time)] if _is_name_of_temporary(temporary, target):
                path = folder / temporary
                if path.is_file() and not path.is_symlink() and identity(folder / target) == (inode, time):
                    found[target] = path
    return found


def _is_name_of_temporary(name: str, target: str) -> bool:
    return is_temporary_of(name, target) and not {os.sep, os.altsep, "\0"} & {*name}


def identity(path: Path) -> tuple[int, int]:
    """What tells a file from others that a path has stood for; zeros where there is none."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
