"""Replace files and folders all or nothing: whoever reads finds the old content or the new, whenever a process ends."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from caffe2_bridge.files import journal
from caffe2_bridge.regular_file import require_replaceable
from caffe2_bridge.storage import AnyPath, published
from caffe2_bridge.storage.temporaries import folder_locked, remove_abandoned, temporary_file, temporary_folder

# Writes the content of an empty file or folder.
Writer = Callable[[Path], None]

_HERE: Final = -100  # AT_FDCWD of Linux
_EXCHANGE: Final = 2  # RENAME_EXCHANGE


def replace_files(files: Sequence[tuple[Path, Writer]]) -> None:
    """Write files of one folder under temporary names, then replace all of them at once.

    Raises OSError if one cannot be written, or is to replace something that is not a regular file; nothing is replaced
    then.
    """
    folder = files[0][0].parent
    folder.mkdir(parents=True, exist_ok=True)
    for target, _ in files:
        require_replaceable(target)
        remove_abandoned(target)
    with ExitStack() as stack:
        written = []
        for target, write in files:
            temporary = stack.enter_context(temporary_file(target))
            write(temporary)
            sync(temporary)
            written.append((temporary, target))
        with folder_locked(folder):
            journal.complete(folder)  # of a process that was killed
            remove_abandoned(folder / journal.NAME)
            if len(written) > 1:
                journal.begin(folder, {target.name: temporary.name for temporary, target in written})
                journal.complete(folder)
            else:
                written[0][0].replace(written[0][1])
    _sync_folder(folder)


@contextmanager
def replacing(target: AnyPath) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``target`` when it is complete. Raises OSError as :func:`replace_files`."""
    with published(target) as local, _replacing(local) as file:
        yield file


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    require_replaceable(target)
    remove_abandoned(target)
    with temporary_file(target) as temporary:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with folder_locked(target.parent):
            journal.complete(target.parent)
            temporary.replace(target)
    _sync_folder(target.parent)


def replace_folder(target: Path, write: Writer) -> None:
    """Write a folder under a temporary name, then exchange it with the one at ``target``, if there is one.

    Raises OSError if it cannot be written; the existing folder stays then.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(target)
    with temporary_folder(target) as temporary:
        new = temporary / "new"
        new.mkdir()
        write(new)
        sync(*new.iterdir())
        _sync_folder(new)
        with folder_locked(target.parent):
            if target.exists():
                new.chmod(target.stat().st_mode & 0o777)
                _exchange(new, target, temporary / "old")
            else:
                new.replace(target)
    _sync_folder(target.parent)


def _exchange(new: Path, target: Path, old: Path) -> None:
    """Exchange two folders at once, where the system can; in two steps elsewhere."""
    if _renamed_at_once(new, target):
        return
    target.replace(old)
    try:
        new.replace(target)
    except OSError:
        old.replace(target)
        raise


def _renamed_at_once(first: Path, second: Path) -> bool:
    """Exchange two paths with Linux's ``renameat2``; return whether the system did."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):  # another system, or an old library
        return False
    return bool(rename(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) == 0)


def sync(*files: Path) -> None:
    """Write what the system holds back of files to the disk. Raises OSError."""
    for file in files:
        _sync(file, os.O_RDWR)


def _sync_folder(folder: Path) -> None:
    """Make renames durable, if the system supports it."""
    with suppress(OSError):
        _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
