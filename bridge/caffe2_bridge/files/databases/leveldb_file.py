"""Read and write LevelDB databases: folders of tables. Requires the package plyvel (extra ``db``)."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from caffe2_bridge import wire
from caffe2_bridge.diagnostics import BridgeError, NetFormatError
from caffe2_bridge.files.blobs.record_writer import Record
from caffe2_bridge.files.blobs.records import Blob, Fetch, decode_key, gather
from caffe2_bridge.files.optional_packages import required
from caffe2_bridge.regular_file import open_regular, require_regular
from caffe2_bridge.storage import AnyPath
from caffe2_bridge.storage.temporaries import remove_abandoned, temporary_folder

_TABLE: Final = re.compile(r"\d+\.(ldb|sst)")
_LOG: Final = re.compile(r"MANIFEST-\d+|CURRENT|\d+\.log")
_OTHER: Final = re.compile(r"LOCK|LOG|LOG\.old|\d+\.dbtmp")
_ATTEMPTS: Final = 20  # to link a database between two saves
_BUFFER: Final = 1 << 25  # bytes that are sorted in memory before they are written as a table


def is_leveldb(folder: AnyPath) -> bool:
    """Return whether a folder holds a LevelDB database."""
    return (folder / "CURRENT").is_file() and any(folder.glob("MANIFEST-*"))


def holds_leveldb_files_only(folder: Path) -> bool:
    """Return whether every file of a folder belongs to a LevelDB database."""
    patterns = (_TABLE, _LOG, _OTHER)
    return all(any(pattern.fullmatch(entry.name) for pattern in patterns) for entry in folder.iterdir())


class View:
    """An open database.

    LevelDB locks and compacts a database that it opens, even for reading. So this opens a temporary folder with links
    to the tables, which never change, and copies of the other files, which are small. It is removed with this object,
    and those of processes that were killed when another database is opened.
    """

    def __init__(self, plyvel: ModuleType, folder: Path) -> None:
        views = Path(tempfile.gettempdir(), f"caffe2-bridge-leveldb-{os.getuid() if hasattr(os, 'getuid') else 'user'}")
        remove_abandoned(views)
        with ExitStack() as stack:
            view = stack.enter_context(temporary_folder(views, 0o700))
            _link_current_database(folder, view)
            # Without these checks LevelDB passes over records that are damaged.
            self._database = plyvel.DB(os.fsencode(view), create_if_missing=False, paranoid_checks=True)
            weakref.finalize(self, _close, self._database, stack.pop_all())

    def __iter__(self) -> Iterator[bytes]:
        yield from self._database.iterator(include_value=False, verify_checksums=True)

    def fetch(self, key: bytes) -> wire.Span:
        """Read the value of a key. Raises NetFormatError if the tables contradict each other."""
        found = self._database.get(key, verify_checksums=True)
        if found is None:
            raise NetFormatError(f"the LevelDB database is damaged: key {key[:40]!r} is listed, but not found")
        return wire.Span.of(found)

    def cursor(self) -> Any:
        """Return a raw iterator of the package plyvel."""
        return self._database.raw_iterator(verify_checksums=True)


def _close(database: Any, view: ExitStack) -> None:
    database.close()
    view.close()


def _link_current_database(folder: Path, view: Path) -> None:
    """Link a database; again where a save exchanges the folder in the meantime. Raises OSError."""
    for _ in range(_ATTEMPTS):
        before = folder.stat().st_ino
        failure: OSError | None = None
        try:
            _link_database(folder, view)
        except OSError as error:
            failure = error
        if folder.stat().st_ino == before:
            break
        for entry in view.iterdir():
            entry.unlink()
    if failure is not None:
        raise failure


def _link_database(folder: Path, view: Path) -> None:
    """Link the tables of a database into another folder, and copy its other files."""
    for entry in folder.iterdir():
        if _TABLE.fullmatch(entry.name):
            _link(entry.resolve(), view / entry.name)
        elif _LOG.fullmatch(entry.name):
            _copy(entry, view / entry.name)


def _link(target: Path, link: Path) -> None:
    """Link a file; copy it if the system does not support links. Raises OSError, also for what is not a file."""
    require_regular(target.stat(), str(target))
    for make in (os.link, os.symlink):  # a hard link survives a save that replaces the database
        try:
            make(target, link)
        except OSError:
            continue
        return
    _copy(target, link)


def _copy(source: Path, target: Path) -> None:
    with open_regular(source) as opened, target.open("wb") as file:
        shutil.copyfileobj(opened, file)


def blobs(folder: Path) -> Mapping[str, Blob]:
    """Return the blobs of a database, by name, in the order of their keys; values are read on demand.

    Raises NetFormatError if it is damaged, BridgeError if the package plyvel is not installed.
    """
    view = open_view(folder)
    with reading(folder):
        return gather(_records(view, folder))


def open_view(folder: Path) -> View:
    """Open a database as it is now; later writes are not seen. Raises as :func:`blobs`."""
    plyvel = required("plyvel", "LevelDB databases")
    with reading(folder):
        return View(plyvel, folder)


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Turn the errors of LevelDB and of files into NetFormatErrors that name the database."""
    plyvel = required("plyvel", "LevelDB databases")
    try:
        yield
    except (plyvel.Error, OSError) as error:
        raise NetFormatError(f"the LevelDB database cannot be read: {_text(error)}", str(folder)) from None


def _records(database: View, folder: Path) -> Iterator[tuple[str, Fetch]]:
    for key in database:
        name = decode_key(key)

        def fetch(key: bytes = key) -> wire.Span:
            with reading(folder):
                return database.fetch(key)

        yield name, fetch


def write(folder: Path, records: Iterable[Record]) -> None:
    """Write a database into an empty folder. Raises BridgeError with LevelDB's reason.

    It is not compressed: weights hardly compress, and not every build of Caffe2 reads compressed tables.
    """
    with _writing(folder) as database:
        for key, value in records:
            database.put(key.encode(), bytes(value))


def put_all(folder: Path, records: Iterable[tuple[bytes, bytes]]) -> None:
    """Add records to a database, all of them or none; it is created if the folder has none. Raises as :func:`write`."""
    with _writing(folder) as database, database.write_batch(transaction=True) as batch:
        for key, value in records:
            batch.put(key, value)


@contextmanager
def _writing(folder: Path) -> Iterator[Any]:
    """Open a database to be written. Raises BridgeError for the errors of LevelDB, within the block too, OSError."""
    plyvel = required("plyvel", "LevelDB databases")
    for entry in folder.iterdir() if folder.is_dir() else ():
        require_regular(entry.stat(), str(entry))
    try:
        database = plyvel.DB(
            os.fsencode(folder),
            create_if_missing=True,
            compression=None,
            write_buffer_size=_BUFFER,
            paranoid_checks=True,
        )
        try:
            yield database
        finally:
            database.close()
    except plyvel.Error as error:
        raise BridgeError(f"{folder}: the LevelDB database cannot be written: {_text(error)}") from error


def _text(error: Exception) -> str:
    """Return the message of a LevelDB error, which may be bytes."""
    first = error.args[0] if error.args else ""
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else str(error)
