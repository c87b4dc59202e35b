"""The renames of a save, as they stand on disk: a reader never sees some of them alone, whenever a process ends.

Once all temporaries of a save of several files are complete, a file in their folder lists the targets with their
temporaries. It comes into being by a rename, and from then on the save counts as done: until a temporary is renamed, a
reader takes it for its target, and nobody removes it. A process that is killed between two renames leaves the list, and
the next save completes it before it does anything else.

A folder needs no list where the system exchanges folders at once. Elsewhere the existing folder is moved into the
temporary one first, and that it is there, and nothing at the target, says that the new one counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from caffe2_bridge.regular_file import followed
from caffe2_bridge.storage.temporary_names import is_temporary_of, temporary_name

NAME: Final = ".caffe2-bridge-save"
# The parts of the temporary folder of a folder: the one to be, and the one that was.
NEW: Final = "new"
OLD: Final = "old"
_LARGEST: Final = 1 << 16  # bytes


def begin(folder: Path, pairs: Mapping[str, str]) -> None:
    """Write down the names of targets, and of their temporaries. Raises OSError."""
    entries = {target: [temporary, *identity(folder / target)] for target, temporary in pairs.items()}
    path = folder / temporary_name(NAME)
    try:
        with path.open("w", encoding="utf-8") as file:
            json.dump(entries, file)
            file.flush()
            os.fsync(file.fileno())
        path.replace(folder / NAME)
    finally:
        path.unlink(missing_ok=True)


def complete(folder: Path) -> None:
    """Rename what is written down, and remove the list. Raises OSError."""
    for target, temporary in pending(folder).items():
        temporary.replace(folder / target)
    (folder / NAME).unlink(missing_ok=True)


def settle(folder: Path, pairs: Mapping[str, str]) -> None:
    """End a save that failed after it began: drop it if nothing was renamed, otherwise rename the rest if possible."""
    with suppress(OSError):
        if all((folder / temporary).exists() for temporary in pairs.values()):
            (folder / NAME).unlink(missing_ok=True)
        else:
            complete(folder)


def complete_folder(target: Path) -> None:
    """Give a folder that was moved away for a new one its new content. Raises OSError."""
    new = _moved(target)
    if new is not None:
        new.replace(target)


def current(path: Path) -> Path:
    """Return where the content of ``path`` is: there, or in a temporary that is about to be renamed to it."""
    found = followed(path)
    return pending(found.parent).get(found.name) or _moved(found) or path


def holds(target: Path, temporary: Path) -> bool:
    """Whether a temporary has content of a save that counts as done."""
    return pending(target.parent).get(target.name) == temporary or _is_moved(target, temporary)


def pending(folder: Path) -> Mapping[str, Path]:
    """Return the temporaries that are still to be renamed, by the names of their targets; none if the list is damaged.

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
    return is_temporary_of(name, target) and not {os.sep, os.altsep, "\0"} & {*name, *target}


def _moved(target: Path) -> Path | None:
    """Return the new content of a folder that a process moved away, and was killed before it put the new one there."""
    if os.path.lexists(target):
        return None
    with suppress(OSError):
        for entry in target.parent.iterdir():
            if is_temporary_of(entry.name, target.name) and _is_moved(target, entry):
                return entry / NEW
    return None


def _is_moved(target: Path, temporary: Path) -> bool:
    return not os.path.lexists(target) and (temporary / OLD).is_dir() and (temporary / NEW).is_dir()


def identity(path: Path) -> tuple[int, int]:
    """Return what tells a file from others that a path has stood for; zeros where there is none."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
