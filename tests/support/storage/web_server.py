"""A web server of files in memory, whose connections can be cut, and which need not know ranges or versions.

By hand, on the files of a folder: ``scripts/storage-server http FOLDER``.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

_RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass
class Site:
    """What a server serves, and how.

    Attributes:
        files: the contents, by path without the leading slash.
        ranges: whether a part of a file can be asked for.
        tags: whether responses have an entity tag.
        lists: whether there is a page for each folder.
        claims: the sizes that are claimed of files, by path, which end after their content nevertheless.
        endless: what is repeated without an end, by path, in responses without a length.
        cuts: after how many bytes of its body each of the next responses of more than one byte is cut; None: not.
        statuses: the status of each of the next responses, instead of the file.
        redirects: where paths are redirected to.
        password: ``user:password`` that is asked for; empty for none.
        requests: the method, path and range of the requests so far.
        sent: how many bytes of files were sent.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    tags: bool = True
    lists: bool = True
    claims: dict[str, int] = field(default_factory=dict)
    endless: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int | None] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    redirects: dict[str, str] = field(default_factory=dict)
    password: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    sent: int = 0
    url: str = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def do_GET(self) -> None:
        site, path = self.site, unquote(urlsplit(self.path).path).lstrip("/")
        asked = self.headers.get("Range", "")
        site.requests.append((path, asked))
        site.headers.append(dict(self.headers))
        if site.statuses:
            self._answer(site.statuses.pop(0), b"")
        elif path in site.redirects:
            self._answer(302, b"", Location=site.redirects[path])
        elif site.password and self.headers.get("Authorization") != site.password:
            self._answer(401, b"")
        elif path in site.endless:
            self._repeat(site.endless[path])
        elif path in site.files:
            self._file(path, asked)
        elif (not path or path.endswith("/")) and site.lists:
            self._page(path)
        else:
            self._answer(404, b"")

    def _repeat(self, content: bytes) -> None:
        self.close_connection = True
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):  # the client did not want all of it
            while True:
                self.wfile.write(content)

    def _file(self, path: str, asked: str) -> None:
        content, claimed = self.site.files[path], self.site.claims.get(path)
        tag = f'"{md5(content, usedforsecurity=False).hexdigest()}"'
        headers = {"ETag": tag} if self.site.tags else {}
        found = _RANGE.fullmatch(asked)
        expected = self.headers.get("If-Range", tag)
        if claimed is not None:
            self.close_connection = True
            self._answer(200, content, **{"Content-Length": str(claimed)}, **headers)
            return
        if found is None or not self.site.ranges or expected != tag:
            self._answer(200, content, **headers)
            return
        start, end = int(found[1]), min(int(found[2] or len(content) - 1) + 1, len(content))
        if start >= len(content):
            self._answer(416, b"", **{"Content-Range": f"bytes */{len(content)}"}, **headers)
            return
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
        self._answer(206, content[start:end], **headers)

    def _page(self, folder: str) -> None:
        below = {path.removeprefix(folder) for path in self.site.files if path.startswith(folder)}
        names = sorted({name.partition("/")[0] + ("/" if "/" in name else "") for name in below})
        links = "".join(f'<a href="{name}">{name}</a>' for name in ("../", "/", "https://elsewhere.org/x", *names))
        self._answer(200 if names else 404, links.encode(), **{"Content-Type": "text/html"})

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        cut = self.site.cuts.pop(0) if self.site.cuts and len(body) > 1 else None
        if status in {200, 206}:
            self.site.sent += len(body[:cut])  # before a client can have all of it, and look
        try:
            self.wfile.write(body[:cut])
            self.wfile.flush()
        except OSError:  # the client did not want all of it
            self.close_connection = True
            return
        if cut is not None:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass


@contextmanager
def serving(site: Site, port: int = 0) -> Iterator[Site]:
    """Serve a site on loopback for the duration of the context; ``site.url`` is its address."""
    handler = type("Handler", (_Handler,), {"site": site})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def paths(site: Site) -> Sequence[str]:
    """Return the paths that were asked for."""
    return [path for path, _ in site.requests]


def main(folder: str, port: int) -> None:
    """Serve the files of a folder, as they are now, until the process is interrupted."""
    root = Path(folder)
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with serving(Site(files), port) as site, suppress(KeyboardInterrupt):
        sys.stdout.write(f"{site.url}/ serves {len(files)} files of {root}; Ctrl-C ends\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
