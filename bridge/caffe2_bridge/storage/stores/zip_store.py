"""Members of zip archives, local or remote; of a remote one the list and the member alone are read."""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from caffe2_bridge.bounds import refusal_to_unpack
from caffe2_bridge.regular_file import open_regular
from caffe2_bridge.storage.cache.fetch import fetched
from caffe2_bridge.storage.errors import StorageError, StorageFolderError, StorageNotFoundError
from caffe2_bridge.storage.store import Entry, Status, Store
from caffe2_bridge.storage.stores.ranged_file import RangedFile
from caffe2_bridge.storage.urls import Url, is_inside

_PIECE: Final = 1 << 20
_MALFORMED: Final = (
    zipfile.BadZipFile, zlib.error, EOFError, ValueError, LookupError, RuntimeError, NotImplementedError, OverflowError,
    MemoryError,
)  # fmt: skip


@dataclass(frozen=True)
class _Archive:
    """An open archive, and what changes with its content."""

    file: zipfile.ZipFile
    version: str


class ZipStore(Store):
    """A zip archive.

    Args:
        outer: the store of a remote archive; None for a local one.
    """

    def __init__(self, outer: Store | None) -> None:
        self._outer = outer

    def status(self, url: Url) -> Status:
        """Look a member up."""
        with self._opened(url) as archive:
            member = _members(archive, url).get(url.path)
            if member is None:
                return self._folder_status(archive, url)
            version = f"{archive.version};crc={member.CRC};size={member.file_size}" if archive.version else ""
            return Status(is_folder=False, size=member.file_size, version=version)

    def _folder_status(self, archive: _Archive, url: Url) -> Status:
        if url.path and not any(name.startswith(f"{url.path}/") for name in _members(archive, url)):
            raise StorageNotFoundError("the archive has no such member", str(url))
        return Status(is_folder=True)

    def entries(self, url: Url) -> list[Entry]:
        """List the members of a folder."""
        start = f"{url.path}/" if url.path else ""
        found: dict[str, Entry] = {}
        with self._opened(url) as archive:
            for path in _members(archive, url):
                if path.startswith(start):
                    name, slash, _ = path.removeprefix(start).partition("/")
                    found[name] = Entry(name, bool(slash))
        return [found[name] for name in sorted(found)]

    def read(self, url: Url, status: Status, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield a member; its checksum is verified."""
        del status, start, end
        with self._opened(url) as archive:
            member = _members(archive, url).get(url.path)
            if member is None:
                raise StorageNotFoundError("the archive has no such member", str(url))
            refusal = refusal_to_unpack(member.file_size, member.compress_size)
            if refusal:
                raise StorageError(refusal, str(url))
            with _errors(url), archive.file.open(member) as stream:
                while data := stream.read(_PIECE):
                    yield data

    @contextmanager
    def _opened(self, url: Url) -> Iterator[_Archive]:
        """Open the archive of a member's URL."""
        with ExitStack() as stack, _errors(url):
            stream, version = self._stream(url, stack)
            yield _Archive(stack.enter_context(zipfile.ZipFile(stream)), version)

    def _stream(self, url: Url, stack: ExitStack) -> tuple[IO[bytes], str]:
        if isinstance(url.archive, Url):
            assert self._outer is not None
            status = self._outer.status(url.archive)
            if status.is_folder:
                raise StorageFolderError("a folder is not an archive", str(url))
            if status.resumable and status.size is not None:
                raw = RangedFile(self._outer, url.archive, status)
                return stack.enter_context(io.BufferedReader(raw, _PIECE)), status.version
            held = stack.enter_context(fetched(self._outer, url.archive))
            return stack.enter_context(open_regular(held)), status.version
        path = Path(url.archive or "")
        try:
            file = stack.enter_context(open_regular(path))
            found = path.stat()
        except FileNotFoundError:
            raise StorageNotFoundError("the archive does not exist", str(url)) from None
        except OSError as error:
            raise StorageError(f"the archive cannot be read: {error.strerror or error}", str(url)) from None
        return file, f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"


def _members(archive: _Archive, url: Url) -> dict[str, zipfile.ZipInfo]:
    """Return the regular members inside of the archive, by name. Raises StorageError if the one asked for is a link."""
    found = {}
    for info in archive.file.infolist():
        name = info.filename.rstrip("/")
        if name == url.path and stat.S_ISLNK(info.external_attr >> 16):
            raise StorageError("the member is a link", str(url))
        if not info.is_dir() and is_inside(name) and not stat.S_ISLNK(info.external_attr >> 16):
            found[name] = info
    return found


@contextmanager
def _errors(url: Url) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"the archive cannot be read: {error.strerror or error}", str(url)) from None
    except _MALFORMED as error:
        raise StorageError(f"the archive is not a zip file, or damaged: {error}", str(url)) from None
