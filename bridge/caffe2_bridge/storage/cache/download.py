"""Download a version of a remote file, resumed where the connection was cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from caffe2_bridge.storage.cache.room import Room
from caffe2_bridge.storage.errors import StorageChangedError
from caffe2_bridge.storage.retries import ATTEMPTS, TransientError, gave_up, pause
from caffe2_bridge.storage.store import Status, Store
from caffe2_bridge.storage.urls import Url

_CHANGES: Final = 3  # of the file, while it is downloaded


def download(
    store: Store, url: Url, status: Status, part_of: Callable[[Status], Path], keep: Path
) -> tuple[Status, Path]:
    """Download a file to a part, which may hold the first bytes of its version; return the version's status and part.

    Args:
        store: the store of the file.
        url: the file.
        status: that of the file.
        part_of: gives the part of a version.
        keep: see Room.

    Raises StorageError if the file never fits, the connection is cut again and again, or the file is replaced again and
    again; OSError.
    """
    for _ in range(_CHANGES):
        part = part_of(status)
        try:
            _complete(store, url, status, part, Room(url, status.size, keep))
        except StorageChangedError as error:
            changed = error
            part.unlink(missing_ok=True)
            status = store.status(url)
        else:
            return status, part
    raise changed


def _complete(store: Store, url: Url, status: Status, part: Path, room: Room) -> None:
    failures, size = 0, 0
    while True:
        try:
            _append(store, url, status, part, room)
        except TransientError as error:
            before, size = size, part.stat().st_size if part.exists() else 0
            failures = 1 if status.resumable and size > before else failures + 1
            if failures == ATTEMPTS:
                raise gave_up(error, failures) from None
            pause(failures)
        else:
            return


def _append(store: Store, url: Url, status: Status, part: Path, room: Room) -> None:
    """Read what is missing, or all of a file that is not resumable. What does not fit is removed."""
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab") as file:
        start = file.tell()
        if start and (not status.resumable or status.size is None or start > status.size):
            file.truncate(0)
            start = 0
        if start == 0 or start != status.size:
            for data in store.read(url, status, start):
                try:
                    room.take(file.tell(), len(data))
                except OSError:
                    file.truncate(0)
                    raise
                file.write(data)
        size = file.tell()
    if status.size is not None and size != status.size:
        part.unlink()
        raise TransientError(f"the server sent {size:,} bytes of {status.size:,}", str(url))
