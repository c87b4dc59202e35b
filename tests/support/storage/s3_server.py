"""moto's server with S3's interface in a process of its own.

By hand: ``scripts/storage-server s3``.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SECONDS: Final = 60
SETTINGS: Final = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@contextmanager
def s3_server(*buckets: str) -> Iterator[str]:
    """Run a server with empty buckets for the duration of the context; give its address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(  # noqa: S603 - our own Python
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | SETTINGS
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(process, address)
        for bucket in buckets:
            request = urllib.request.Request(f"{address}/{bucket}", method="PUT")  # noqa: S310 - of our own server
            urllib.request.urlopen(request, timeout=_SECONDS).close()  # noqa: S310 - the same
        yield address
    finally:
        process.terminate()
        process.wait()


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    end = time.monotonic() + _SECONDS
    while True:
        try:
            urllib.request.urlopen(f"{address}/moto-api/", timeout=1).close()  # noqa: S310 - of our own server
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return
