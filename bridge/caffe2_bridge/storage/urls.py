"""The URLs that are accepted wherever a path is.

``zip://MEMBER::ARCHIVE`` is a member of an archive that is a local path or another URL. All others are one store's:
nothing else is chained, and a scheme that is not listed is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.storage.errors import mask
from caffe2_bridge.storage.temporary_names import temporary_name

HTTP: Final = frozenset({"http", "https"})
OBJECTS: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "hf", "memory"})
ZIP: Final = "zip"
_SCHEMES: Final = HTTP | OBJECTS | {ZIP}
_ROOTLESS: Final = frozenset({"hf", "memory", ZIP})  # whose URLs begin with the path
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_SERVER: Final = re.compile(r"[^\s:/?#@\[\]\x00-\x1f]+(:\d*)?|\[[0-9A-Fa-f:.]+\](:\d*)?")
_COLLAPSED: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/[^/]")
# Parameters of signed URLs: they change from one signature to the next of the same content.
_SIGNATURES: Final = re.compile(
    r"x-(amz|goog)-.*|awsaccesskeyid|googleaccessid|signature|expires|policy|key-pair-id|token|"
    r"s[abceiprtv]|s[kp]r?|sig|spr|srt|ske|sks|skt|skv|skoid|sktid",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Url:
    """A URL, taken apart.

    Attributes:
        scheme: in lower case.
        root: the bucket, the server with the user and password, or the container; empty for schemes without one.
        path: without the leading slash; that of a folder of a web server ends with one. Quoted as in the URL.
        query: of a web server's URL, with the question mark.
        archive: of a ``zip`` URL, the archive.
    """

    scheme: str
    root: str
    path: str
    query: str = ""
    archive: Url | Path | None = None

    @property
    def text(self) -> str:
        """The URL, with its credentials."""
        if self.scheme == ZIP:
            archive = self.archive.text if isinstance(self.archive, Url) else os.fspath(self.archive or "")
            return f"{ZIP}://{self.path}::{archive}"
        separator = "" if self.scheme in _ROOTLESS else "/"
        return f"{self.scheme}://{self.root}{separator}{self.path}{self.query}"

    def __str__(self) -> str:
        """Return the URL, without its credentials."""
        return mask(self.text)

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"

    @property
    def key(self) -> str:
        """What stands for the content in the cache: a digest of the URL without credentials and signatures."""
        if self.scheme == ZIP:
            inner = self.archive.key if isinstance(self.archive, Url) else str(Path(self.archive or "").absolute())
            text = f"{ZIP}://{self.path}::{inner}"
        else:
            root = self.root.rpartition("@")[2] if self.scheme in HTTP else self.root
            text = f"{self.scheme}://{root}/{self.path}{_unsigned(self.query)}"
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]

    @property
    def name(self) -> str:
        """The last part of the path, as text; empty at the root."""
        name = self.path.rstrip("/").rpartition("/")[2]
        return unquote(name) if self.scheme in HTTP else name

    @property
    def parent(self) -> Url:
        """The folder; the root is its own."""
        folder, slash, _ = self.path.rstrip("/").rpartition("/")
        return replace(self, path=folder + slash if self.scheme in HTTP else folder)

    def temporary(self) -> Url:
        """Return a new URL in the same folder, whose name is hidden from those who look for models."""
        name = self.path.rpartition("/")[2]
        return replace(self, path=f"{self.path[: len(self.path) - len(name)]}{temporary_name(name)}")

    def child(self, name: str) -> Url:
        """Return a file or folder in this folder: ``name`` is relative. Raises ValueError if it leaves the folder."""
        if not is_inside(name):
            raise ValueError(f"{name!r} is not a relative path inside of the folder")
        path = quote(name, safe="/") if self.scheme in HTTP else name
        folder = self.path.rstrip("/")
        return replace(self, path=f"{folder}/{path}" if folder else path)


def _unsigned(query: str) -> str:
    parts = [part for part in query.removeprefix("?").split("&") if part]
    return "&".join(["?", *(part for part in parts if not _SIGNATURES.fullmatch(part.partition("=")[0]))])


def is_inside(name: str) -> bool:
    """Whether a relative path stays inside of its folder on every system."""
    parts = name.replace("\\", "/").split("/")
    return bool(name) and "\\" not in name and "\0" not in name and not {"", ".", ".."}.intersection(parts)


def is_url(location: object) -> bool:
    """Whether a location is the text of a URL, of an accepted scheme or not, rather than a path."""
    return isinstance(location, str) and _URL.match(location) is not None


def require_path(path: os.PathLike[str]) -> None:
    """Raise OptionError for a path object made of a URL: it lost a slash, and cannot be what was meant."""
    found = _COLLAPSED.match(os.fspath(path))
    if found is not None and found[1].lower() in _SCHEMES and not os.path.lexists(path):
        raise OptionError(f"{mask(os.fspath(path))}: a path object cannot hold a URL: pass the URL as text")


def parse(text: str) -> Url:
    """Take a URL apart. Raises OptionError if its scheme is not accepted, or it is not spelled as one."""
    found = _URL.match(text)
    scheme = found[1].lower() if found else ""
    if found is None or scheme not in _SCHEMES:
        hint = "give a local file by its path" if scheme in {"file", "local"} else f"use one of {_listed()}"
        raise OptionError(f"{mask(text)}: URLs of the scheme {scheme!r} are not read; {hint}")
    if "\0" in text:
        raise OptionError(f"{mask(text)!r} is not a URL")
    rest = text[found.end() :]
    if scheme == ZIP:
        return _parse_zip(rest, text)
    if "::" in rest and scheme not in HTTP:
        raise OptionError(f"{mask(text)}: only zip://MEMBER::ARCHIVE joins two locations by '::'")
    if scheme in HTTP:
        return _parse_http(scheme, rest)
    if scheme in _ROOTLESS:
        return Url(scheme, "", rest.strip("/"))
    root, _, path = rest.partition("/")
    if not root:
        raise OptionError(f"{mask(text)}: the URL names no bucket or container")
    return Url(scheme, root, path.strip("/"))


def _listed() -> str:
    return ", ".join(f"{scheme}://" for scheme in sorted(_SCHEMES))


def _parse_http(scheme: str, rest: str) -> Url:
    address = rest.partition("#")[0]
    location, question, query = address.partition("?")
    root, _, path = location.partition("/")
    if not _SERVER.fullmatch(root.rpartition("@")[2]):
        raise OptionError(f"{scheme}://***: the URL names no server; write '/' and '@' in a password as %2F and %40")
    return Url(scheme, root, quote(path, safe="/%!$&'()*+,;=:@~"), question + quote(query, safe="/%!$&'()*+,;=:@~?"))


def _parse_zip(rest: str, text: str) -> Url:
    member, separator, archive = rest.partition("::")
    if not separator or not archive:
        raise OptionError(f"{mask(text)}: give the archive: zip://MEMBER::ARCHIVE")
    member = member.strip("/")
    if member and not is_inside(member):
        raise OptionError(f"{mask(text)}: {member!r} is not the name of a member")
    inner = parse(archive) if is_url(archive) else Path(archive)
    if isinstance(inner, Url) and inner.scheme == ZIP:
        raise OptionError(f"{mask(text)}: an archive inside of an archive is not read; unpack the outer one")
    return Url(ZIP, "", member, archive=inner)
