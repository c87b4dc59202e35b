"""The local cache of remote files: each is downloaded once a version, also by several processes at once.

An entry is a folder that is named after a remote folder, so that files that refer to each other by relative paths (a
model and its external data) lie as they do remotely::

    <cache>/<digest of the folder's URL>/files/<name>           the content
                                         state/<digest>.json    its version; absent while the content is replaced
                                         state/<digest>.use     locked (shared) by who uses it; its time is that of use
                                         state/<digest>.fill    locked by who downloads it
                                         state/<digest>.<version>.part    what was downloaded so far

A version whose store does not identify it is downloaded each time.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from caffe2_bridge.storage.cache.download import download
from caffe2_bridge.storage.cache.locks import Lock, acquire
from caffe2_bridge.storage.cache.settings import cache_folder, private_folder
from caffe2_bridge.storage.errors import StorageError, StorageFolderError
from caffe2_bridge.storage.store import Status, Store
from caffe2_bridge.storage.urls import Url

_LONGEST_NAME: Final = 200  # bytes
_STATE: Final = 1 << 16  # bytes


@dataclass(frozen=True)
class Held:
    """A local copy, which is not removed from the cache as long as this object exists.

    Attributes:
        path: the file.
        version: that of the store.
    """

    path: Path
    version: str
    lock: Lock


@contextmanager
def fetched(store: Store, url: Url) -> Iterator[Path]:
    """Yield the local copy of a remote file, for the duration of the context. Raises as :func:`fetch`."""
    held = fetch(store, url)
    try:
        yield held.path
    finally:
        held.lock.release()


def fetch(store: Store, url: Url, folder: Url | None = None, name: str = "") -> Held:
    """Return the local copy of the current version of a remote file; download it if the cache does not have it.

    Args:
        store: the store of the file.
        url: the file.
        folder: the folder that the file belongs to; by default that which it lies in.
        name: the file's path relative to ``folder``.

    Raises StorageError.
    """
    status = store.status(url)
    if status.is_folder:
        raise StorageFolderError("a folder is not a file", str(url))
    entry = _Entry(url, folder or url.parent, name or url.name)
    try:
        return _fetch(store, url, status, entry)
    except StorageError:
        raise
    except OSError as error:
        reason = f"the cache {cache_folder()} cannot be written: {error.strerror or error}"
        raise StorageError(reason, str(url), error.errno or 0) from None


def _fetch(store: Store, url: Url, status: Status, entry: _Entry) -> Held:
    private_folder()
    use = acquire(entry.use, shared=True)
    if not entry.has(status):
        use.release()  # who removes old entries need not wait for a download
        with acquire(entry.fill):
            if not entry.has(status):
                status = _fill(store, url, status, entry)
            use = acquire(entry.use, shared=True)
    os.utime(entry.use)
    return Held(entry.file, status.version, use)


def _fill(store: Store, url: Url, status: Status, entry: _Entry) -> Status:
    """Download a file into its entry, whose lock is held."""
    status, part = download(store, url, status, entry.part, entry.state)
    entry.file.parent.mkdir(parents=True, exist_ok=True)
    entry.state.unlink(missing_ok=True)
    part.replace(entry.file)
    entry.write(status, str(url))
    return status


def local_folder(folder: Url) -> Path:
    """Return where the files of a remote folder are kept."""
    return cache_folder() / folder.key / "files"


class _Entry:
    """The local files of a remote one."""

    def __init__(self, url: Url, folder: Url, name: str) -> None:
        digest = hashlib.sha256(f"{name}\0{url.key}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
        files = local_folder(folder)
        state = files.parent / "state" / digest
        self.file = files / local_name(name)
        self.state = state.with_name(f"{digest}.json")
        self.use = state.with_name(f"{digest}.use")
        self.fill = state.with_name(f"{digest}.fill")

    def part(self, status: Status) -> Path:
        """Return where a version is downloaded to; the parts of others are removed."""
        version = hashlib.sha256(status.version.encode()).hexdigest()[:16]
        part = self.state.with_name(f"{self.state.stem}.{version}.part")
        for other in self.state.parent.glob(f"{self.state.stem}.*.part"):
            if other != part:
                other.unlink(missing_ok=True)
        return part

    def has(self, status: Status) -> bool:
        """Whether the local copy is complete, and of this version."""
        if not status.version:
            return False
        try:
            state: Any = json.loads(self.state.read_bytes()[:_STATE])
            return bool(state["version"] == status.version and state["size"] == self.file.stat().st_size)
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def write(self, status: Status, url: str) -> None:
        """Record the version of the local copy."""
        state = {"version": status.version, "size": self.file.stat().st_size, "url": url, "file": str(self.file)}
        temporary = self.state.with_suffix(".tmp")
        temporary.write_text(json.dumps(state), encoding="utf-8")
        temporary.replace(self.state)


def local_name(name: str) -> str:
    """Return the relative local path of a relative remote one; parts that the file system may refuse are shortened."""
    return "/".join(_local_part(part) for part in name.split("/"))


def _local_part(part: str) -> str:
    encoded = part.encode("utf-8", "surrogateescape")
    if len(encoded) <= _LONGEST_NAME and part not in {"", ".", ".."} and not {"\0", "\\", ":"} & {*part}:
        return part
    suffix = "".join(Path(part).suffixes[-1:])
    kept = suffix if len(suffix) < 20 and suffix.isascii() and suffix[1:].isalnum() else ""
    return hashlib.sha256(encoded).hexdigest()[:32] + kept
