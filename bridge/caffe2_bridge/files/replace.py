"""Replace files and folders all or nothing: whoever reads finds the old content or the new, whenever a process ends.

A symbolic link stays, and what it leads to is replaced, as if it was opened and written.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from caffe2_bridge.regular_file import followed, require_replaceable
from caffe2_bridge.storage import AnyPath, journal, published
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
    files[0][0].parent.mkdir(parents=True, exist_ok=True)
    targets = [followed(target) for target, _ in files]
    folder = _folder_of(targets)
    _prepare(*targets)
    with ExitStack() as stack:
        written = {}
        for target, (_, write) in zip(targets, files, strict=True):
            temporary = stack.enter_context(temporary_file(target))
            write(temporary)
            sync(temporary)
            written[target.name] = temporary.name
        with folder_locked(folder):
            journal.complete(folder)
            _rename(folder, written)
    _sync_folder(folder)


def _folder_of(targets: Sequence[Path]) -> Path:
    """Return the folder of all targets. Raises OSError if links lead to several."""
    if len({target.parent for target in targets}) > 1:
        names = " and ".join(map(str, targets))
        raise OSError(errno.EXDEV, f"symbolic links lead to {names}, and files of two folders are not replaced at once")
    return targets[0].parent


def _prepare(*targets: Path) -> None:
    """Complete what a process that was killed has begun, and remove what it left. Raises OSError."""
    folder = targets[0].parent
    with folder_locked(folder):
        journal.complete(folder)
        remove_abandoned(folder / journal.NAME)
    for target in targets:
        require_replaceable(target)
        remove_abandoned(target)


def _rename(folder: Path, written: Mapping[str, str]) -> None:
    """Rename temporaries, by the names of their targets, all or none of them. Raises OSError."""
    if len(written) == 1:
        ((target, temporary),) = written.items()
        (folder / temporary).replace(folder / target)
        return
    try:
        journal.begin(folder, written)
        _sync_folder(folder)
        journal.complete(folder)
    except BaseException:
        journal.settle(folder, written)
        raise


@contextmanager
def replacing(target: AnyPath) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``target`` when it is complete. Raises OSError as :func:`replace_files`."""
    with published(target) as local, _replacing(followed(local)) as file:
        yield file


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    _prepare(target)
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
    target = followed(target.absolute())
    target.parent.mkdir(parents=True, exist_ok=True)
    with folder_locked(target.parent):
        journal.complete_folder(target)
    remove_abandoned(target)
    with temporary_folder(target) as temporary:
        new = temporary / journal.NEW
        new.mkdir()
        write(new)
        entries = list(new.rglob("*"))
        sync(*(entry for entry in entries if entry.is_file()))
        for folder in (*(entry for entry in entries if entry.is_dir()), new):
            _sync_folder(folder)
        with folder_locked(target.parent):
            if target.exists():
                new.chmod(target.stat().st_mode & 0o777)
                _exchange(new, target, temporary / journal.OLD)
            else:
                new.replace(target)
    _sync_folder(target.parent)


def _exchange(new: Path, target: Path, old: Path) -> None:
    """Exchange two folders at once, where the system can; in two steps elsewhere."""
    if _renamed_at_once(new, target):
        return
    try:
        target.replace(old)
        new.replace(target)
    except BaseException:
        if old.exists() and not target.exists():
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
