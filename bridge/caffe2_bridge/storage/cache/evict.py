"""Keep the cache below its limit: entries that nobody uses are removed, the least recently used first."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from caffe2_bridge.storage.cache.locks import try_acquire
from caffe2_bridge.storage.cache.settings import SIZE_VARIABLE, cache_folder, cache_limit
from caffe2_bridge.storage.errors import StorageError

_ABANDONED: Final = ".part"


@dataclass(frozen=True)
class _Stored:
    """What the cache holds of a remote file: its state, or a download that was not finished."""

    state: Path
    files: tuple[Path, ...]
    size: int
    used: float


def make_room(size: int, keep: Path) -> None:
    """Remove entries until a file of this size fits; ``keep``, the state of an entry, is not removed.

    Entries in use stay, whatever the limit. Raises OptionError if the limit is not a size, OSError.
    """
    stored, free = _measure()
    excess = max(sum(found.size for found in stored) + size - cache_limit(), size - free)
    for found in sorted(stored, key=lambda found: found.used):
        if excess <= 0:
            return
        if found.state != keep and _remove(found):
            excess -= found.size


def require_fitting(size: int, url: str) -> None:
    """Raise StorageError if a file of this size never fits, whatever is removed; OptionError, OSError."""
    limit = cache_limit()
    if size > limit:
        raise StorageError(
            f"the file has {size:,} bytes, and the cache holds {limit:,}: set {SIZE_VARIABLE}={size} to allow it", url
        )
    stored, free = _measure()
    possible = free + sum(found.size for found in stored)
    if size > possible:
        raise StorageError(f"the file has {size:,} bytes, and the disk of the cache has room for {possible:,}", url)


def _measure() -> tuple[list[_Stored], int]:
    """Return what the cache holds, and the bytes that are free on its disk."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return _stored(folder), shutil.disk_usage(folder).free


def _stored(folder: Path) -> list[_Stored]:
    found = []
    for state in [*folder.glob("*/state/*.json"), *folder.glob(f"*/state/*{_ABANDONED}")]:
        with suppress(OSError, ValueError, KeyError, TypeError):
            found.append(_part(state) if state.suffix == _ABANDONED else _entry(state))
    return found


def _part(path: Path) -> _Stored:
    status = path.stat()
    return _Stored(path.with_name(f"{path.name.partition('.')[0]}.json"), (path,), status.st_size, status.st_mtime)


def _entry(state: Path) -> _Stored:
    file = Path(json.loads(state.read_bytes())["file"])
    root = state.parent.parent / "files"
    if not file.is_relative_to(root):  # the cache was moved
        file = root / file.name
    size = file.stat().st_size if file.exists() else 0
    used = state.with_suffix(".use")
    return _Stored(state, (state, file), size, used.stat().st_mtime if used.exists() else 0.0)


def _remove(found: _Stored) -> bool:
    """Remove the files of an entry unless it is in use; return whether they were removed."""
    locks = []
    try:
        for suffix in (".fill", ".use"):
            lock = try_acquire(found.state.with_suffix(suffix))
            if lock is None:
                return False
            locks.append(lock)
        for file in found.files:
            file.unlink(missing_ok=True)
        for suffix in (".use", ".fill"):
            found.state.with_suffix(suffix).unlink(missing_ok=True)
    except OSError:
        return False
    finally:
        for lock in locks:
            lock.release()
    return True
