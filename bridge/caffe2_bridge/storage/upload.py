"""Upload files so that a reader finds the old ones or the new ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.storage.errors import StorageNotFoundError
from caffe2_bridge.storage.store import Store
from caffe2_bridge.storage.urls import Url

# What is read first, and refers to the other files of a model or a report: written last, in this order.
_LAST: Final = (
    re.compile(r".*(predict|pred|exec)[_.-]?(net)?\.(pb|pbtxt)|.*\.onnx", re.IGNORECASE),
    re.compile(r"CURRENT|index\.html|summary\.json|manifest\.(toml|json|parquet)", re.IGNORECASE),
)

Upload = tuple[Path, Url]


def upload(store: Store, files: Sequence[Upload]) -> None:
    """Replace remote files of one store by local ones.

    What refers to the others comes last, and each is replaced at once. If any other than the last replaces a file, all
    are uploaded under temporary names, and copied to their targets inside of the store when they are complete. If an
    upload fails, the targets are as they were.

    Raises StorageError.
    """
    ordered = sorted(files, key=lambda pair: (_rank(pair[1].name), pair[1].path))
    if any(_exists(store, url) for _, url in ordered[:-1]):
        _exchange(store, ordered)
    else:
        _create(store, ordered)


def _rank(name: str) -> int:
    return next((rank for rank, pattern in enumerate(_LAST, 1) if pattern.fullmatch(name)), 0)


def _exists(store: Store, url: Url) -> bool:
    with suppress(StorageNotFoundError):
        return not store.status(url).is_folder
    return False


def _create(store: Store, files: Sequence[Upload]) -> None:
    """Upload files; those of several that were uploaded before one that fails are removed."""
    written: list[Url] = []
    try:
        for file, url in files:
            store.write(file, url)
            written.append(url)
    except BaseException:
        _discard(store, written)
        raise


def _exchange(store: Store, files: Sequence[Upload]) -> None:
    temporaries = [url.temporary() for _, url in files]
    try:
        for (file, _), temporary in zip(files, temporaries, strict=True):
            store.write(file, temporary)
        for (_, url), temporary in zip(files, temporaries, strict=True):
            store.copy(temporary, url)
    finally:
        _discard(store, temporaries)


def _discard(store: Store, urls: Sequence[Url]) -> None:
    """Remove what was uploaded in vain, as far as the store can be reached."""
    for url in urls:
        with suppress(BridgeError):
            store.remove(url)
