"""The door of all functions that take a path: a URL works, too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.storage.publish import AnyPath
from caffe2_bridge.storage.remote_path import RemotePath
from caffe2_bridge.storage.urls import is_url, require_path

Location: TypeAlias = str | os.PathLike[str]


def locate(location: Location) -> AnyPath:
    """Return what a path or the text of a URL names: a local path, or a remote one with its methods.

    Raises OptionError if the URL's scheme is not accepted.
    """
    if isinstance(location, RemotePath | Path):
        if isinstance(location, Path):
            require_path(location)
        return location
    return RemotePath(location) if isinstance(location, str) and is_url(location) else Path(location)


def source_path(source: str) -> AnyPath | None:
    """Return the location in ``Model.source``; None for one whose credentials were left out, or that is no location."""
    with suppress(OptionError):
        return None if is_url(source) and "***" in source else locate(source)
    return None


def walk(folder: AnyPath) -> Iterator[tuple[AnyPath, list[AnyPath]]]:
    """Yield a folder with its files, and then those below it, sorted by name; hidden files and folders are left out.

    Raises OSError, which a StorageError is, if a folder cannot be listed.
    """
    children = sorted(child for child in folder.iterdir() if not child.name.startswith("."))
    yield folder, [child for child in children if child.is_file()]
    for child in children:
        if child.is_dir() and not child.is_symlink():
            yield from walk(child)
