"""Object stores through fsspec: S3, Google Cloud Storage, Azure, the Hugging Face Hub, and memory."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.storage.errors import (
    NotListableError,
    StorageChangedError,
    StorageDeniedError,
    StorageError,
    StorageNotFoundError,
)
from caffe2_bridge.storage.retries import TransientError, repeated
from caffe2_bridge.storage.store import Entry, Status, Store
from caffe2_bridge.storage.urls import Url

_CHUNK: Final = 1 << 24  # bytes of one request
_ATTEMPTS: Final = 2  # each of which the file system repeats by its own rules
_PACKAGES: Final = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs",
    "hf": "huggingface_hub", "memory": "fsspec",
}  # fmt: skip
# What stores call that which changes with the content.
_TAGS: Final = ("ETag", "etag", "generation", "md5Hash", "blob_id", "oid")
_TIMES: Final = ("LastModified", "last_modified", "updated", "mtime", "created")
_FINAL: Final = (ValueError, TypeError, NotImplementedError, AttributeError, LookupError)
# Replaces an object in one step; the others are written under a temporary name first.
_ATOMIC: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hf"})


class FsspecStore(Store):
    """A file system of fsspec, which takes its settings and credentials from the environment, as its documents say."""

    def status(self, url: Url) -> Status:
        """Ask for the status of an object, or of a prefix that objects have."""
        return repeated(lambda: self._status(url), _ATTEMPTS)

    def _status(self, url: Url) -> Status:
        with _errors(url):
            files, path = _open(url)
            files.invalidate_cache()
            info = files.info(path)
        if info.get("type") == "directory":
            return Status(is_folder=True)
        size = info.get("size")
        tags = [f"{name}={info[name]}" for name in (*_TAGS, *_TIMES) if info.get(name)]
        version = ";".join([*tags, f"size={size}"]) if tags else ""
        times = [info[name].timestamp() for name in _TIMES if hasattr(info.get(name), "timestamp")]
        return Status(
            is_folder=False, size=None if size is None else int(size), version=version,
            resumable=bool(version) and size is not None, modified=times[0] if times else 0.0,
        )  # fmt: skip

    def entries(self, url: Url) -> list[Entry]:
        """List the objects and prefixes below a prefix."""
        try:
            return repeated(lambda: self._entries(url), _ATTEMPTS)
        except StorageDeniedError as error:  # the rights to read and to list are separate ones
            raise NotListableError(error.reason, str(url)) from None

    def _entries(self, url: Url) -> list[Entry]:
        with _errors(url):
            files, path = _open(url)
            files.invalidate_cache()
            infos = files.ls(path, detail=True)
        found = {}
        for info in infos:
            whole = str(info["name"]).rstrip("/")
            name = whole.rpartition("/")[2]
            if name and whole != path.rstrip("/"):
                found[name] = Entry(name, info.get("type") == "directory")
        return [found[name] for name in sorted(found)]

    def read(self, url: Url, status: Status, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield ranges of an object; the version is compared after the last one."""
        if status.size is None:
            raise StorageError("the store does not state the size of the object", str(url))
        with _errors(url):
            files, path = _open(url)
        stop = status.size if end is None else min(end, status.size)
        for first in range(start, stop, _CHUNK):
            last = min(first + _CHUNK, stop)
            with _errors(url):
                data = files.cat_file(path, start=first, end=last)
            if len(data) != last - first:
                raise self._short(url, status)
            yield data
        if end is None and self._status(url).version != status.version:
            raise StorageChangedError("the object was replaced while it was read", str(url))

    def _short(self, url: Url, status: Status) -> StorageError:
        if self._status(url).version != status.version:
            return StorageChangedError("the object was replaced while it was read", str(url))
        return TransientError("the connection was cut", str(url))

    def require_writable(self, url: Url) -> None:
        """Require the package of the store."""
        _open(url)

    def write(self, file: Path, url: Url) -> None:
        """Upload a file: a single request, or several parts that become visible together."""
        repeated(lambda: self._write(file, url), _ATTEMPTS)

    def _write(self, file: Path, url: Url) -> None:
        files, path = _open(url)
        if url.scheme in _ATOMIC:
            with _errors(url):
                files.put_file(str(file), path)
                return
        temporary = _open(url.temporary())[1]
        with _errors(url):
            try:
                files.put_file(str(file), temporary)
                files.cp_file(temporary, path)
            finally:
                with suppress(FileNotFoundError):
                    files.rm_file(temporary)

    def copy(self, source: Url, target: Url) -> None:
        """Copy an object inside of the store."""

        def run() -> None:
            with _errors(target):
                files, path = _open(target)
                files.cp_file(_open(source)[1], path)

        repeated(run, _ATTEMPTS)

    def remove(self, url: Url) -> None:
        """Remove an object."""

        def run() -> None:
            with _errors(url):
                files, path = _open(url)
                files.rm_file(path)

        with suppress(StorageNotFoundError):
            repeated(run, _ATTEMPTS)


def _open(url: Url) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it. Raises BridgeError if a package is not installed."""
    try:
        fsspec = importlib.import_module("fsspec")
        kind = fsspec.get_filesystem_class(url.scheme)
    except ImportError as error:
        raise _missing(url, error) from None
    options = kind._get_kwargs_from_urls(url.text)  # noqa: SLF001 - what fsspec.core.url_to_fs does, without its chains
    return kind(**options, use_listings_cache=False), kind._strip_protocol(url.text)  # noqa: SLF001 - the same


def _missing(url: Url, error: ImportError) -> BridgeError:
    package = _PACKAGES[url.scheme]
    return BridgeError(
        f"{url}: URLs of {url.scheme}:// require the package {package}: pip install 'caffe2-bridge[remote]' ({error})"
    )


@contextmanager
def _errors(url: Url) -> Iterator[None]:
    """Turn whatever a file system raises into StorageErrors: those that may not repeat into TransientErrors."""
    try:
        yield
    except (BridgeError, GeneratorExit):
        raise
    except FileNotFoundError:
        raise StorageNotFoundError("the object does not exist", str(url)) from None
    except PermissionError as error:
        raise StorageDeniedError(f"access is denied: {_text(error)}", str(url)) from None
    except ImportError as error:
        raise _missing(url, error) from None
    except _FINAL as error:
        raise StorageError(f"the request failed: {_text(error)}", str(url)) from None
    except Exception as error:  # noqa: BLE001 - each of fsspec's file systems raises the errors of its own library
        if re.search("credential|authentication", type(error).__name__, re.IGNORECASE):
            raise StorageDeniedError(f"the store has no valid credentials: {_text(error)}", str(url)) from None
        raise TransientError(f"the request failed: {_text(error)}", str(url)) from None


def _text(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__
