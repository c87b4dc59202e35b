"""What a store of remote files offers."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from caffe2_bridge.storage.errors import StorageError
from caffe2_bridge.storage.urls import Url


@dataclass(frozen=True)
class Status:
    """What a store states about a URL.

    Attributes:
        is_folder: whether it is a folder; the other attributes are those of files.
        size: in bytes; None if the store does not state it.
        version: text that changes whenever the content does (entity tag, time, size); empty if the store has none.
        resumable: whether a read may start in the middle, and continue what was read of this version before.
        modified: the time of the last change, in seconds since 1970; 0 if it is not known.
    """

    is_folder: bool
    size: int | None = None
    version: str = ""
    resumable: bool = False
    modified: float = 0.0


@dataclass(frozen=True)
class Entry:
    """A file or folder in a folder."""

    name: str
    is_folder: bool


class Store(abc.ABC):
    """Remote files. All methods raise StorageError, and StorageNotFoundError where nothing is at the URL."""

    @abc.abstractmethod
    def status(self, url: Url) -> Status:
        """Ask what is at a URL."""

    @abc.abstractmethod
    def entries(self, url: Url) -> list[Entry]:
        """List a folder, sorted by name. Raises NotListableError if the store cannot."""

    @abc.abstractmethod
    def read(self, url: Url, status: Status, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the bytes ``start:end`` of the version that ``status`` describes; start is 0 if it is not resumable.

        Raises StorageChangedError if there is another version now.
        """

    def require_writable(self, url: Url) -> None:
        """Raise StorageError if the store can never be written."""
        raise StorageError(f"{url.scheme}:// can be read only", str(url))

    def write(self, file: Path, url: Url) -> None:
        """Replace what is at a URL by the content of a local file, at once."""
        del file
        self.require_writable(url)

    def copy(self, source: Url, target: Url) -> None:
        """Replace what is at ``target`` by a copy of ``source``, at once."""
        del source
        self.require_writable(target)

    def remove(self, url: Url) -> None:
        """Remove a file; nothing if it is not there."""
        self.require_writable(url)
