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
from caffe2_bridge.files import leveldb_file, lmdb_file, minidb
from caffe2_bridge.files.predictor_db import predictor_records
from caffe2_bridge.model import Model

_TEXT_LIMIT: Final = 2**31 - 1  # protobuf's own: text is written of a whole message

# Fills an empty file, or an empty folder, of that name.
Writer = Callable[[Path], None]


def save(model: Model, path: str | os.PathLike[str], format: str = "pb") -> None:  # noqa: A002 - the public name
    """Write a model.

    Args:
        model: the model; read from a file, its init net is written byte for byte as it was.
        path: the folder for ``pb``, ``pbtxt``, ``lmdb`` and ``leveldb``, made where it is missing; the file for
            ``minidb``.
        format: ``pb`` (predict_net.pb and init_net.pb), ``pbtxt`` (the same in text), or a predictor database, which
            Caffe2 loads too: ``minidb``, ``lmdb`` or ``leveldb`` (these two need the extra ``db``).

    Everything is written beside its place first, and put there when it is complete. Parameters are read and written
    one at a time.

    Raises:
        BridgeError: an unknown format, a parameter that the format cannot hold, a package that is not installed, a
            folder with other files where a LevelDB database is to go, or the system's reason.
    """
    saver = _SAVERS.get(format)
    if saver is None:
        raise BridgeError(f"unknown format {format!r}: it must be one of {', '.join(FORMATS)}")
    try:
        saver(model, Path(path))
    except OSError as error:
        raise BridgeError(f"{path}: cannot be written: {error.strerror or error}") from error


def _pb(model: Model, folder: Path) -> None:
    _replace_files(
        [
            (folder / "init_net.pb", _streamed(model.init.serialized)),
            (folder / "predict_net.pb", _streamed(lambda: (model.predict_net.SerializeToString(),))),
        ]
    )


def _pbtxt(model: Model, folder: Path) -> None:
    size = sum(parameter.size * parameter.dtype.itemsize for parameter in model.init.parameters.values())
    if size > _TEXT_LIMIT:
        raise BridgeError(f"{folder}: {size:,} bytes of parameters are too many for protobuf text: at most 2 GB")
    _replace_files(
        [
            (folder / "init_net.pbtxt", _streamed(lambda: _text(model.init_net))),
            (folder / "predict_net.pbtxt", _streamed(lambda: _text(model.predict_net))),
        ]
    )


def _minidb(model: Model, file: Path) -> None:
    records = (minidb.record(key, value) for key, value in predictor_records(model))
    _replace_files([(file, _streamed(lambda: records))])


def _lmdb(model: Model, folder: Path) -> None:
    file = folder / lmdb_file.DATA
    _replace_files([(file, lambda path: lmdb_file.write(path, predictor_records(model)))])


def _leveldb(model: Model, folder: Path) -> None:
    _replace_folder(folder, lambda path: leveldb_file.write(path, predictor_records(model)))


_SAVERS: Final = MappingProxyType[str, Callable[[Model, Path], None]](
    {"pb": _pb, "pbtxt": _pbtxt, "minidb": _minidb, "lmdb": _lmdb, "leveldb": _leveldb}
)
FORMATS: Final = tuple(_SAVERS)


def _streamed(content: Callable[[], Iterable[bytes | memoryview]]) -> Writer:
    """Writes content that is made while it is written."""

    def write(path: Path) -> None:
        with path.open("wb") as file:
            file.writelines(content())

    return write


def _text(net: Message) -> Iterator[bytes]:
    yield text_format.MessageToString(net, as_utf8=True).encode() or b"# an empty net\n"


def _replace_files(files: list[tuple[Path, Writer]]) -> None:
    """Write all files under other names, then give each its own."""
    written: list[tuple[Path, Path]] = []
    try:
        for target, write in files:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            os.close(handle)
            temporary = Path(name)
            written.append((temporary, target))
            temporary.chmod(_mode(target))
            write(temporary)
            _sync(temporary)
        for temporary, target in written:
            temporary.replace(target)
    finally:
        for temporary, _ in written:
            temporary.unlink(missing_ok=True)
    for folder in {target.parent for target, _ in files}:
        _sync_folder(folder)


def _replace_folder(target: Path, write: Writer) -> None:
    """Write a database's folder under another name, then swap it for the one that is there."""
    target = target.absolute()
    if target.exists() and not (target.is_dir() and leveldb_file.holds_nothing_else(target)):
        raise BridgeError(f"{target}: has other files than those of a LevelDB database, and is not replaced")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as name:
        new, old = Path(name, "new"), Path(name, "old")
        new.mkdir()
        write(new)
        for file in new.iterdir():
            _sync(file)
        _sync_folder(new)
        if target.exists():
            new.chmod(target.stat().st_mode & 0o777)
            target.replace(old)
        try:
            new.replace(target)
        except OSError:
            if old.exists():
                old.replace(target)
            raise
    _sync_folder(target.parent)


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or those that a new file gets."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync(file: Path) -> None:
    handle = os.open(file, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Make renames last through a crash, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
