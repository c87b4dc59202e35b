"""Compiled code of rewritten sources, kept in the user's cache folder: rewriting and compiling takes most of an import.

Code is executed only if nobody but this user can have written it: the file and its folder belong to the user and are
writable by nobody else. Its name is a digest of the source's path, and its first bytes one of all that it was made of.
"""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import CodeType
from typing import Final

from caffe2_bridge.storage.cache.settings import user_cache

_DIGEST: Final = 32
# The modules whose text decides what a source becomes.
_REWRITERS: Final = ("rewrites.py", "syntax.py", "finder.py")


def cached_code(source: str, path: str, compile_source: Callable[[str, str], CodeType]) -> CodeType:
    """Return the code of ``compile_source(source, path)``, from the cache if it is there; else it is added."""
    if not hasattr(os, "geteuid"):  # who owns a file is not known
        return compile_source(source, path)
    key = _digest(_rewrites(), path.encode("utf-8", "surrogatepass"), source.encode("utf-8", "surrogatepass"))
    name = hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()
    try:
        folder = _private_folder()
        content = _read_own(folder / name)
    except (OSError, RuntimeError):  # no home folder
        return compile_source(source, path)
    if content is not None and content[:_DIGEST] == key and (code := _unmarshal(content[_DIGEST:])) is not None:
        return code
    code = compile_source(source, path)
    _write(folder, name, key + marshal.dumps(code))
    return code


def _unmarshal(content: bytes) -> CodeType | None:
    """Return the code that this user wrote; None if the file is cut off."""
    try:
        code = marshal.loads(content)  # noqa: S302 - only this user can have written it
    except (EOFError, TypeError, ValueError):
        return None
    return code if isinstance(code, CodeType) else None


@cache
def _rewrites() -> bytes:
    """Return a digest of the interpreter and of the rewrites."""
    rewriters = files("caffe2_compat.hook")
    texts = [rewriters.joinpath(name).read_bytes() for name in _REWRITERS]
    return _digest(sys.version.encode(), importlib.util.MAGIC_NUMBER, bytes([sys.flags.optimize]), *texts)


def _digest(*parts: bytes) -> bytes:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.digest()


def _private_folder() -> Path:
    """Return the folder of compiled code, made if need be. Raises OSError if others can write to it."""
    folder = user_cache("compiled")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    if not stat.S_ISDIR(folder.lstat().st_mode) or not _is_own(folder.lstat()):
        raise PermissionError(f"{folder} can be written by others")
    return folder


def _is_own(status: os.stat_result) -> bool:
    """Whether a file is this user's, and others cannot write to it."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read_own(path: Path) -> bytes | None:
    """Return the content of a file; None if it does not exist or others can write to it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        return file.read() if stat.S_ISREG(status.st_mode) and _is_own(status) else None


def _write(folder: Path, name: str, content: bytes) -> None:
    """Write a file at once, or not at all."""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=folder)
    except OSError:
        return
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary).replace(folder / name)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
