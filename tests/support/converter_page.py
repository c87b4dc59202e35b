"""A web server with the page that converts in the browser, as scripts/docs writes it, for tests.

What Pyodide would answer is answered by the same functions in this Python: the page loads ``stand_in_worker.js`` in
place of ``python.js``. onnxruntime-web, and Pyodide itself, are those that Node.js finds.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any, ClassVar, Final

from documentation.converter import write_converter

from caffe2_cli import browser

_STAND_IN: Final = Path(__file__).with_name("stand_in_worker.js")


def node_package(name: str, folder: str = "") -> Path | None:
    """Return a folder of a package of Node.js on NODE_PATH; None if it is not there."""
    roots = map(Path, filter(None, os.environ.get("NODE_PATH", "").split(os.pathsep)))
    return next((root / name / folder for root in roots if (root / name / folder).is_dir()), None)


@contextmanager
def served(folder: Path, *, stand_in: bool = True, packages: dict[str, Path] | None = None) -> Iterator[str]:
    """Write the page into a folder, and serve it; yield its address.

    Args:
        folder: where to write.
        stand_in: whether this Python answers, and not Pyodide.
        packages: folders that are served, too, by the names of the settings' locations.
    """
    packages = packages or {}
    write_converter(folder, {name: f"{name}/" for name in packages} | {"documentation": "https://docs.example/"})
    for name, path in packages.items():
        (folder / name).symlink_to(path)
    if stand_in:
        (folder / "python.js").write_bytes(_STAND_IN.read_bytes())
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/index.html"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(SimpleHTTPRequestHandler):
    lock: ClassVar = Lock()  # a worker, too, answers one question after the other
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript", ".wasm": "application/wasm",
    }  # fmt: skip

    def do_POST(self) -> None:
        """Answer ``door/NAME``, whose body is a list of the arguments."""
        values = json.loads(self.rfile.read(int(self.headers["Content-Length"])), object_hook=_unpacked)
        with self.lock:
            answer = getattr(browser, self.path.rpartition("/")[2])(*values)
        body = json.dumps(answer, default=lambda data: {"bytes": base64.b64encode(data).decode()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


def _unpacked(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["bytes"]) if value.keys() == {"bytes"} else value
