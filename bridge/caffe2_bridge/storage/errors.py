"""Errors of remote storage, without the credentials that a URL or a server's message may hold."""

from __future__ import annotations

import errno
import re
from typing import Final

from caffe2_bridge.diagnostics import BridgeError

_LONGEST: Final = 400
_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.-]*"
_URL: Final = re.compile(
    rf"(?P<scheme>{_SCHEME})://(?P<user>[^/?#\s'\"]*@)?(?P<rest>(?:(?!::{_SCHEME}://)[^\s'\"<>])*)"
)
_VALUE: Final = re.compile(r"(?<==)[^&\s]+")


def mask(text: str) -> str:
    """Replace users with their passwords, and the values of query strings, in all URLs of a text by ``***``.

    The container of ``abfs://container@account/...`` stays.
    """
    return _URL.sub(_masked, text)


def _masked(found: re.Match[str]) -> str:
    scheme, user, rest = found["scheme"], found["user"] or "", found["rest"]
    if user and (":" in user or scheme.lower() in {"http", "https"}):
        user = "***@"
    before, question, query = rest.partition("?")
    if question and scheme.lower() in {"http", "https"}:
        query = _VALUE.sub("***", query)
    return f"{scheme}://{user}{before}{question}{query}"


class StorageError(BridgeError, OSError):
    """Remote storage cannot be read or written. Also an OSError; credentials in URLs are masked.

    Attributes:
        reason: what is wrong.
        url: the location, masked.
    """

    def __init__(self, reason: str, url: str, number: int = errno.EIO) -> None:
        self.reason = mask(reason)[:_LONGEST]
        self.url = mask(url)
        super().__init__(number, self.reason, self.url)

    def __str__(self) -> str:
        return f"{self.url}: {self.reason}"


class StorageNotFoundError(StorageError, FileNotFoundError):
    """Nothing is stored at a URL."""

    def __init__(self, reason: str, url: str) -> None:
        super().__init__(reason, url, errno.ENOENT)


class StorageDeniedError(StorageError, PermissionError):
    """The store refuses access, or has no credentials."""

    def __init__(self, reason: str, url: str) -> None:
        super().__init__(reason, url, errno.EACCES)


class StorageFolderError(StorageError, IsADirectoryError):
    """A folder is where a file should be."""

    def __init__(self, reason: str, url: str) -> None:
        super().__init__(reason, url, errno.EISDIR)


class StorageChangedError(StorageError):
    """What is stored at a URL was replaced while it was read."""


class NotListableError(StorageError):
    """A server does not list what a folder holds."""
