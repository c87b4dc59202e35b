"""A proxy on loopback that cuts connections in the middle."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_PIECE = 1 << 14


@dataclass
class Cuts:
    """When connections are cut.

    Attributes:
        down: after how many bytes from the server each of the next connections is cut; None: not.
        up: the same of bytes from the client.
        count: the connections that were cut so far.
    """

    down: list[int | None] = field(default_factory=list)
    up: list[int | None] = field(default_factory=list)
    count: int = 0


@contextmanager
def cutting_proxy(address: str, cuts: Cuts) -> Iterator[str]:
    """Forward connections to a server for the duration of the context; give the proxy's address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = urlsplit(address)

    def accept() -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                client = listener.accept()[0]
                origin = socket.create_connection((str(server.hostname), int(server.port or 80)))
                for source, target, limits in ((client, origin, cuts.up), (origin, client, cuts.down)):
                    limit = limits.pop(0) if limits else None
                    threading.Thread(target=_forward, args=(source, target, limit, cuts), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def _forward(source: socket.socket, target: socket.socket, limit: int | None, cuts: Cuts) -> None:
    left = limit
    with suppress(OSError):
        while data := source.recv(_PIECE if left is None else min(_PIECE, left)):
            target.sendall(data)
            if left is not None:
                left -= len(data)
                if not left:
                    cuts.count += 1
                    break
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
