"""Temporary folders in the cache; those of processes that were killed are removed by the next."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from caffe2_bridge.storage.settings import private_folder
from caffe2_bridge.storage.temporaries import remove_abandoned, temporary_folder


@contextmanager
def staged() -> Iterator[Path]:
    """An empty folder for files that are to be uploaded. Raises OSError if it cannot be made."""
    target = private_folder() / "staged"
    remove_abandoned(target)
    with temporary_folder(target) as folder:
        yield folder


@contextmanager
def linked(copies: Mapping[str, Path]) -> Iterator[Path]:
    """A folder with files of these names: links to the cached ones, or copies. Raises OSError."""
    with staged() as folder:
        for name, file in copies.items():
            try:
                os.link(file, folder / name)
            except OSError:  # a file system without links
                shutil.copyfile(file, folder / name)
        yield folder
