"""Remote files and folders with the methods of :class:`pathlib.Path` that this project uses."""

from __future__ import annotations

import os
import stat
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import total_ordering
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from caffe2_bridge.storage.cache.fetch import Held, fetch, local_folder
from caffe2_bridge.storage.errors import (
    StorageChangedError,
    StorageDeniedError,
    StorageFolderError,
    StorageNotFoundError,
)
from caffe2_bridge.storage.staging import link, staged
from caffe2_bridge.storage.store import Store
from caffe2_bridge.storage.stores.select import store_of
from caffe2_bridge.storage.upload import upload
from caffe2_bridge.storage.urls import HTTP, Url, parse

_ATTEMPTS: Final = 3


@total_ordering
class RemotePath(os.PathLike[str]):
    """A remote file or folder.

    ``os.fspath`` and what calls it, such as ``open``, downloads it to the cache, unless the cache has its current
    version, and gives the local path. The copy is kept as long as this object exists. ``str`` gives the URL, without
    credentials.

    Args:
        url: a URL, or one taken apart.

    Raises OptionError if the URL is not accepted. Methods raise StorageError, which is an OSError.
    """

    def __init__(self, url: str | Url) -> None:
        self.url = parse(url) if isinstance(url, str) else url
        self._folder: Url | None = None  # of which it is a part, at the path _relative
        self._relative = ""
        self._is_folder: bool | None = None  # if a list said so
        self._held: Held | None = None
        self._local: Path | None = None
        self._children: list[RemotePath] = []  # whose local copies the local folder links to

    @property
    def store(self) -> Store:
        """The store of the file."""
        return store_of(self.url)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.url.name

    @property
    def suffix(self) -> str:
        """The last suffix of the name, with the dot."""
        return PurePosixPath(self.name).suffix

    @property
    def stem(self) -> str:
        """The name without its last suffix."""
        return PurePosixPath(self.name).stem

    @property
    def parent(self) -> RemotePath:
        """The folder; the root of a store is its own."""
        return RemotePath(self.url.parent)

    def __truediv__(self, name: str | os.PathLike[str]) -> RemotePath:
        """Return a file or folder in this folder. Raises ValueError for a path that leaves it."""
        return self._child(name if isinstance(name, str) else os.fspath(name))

    def _child(self, name: str, *, is_folder: bool | None = None) -> RemotePath:
        child = RemotePath(self.url.child(name))
        child._folder = self._folder or self.url
        child._relative = f"{self._relative}/{name}" if self._relative else name
        child._is_folder = is_folder
        return child

    def joinpath(self, *names: str) -> RemotePath:
        """Return a file or folder in this folder. Raises ValueError for a path that leaves it."""
        found = self
        for name in names:
            found /= name
        return found

    def with_name(self, name: str) -> RemotePath:
        """Return a file or folder of the same folder."""
        return self.parent / name

    def resolve(self) -> RemotePath:
        """Return this path: there are no links."""
        return self

    def __str__(self) -> str:
        return str(self.url)

    def __repr__(self) -> str:
        return f"RemotePath({str(self.url)!r})"

    def __reduce__(self) -> tuple[type[RemotePath], tuple[str]]:
        return RemotePath, (self.url.text,)

    def __hash__(self) -> int:
        return hash(self.url)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and self.url == other.url

    def __lt__(self, other: RemotePath) -> bool:
        return self.url.text < other.url.text

    def __fspath__(self) -> str:
        return os.fspath(self._local or self.local())

    def local(self) -> Path:
        """Return the local copy of the current version; of a folder, one of the files in it. Raises StorageError."""
        if self._held is not None and not self._held.version:
            return self._held.path  # a version that the store does not identify was downloaded for this object
        if self._is_folder:
            self._local = self._local_folder()
        else:
            held = self._fetch()
            self._local = self._local_folder() if held is None else held.path
        return self._local

    def _fetch(self) -> Held | None:
        """Fetch the file; None if it is a folder."""
        try:
            self._held = fetch(self.store, self.url, self._folder, self._relative)
        except StorageFolderError:
            return None
        return self._held

    @property
    def copies(self) -> Path:
        """The local folder in which the files of this folder are, as soon as they are fetched."""
        return local_folder(self._folder or self.url) / self._relative

    @property
    def held_version(self) -> str:
        """The version of the local copy; empty without one."""
        return "" if self._held is None else self._held.version

    def _local_folder(self) -> Path:
        """Return a folder of links to local copies of the files in this folder, all of them current at one time."""
        for _ in range(_ATTEMPTS):
            files = [child for child in self.iterdir() if child.is_file()]
            copies = [child.local() for child in files]
            if all(child.version() == child.held_version for child in files):
                stack = ExitStack()
                folder = stack.enter_context(staged())
                for child, copy in zip(files, copies, strict=True):
                    link(copy, folder / child.name)
                weakref.finalize(self, stack.close)
                self._children = files
                return folder
        raise StorageChangedError("the folder is changed again and again while it is read", str(self.url))

    def exists(self) -> bool:
        """Whether there is a file or folder."""
        if self._is_folder is not None:
            return True
        with suppress(StorageNotFoundError):
            self.store.status(self.url)
            return True
        return False

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        if self._is_folder is None:
            with suppress(StorageNotFoundError):
                return self.store.status(self.url).is_folder
        return bool(self._is_folder)

    def is_file(self) -> bool:
        """Whether it is a file, and not one that the store refuses to show."""
        if self._is_folder is None:
            with suppress(StorageNotFoundError, StorageDeniedError):
                return not self.store.status(self.url).is_folder
        return self._is_folder is False

    def is_symlink(self) -> bool:
        """Return False."""
        return False

    def version(self) -> str:
        """Return what identifies the content now; empty if the store has nothing of the kind."""
        return self.store.status(self.url).version

    def stat(self) -> os.stat_result:
        """Return the type, size and time of the last change; what else ``os.stat`` gives is 0."""
        status = self.store.status(self.url)
        mode = stat.S_IFDIR if status.is_folder else stat.S_IFREG
        return os.stat_result((mode, 0, 0, 1, 0, 0, status.size or 0, 0, int(status.modified), 0))

    def iterdir(self) -> Iterator[RemotePath]:
        """Yield the files and folders in this folder, sorted by name. Raises NotListableError if the store cannot."""
        url = self.url
        if not url.path.endswith("/") and url.query == "" and url.scheme in HTTP:
            url = replace(url, path=f"{url.path}/" if url.path else "")
        for entry in self.store.entries(url):
            with suppress(ValueError):  # a name that is not one of a file
                yield self._child(entry.name, is_folder=entry.is_folder)

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Yield the files and folders in this folder whose names match a pattern without slashes."""
        return (child for child in self.iterdir() if fnmatchcase(child.name, pattern))

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open the local copy for reading."""
        if mode != "rb":
            raise ValueError(f"mode must be 'rb', not {mode!r}")
        return self.local().open("rb")

    def read_bytes(self) -> bytes:
        """Read the file."""
        return self.local().read_bytes()

    def read_text(self, encoding: str = "utf-8") -> str:
        """Read the file as text."""
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes) -> int:
        """Replace the file at once."""
        with staged() as folder:
            file = folder / "content"
            file.write_bytes(data)
            upload(self.store, [(file, self.url)])
        return len(data)

    def write_text(self, text: str, encoding: str = "utf-8") -> int:
        """Replace the file at once."""
        return self.write_bytes(text.encode(encoding))

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing where files can be written: folders of stores exist by what is in them. Raises StorageError."""
        del parents, exist_ok
        self.store.require_writable(self.url)

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove the file. Raises StorageNotFoundError unless ``missing_ok``."""
        if not missing_ok and not self.exists():
            raise StorageNotFoundError("the object does not exist", str(self.url))
        self.store.remove(self.url)
