"""Temporary folders in the cache; those of processes that were killed are removed by the next."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from caffe2_bridge.storage.cache.settings import private_folder
from caffe2_bridge.storage.temporaries import remove_abandoned, temporary_folder


@contextmanager
def staged() -> Iterator[Path]:
    """Yield an empty folder for files that are to be uploaded. Raises OSError if it cannot be made."""
    target = private_folder() / "staged"
    remove_abandoned(target)
    with temporary_folder(target) as folder:
        inner = folder / "files"  # the outer one is locked
        inner.mkdir()
        yield inner


def link(file: Path, target: Path) -> None:
    """Make a symbolic link to a local copy, or a copy of it where the system has no links. Raises OSError."""
    try:
        target.symlink_to(file)
    except (OSError, NotImplementedError):
        shutil.copyfile(file, target)
