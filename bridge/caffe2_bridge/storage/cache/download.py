"""Download a version of a remote file, resumed where the connection was cut."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from caffe2_bridge.storage.errors import StorageChangedError
from caffe2_bridge.storage.retries import ATTEMPTS, TransientError, gave_up, pause
from caffe2_bridge.storage.store import Status, Store
from caffe2_bridge.storage.urls import Url

_CHANGES: Final = 3  # of the file, while it is downloaded
_PROGRESS: Final = 1 << 20  # bytes after which a cut connection counts as the first one again


def download(store: Store, url: Url, status: Status, part: Path) -> Status:
    """Download a file to ``part``, which may hold the first bytes of this version; return the version's status.

    Raises StorageError if the connection is cut again and again, or the file is replaced again and again.
    """
    for _ in range(_CHANGES):
        try:
            _complete(store, url, status, part)
        except StorageChangedError as error:
            changed = error
            part.unlink(missing_ok=True)
            status = store.status(url)
        else:
            return status
    part.unlink(missing_ok=True)
    raise changed


def _complete(store: Store, url: Url, status: Status, part: Path) -> None:
    failures, mark = 0, 0
    while True:
        try:
            _append(store, url, status, part)
        except TransientError as error:
            size = part.stat().st_size if part.exists() else 0
            failures = 1 if status.resumable and size - mark >= _PROGRESS else failures + 1
            mark = size if failures == 1 else mark
            if failures == ATTEMPTS:
                raise gave_up(error, failures) from None
            pause(failures)
        else:
            return


def _append(store: Store, url: Url, status: Status, part: Path) -> None:
    """Read what is missing, or all of a file that is not resumable."""
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab") as file:
        start = file.tell()
        if start and (not status.resumable or status.size is None or start > status.size):
            file.truncate(0)
            start = 0
        if start == 0 or start != status.size:
            for data in store.read(url, status, start):
                file.write(data)
        size = file.tell()
    if status.size is not None and size != status.size:
        part.unlink()
        raise TransientError(f"the server sent {size:,} bytes of {status.size:,}", str(url))
