"""Models to files. A failed save leaves what was there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from google.protobuf import text_format
from google.protobuf.message import Message

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.files.predictor import predictor_records
from caffe2_bridge.model import Model

Content = Iterable[bytes | memoryview]


def save(model: Model, path: str | os.PathLike[str], format: str = "pb") -> None:  # noqa: A002 - the public name
    """Write a model.

    Args:
        model: the model; read from a file, its init net is written byte for byte as it was.
        path: the folder for ``pb`` and ``pbtxt``, made where it is missing; the file for ``minidb``.
        format: ``pb`` (predict_net.pb and init_net.pb), ``pbtxt`` (the same in text) or ``minidb`` (a predictor
            database, which Caffe2 loads too).

    Every file is written beside its place first, and put there when all of them are complete.

    Raises:
        BridgeError: an unknown format, a parameter that the format cannot hold, or the system's reason.
    """
    writer = _WRITERS.get(format)
    if writer is None:
        raise BridgeError(f"unknown format {format!r}: it must be one of {', '.join(_WRITERS)}")
    try:
        _replace(writer(model, Path(path)))
    except OSError as error:
        raise BridgeError(f"{path}: cannot be written: {error.strerror or error}") from error


def _pb(model: Model, folder: Path) -> list[tuple[Path, Content]]:
    return [
        (folder / "init_net.pb", _Lazy(model.init.serialized)),
        (folder / "predict_net.pb", _Lazy(lambda: iter((model.predict_net.SerializeToString(),)))),
    ]


def _pbtxt(model: Model, folder: Path) -> list[tuple[Path, Content]]:
    return [
        (folder / "init_net.pbtxt", _Lazy(lambda: _text(model.init_net))),
        (folder / "predict_net.pbtxt", _Lazy(lambda: _text(model.predict_net))),
    ]


def _minidb(model: Model, file: Path) -> list[tuple[Path, Content]]:
    return [(file, _Lazy(lambda: predictor_records(model)))]


_WRITERS: Final = MappingProxyType[str, Callable[[Model, Path], list[tuple[Path, Content]]]](
    {"pb": _pb, "pbtxt": _pbtxt, "minidb": _minidb}
)


class _Lazy(Iterable[bytes | memoryview]):
    """Content that is made while it is written."""

    def __init__(self, make: Callable[[], Iterator[bytes | memoryview]] | Callable[[], Iterator[bytes]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return iter(self._make())


def _text(net: Message) -> Iterator[bytes]:
    yield text_format.MessageToString(net, as_utf8=True).encode() or b"# an empty net\n"


def _replace(files: list[tuple[Path, Content]]) -> None:
    """Write all files under other names, then give each its own."""
    written: list[tuple[str, Path]] = []
    try:
        for target, content in files:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            written.append((name, target))
            with os.fdopen(handle, "wb") as file:
                Path(name).chmod(_mode(target))
                file.writelines(content)
                file.flush()
                os.fsync(handle)
        for name, target in written:
            Path(name).replace(target)
    finally:
        for name, _ in written:
            with suppress(FileNotFoundError):
                Path(name).unlink()
    for folder in {target.parent for target, _ in files}:
        _sync(folder)


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or those that a new file gets."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync(folder: Path) -> None:
    """Make renames last through a crash, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
