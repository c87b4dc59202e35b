"""Write files to a path or a URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from caffe2_bridge.storage.remote_path import RemotePath
from caffe2_bridge.storage.staging import staged
from caffe2_bridge.storage.upload import upload

AnyPath = Path | RemotePath


@contextmanager
def published(target: AnyPath) -> Iterator[Path]:
    """Give the local path to write a file or folder to; what was written is uploaded at the end of the context.

    A local target is its own path. For a remote one it is a path of the same name in an empty temporary folder. What
    the context writes there, next to it, or in it if it makes it a folder, is uploaded if the context succeeds: at
    once if it is one file, and otherwise when all files are complete, those that refer to the others last. If it fails,
    nothing is.

    Raises StorageError if the store cannot be written: before the context if that is known then.
    """
    if isinstance(target, Path):
        yield target
        return
    target.store.require_writable(target.url)
    with staged() as folder:
        local = folder / target.name
        yield local
        files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
        if files:
            parent = target.parent
            upload(target.store, [(file, (parent / file.relative_to(folder).as_posix()).url) for file in files])
