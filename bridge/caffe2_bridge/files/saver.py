"""Save models to files, atomically: a failed save leaves the previous files in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from google.protobuf import text_format
from google.protobuf.message import Message

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.diagnostics.log import LOGGER
from caffe2_bridge.files.blobs.record_writer import Record
from caffe2_bridge.files.databases import leveldb_file, lmdb_file, minidb
from caffe2_bridge.files.predictor_db import predictor_records
from caffe2_bridge.files.replace import Writer, replace_files, replace_folder
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.storage import Location, StorageError, locate, published
from caffe2_bridge.wire.messages import parse_message

_LIMIT: Final = 2**31 - 1  # protobuf's, of a message


def save(model: Model, path: Location, format: str = "pb") -> None:  # noqa: A002 - the public name
    """Save a model.

    Args:
        model: the model. The init net of a model that was read from a file is written byte for byte as it was.
        path: the folder for ``pb``, ``pbtxt``, ``lmdb`` and ``leveldb``, which is created if it is missing; the file
            for ``minidb``. Or the URL of one (:mod:`caffe2_bridge.storage`).
        format: ``pb`` (predict_net.pb and init_net.pb), ``pbtxt`` (the same in text), or a predictor database, which
            Caffe2 loads too: ``minidb``, ``lmdb`` or ``leveldb`` (the last two require the extra ``db``).

    Files are written under temporary names in the target folder and renamed when all are complete: :func:`load` finds
    the old model or the new one, also while the new one is written, and after the process was killed. Parameters are
    read and written one at a time. What goes to a URL is written to a temporary folder, and uploaded when it is
    complete.

    Raises:
        BridgeError: the model is not a Model, the format is unknown or cannot hold a parameter, a package is not
            installed, the target of a LevelDB database is a folder with other files, or a file cannot be written.
    """
    saver = _SAVERS.get(format)
    if saver is None:
        raise BridgeError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
    if not isinstance(model, Model):
        raise BridgeError(f"expected a Model, got {type(model).__name__}: make one by Model.of(predict_net, init_net)")
    with local_target(path) as target:
        saver(model, target)


@contextmanager
def local_target(path: Location) -> Iterator[Path]:
    """Give the local path to write, whose content is uploaded if the path is a URL. Raises BridgeError."""
    where = locate(path)
    try:
        with published(where) as target:
            yield target
    except StorageError:
        raise
    except OSError as error:
        raise BridgeError(f"{where}: cannot be written: {error.strerror or error}") from error


def _pb(model: Model, folder: Path) -> None:
    replace_files(
        [
            (folder / "init_net.pb", _streamed(model.init.serialized)),
            (folder / "predict_net.pb", _streamed(lambda: (model.predict_net.SerializeToString(),))),
        ]
    )
    size = (folder / "init_net.pb").stat().st_size
    if size > _LIMIT:
        LOGGER.warning(
            "%s has %s bytes, and Caffe2 reads no net above 2 GB; save the model in the format minidb for it",
            folder / "init_net.pb", f"{size:,}",
        )  # fmt: skip


def _pbtxt(model: Model, folder: Path) -> None:
    size = sum(parameter.size * parameter.dtype.itemsize for parameter in model.init.parameters.values())
    if size > _LIMIT:
        raise BridgeError(
            f"{folder}: protobuf text is limited to 2 GB, and the parameters have {size:,} bytes; use the format pb"
        )
    _require_no_other_net(model, folder)
    replace_files(
        [
            (folder / "init_net.pbtxt", _streamed(lambda: _text(model.init_net))),
            (folder / "predict_net.pbtxt", _streamed(lambda: _text(model.predict_net))),
        ]
    )


def _require_no_other_net(model: Model, folder: Path) -> None:
    """Raise BridgeError if a folder has the nets of another model in binary, which goes before text."""
    init, predict = folder / "init_net.pb", folder / "predict_net.pb"
    if not predict.exists():
        return
    same = parse_message(NetDef, predict.read_bytes()) == model.predict_net and init.exists()
    if not (same and init.read_bytes() == b"".join(model.init.serialized())):
        raise BridgeError(f"{predict}: a net that is read before {predict.name}txt: remove it, or name another folder")


def replace_file(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, then rename it. Raises OSError if it cannot be written."""
    replace_files([(path, _streamed(lambda: (content,)))])


def save_records(records: Iterable[Record], path: Location, format: str) -> None:  # noqa: A002 - as in save
    """Save records, sorted by key, as a database: a file for ``minidb``, a folder for ``lmdb`` and ``leveldb``.

    Raises BridgeError if a package is not installed or a file cannot be written.
    """
    with local_target(path) as target:
        DATABASES[format](records, target)


def _minidb(records: Iterable[Record], file: Path) -> None:
    replace_files([(file, _streamed(lambda: minidb.content(records)))])


def _lmdb(records: Iterable[Record], folder: Path) -> None:
    replace_files([(folder / lmdb_file.DATA, lambda path: lmdb_file.write(path, records))])


def _leveldb(records: Iterable[Record], folder: Path) -> None:
    _require_leveldb(folder)
    replace_folder(folder, lambda path: leveldb_file.write(path, records))


def _require_leveldb(folder: Path) -> None:
    if folder.exists() and not (folder.is_dir() and leveldb_file.holds_leveldb_files_only(folder)):
        raise BridgeError(
            f"{folder}: the folder has files that are not part of a LevelDB database, so it is not replaced"
        )


DATABASES: Final = MappingProxyType[str, Callable[[Iterable[Record], Path], None]](
    {"minidb": _minidb, "lmdb": _lmdb, "leveldb": _leveldb}
)


def _predictor(write: Callable[[Iterable[Record], Path], None]) -> Callable[[Model, Path], None]:
    return lambda model, path: write(predictor_records(model), path)


_SAVERS: Final = MappingProxyType[str, Callable[[Model, Path], None]](
    {"pb": _pb, "pbtxt": _pbtxt, **{name: _predictor(write) for name, write in DATABASES.items()}}
)
FORMATS: Final = tuple(_SAVERS)


def _streamed(content: Callable[[], Iterable[bytes | memoryview]]) -> Writer:
    """Make a writer of content that is generated while it is written."""

    def write(path: Path) -> None:
        with path.open("wb") as file:
            file.writelines(content())

    return write


def _text(net: Message) -> Iterator[bytes]:
    yield text_format.MessageToString(net, as_utf8=True).encode() or b"# an empty net\n"
