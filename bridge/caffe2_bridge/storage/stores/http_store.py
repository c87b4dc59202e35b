"""Files on web servers: read by ranges where the server supports them, as a whole elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit

from caffe2_bridge.storage.errors import NotListableError, StorageChangedError, StorageDeniedError, StorageNotFoundError
from caffe2_bridge.storage.retries import TransientError, repeated
from caffe2_bridge.storage.store import Entry, Status, Store
from caffe2_bridge.storage.stores.http_requests import http_errors, requested
from caffe2_bridge.storage.urls import Url

_PARTIAL: Final = 206
_RANGE_REFUSED: Final = 416
_PIECE: Final = 1 << 20  # bytes
_PAGE: Final = 1 << 24  # bytes of a list of files
_RANGE: Final = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


class HttpStore(Store):
    """A web server. A URL that ends with a slash, or that the server redirects to one, is a folder."""

    def status(self, url: Url) -> Status:
        """Ask for the first byte, which signed URLs allow where they do not allow HEAD requests."""
        return repeated(lambda: self._status(url))

    def _status(self, url: Url) -> Status:
        if not url.path or url.path.endswith("/"):
            return Status(is_folder=True)
        with requested(url, {"Range": "bytes=0-0"}) as response:
            if urlsplit(response.geturl()).path.endswith("/") and "html" in response.headers.get("Content-Type", ""):
                return Status(is_folder=True)
            partial = response.status == _PARTIAL
            size = _total(response)
            version = _version(response, size)
            return Status(
                is_folder=False, size=size, version=version, modified=_modified(response),
                resumable=partial and size is not None and bool(_validator(response)),
            )  # fmt: skip

    def entries(self, url: Url) -> list[Entry]:
        """List what the server's page about a folder links to in that folder."""
        return repeated(lambda: self._entries(url))

    def _entries(self, url: Url) -> list[Entry]:
        try:
            with requested(url, {}) as response:
                if "html" not in response.headers.get("Content-Type", ""):
                    raise NotListableError("the server does not list the files of the folder", str(url))
                address = response.geturl()
                with http_errors(url):
                    page = response.read(_PAGE).decode("utf-8", "replace")
        except (StorageNotFoundError, StorageDeniedError) as error:
            raise NotListableError(
                f"the server does not list the files of the folder: {error.reason}", str(url)
            ) from None
        links = _Links()
        links.feed(page)
        found = {entry.name: entry for link in links.found if (entry := _entry(address, link)) is not None}
        return [found[name] for name in sorted(found)]

    def read(self, url: Url, status: Status, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield a range; it is of the version of ``status``, or the server sends all of the new version."""
        asked = {}
        if start or end is not None:
            asked["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
            asked["If-Range"] = status.version.partition("\n")[0]
        with requested(url, asked) as response:
            if not _is_version(response, status) or (asked and _first(response) != start):
                raise StorageChangedError("the file was replaced while it was read", str(url))
            wanted = _stated(response)
            count = 0
            while True:
                with http_errors(url):
                    data = response.read(_PIECE)
                if not data:
                    break
                count += len(data)
                yield data
            if wanted is not None and count < wanted:
                raise TransientError(f"the connection was cut after {count:,} of {wanted:,} bytes", str(url))


def _is_version(response: Any, status: Status) -> bool:
    """Whether a response has the content that ``status`` describes; its size is not stated by all responses."""
    size = _total(response)
    found = _version(response, size).rpartition("\n")[0]
    return found == status.version.rpartition("\n")[0] and (size is None or status.size in {None, size})


def _first(response: Any) -> int | None:
    """Return the position of the first byte of a partial response; None if it is another response."""
    found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    return int(found[1]) if response.status == _PARTIAL and found is not None and found[1] else None


def _stated(response: Any) -> int | None:
    """Return the bytes of the body; None if the server does not state it."""
    text = response.headers.get("Content-Length", "")
    return int(text) if text.isascii() and text.isdigit() else None


def _total(response: Any) -> int | None:
    """Return the bytes of the whole file."""
    found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if found is not None:
        return None if found[3] == "*" else int(found[3])
    return None if response.status == _RANGE_REFUSED else _stated(response)


def _validator(response: Any) -> str:
    """Return what identifies the exact bytes of a version, for If-Range; empty if the server sends none."""
    tag = response.headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else "" if tag else response.headers.get("Last-Modified", "")


def _version(response: Any, size: int | None) -> str:
    """Return the validator, and what else changes with the content."""
    tag, time = response.headers.get("ETag", ""), response.headers.get("Last-Modified", "")
    return "\n".join([_validator(response), tag, time, str(size)]) if tag or time else ""


def _modified(response: Any) -> float:
    try:
        return parsedate_to_datetime(response.headers.get("Last-Modified", "")).timestamp()
    except (ValueError, TypeError, OverflowError):
        return 0.0


class _Links(HTMLParser):
    """Collect the targets of a page's links."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the target of a link."""
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def _entry(address: str, link: str) -> Entry | None:
    """Return the file or folder that a link of a folder's page leads to; None if it is not in that folder."""
    folder, target = urlsplit(address), urlsplit(urljoin(address, link))
    if (target.scheme, target.netloc) != (folder.scheme, folder.netloc) or target.query:
        return None
    base = folder.path.rpartition("/")[0] + "/"
    name = unquote(target.path.removeprefix(base))
    if not target.path.startswith(base) or not name.rstrip("/") or "/" in name.rstrip("/"):
        return None
    return Entry(name.rstrip("/"), name.endswith("/"))
