"""Read and write LMDB databases: a folder with ``data.mdb``, or that file under any name.

To write requires the package lmdb (extra ``db``); to read does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from caffe2_bridge.diagnostics import BridgeError, NetFormatError
from caffe2_bridge.files.blobs.record_writer import Record
from caffe2_bridge.files.blobs.records import Blob, Fetch, decode_key, gather
from caffe2_bridge.files.databases.lmdb_pages import Tree
from caffe2_bridge.files.optional_packages import required
from caffe2_bridge.files.replace import replace_files
from caffe2_bridge.regular_file import require_replaceable
from caffe2_bridge.wire import Buffer
from caffe2_bridge.wire.write import Pieces

DATA: Final = "data.mdb"
_FIRST_MAP: Final = 1 << 24  # bytes; doubled while it is too small


def blobs(path: Path) -> Mapping[str, Blob]:
    """Return the blobs of a database, by name, in the order of their keys; values stay in the mapped file.

    Raises NetFormatError if it is damaged.
    """
    with _naming(path):
        return gather(_records(_open(path)))


def open_tree(path: Path) -> Tree:
    """Open a database, a folder or a file, as it is now. Raises NetFormatError if it is damaged."""
    with _naming(path):
        return _open(path)


def make_writable(file: Path) -> None:
    """Check a database that LMDB is to write to, for LMDB trusts what it opens.

    The package's own check also fails on sound files: LMDB keeps the pages of a long value that a shorter one replaces.
    The records of a file on which it fails are copied to a new one, which replaces the file; so a free list that is
    damaged is left behind. A file that is missing or empty needs no check.

    Raises NetFormatError if the records cannot be read, BridgeError if the package lmdb is not installed.
    """
    verify = required("lmdb.verify", "LMDB databases")
    with _naming(file):
        if not file.exists() or not file.stat().st_size:
            return
        tree = _open(file)
        for _ in tree.records():  # the package does not check where values end
            pass
        try:
            sound = not verify.verify(str(file), subdir=False)
        except verify.VerifyError:
            sound = False
    if not sound:
        records = ((key, value.tobytes()) for key, value in tree.records())
        replace_files([(file, lambda path: _write_each(path, records))])


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the path to errors."""
    try:
        yield
    except NetFormatError as error:
        raise NetFormatError(error.reason, str(path)) from None
    except OSError as error:
        raise NetFormatError(f"the LMDB database cannot be read: {error.strerror or error}", str(path)) from None


def _file(path: Path) -> Path:
    return path / DATA if path.is_dir() else path


def _open(path: Path) -> Tree:
    return Tree(Buffer.of_file(str(_file(path))).span())


def _records(tree: Tree) -> Iterator[tuple[str, Fetch]]:
    for key, value in tree.records():
        yield decode_key(key), lambda value=value: value  # type: ignore[misc] # a default binds the current value


def write(path: Path, records: Iterable[Record]) -> None:
    """Write a database into an empty file. Raises BridgeError for a name that is too long for LMDB.

    LMDB copies a value from one buffer to another. For one that is made while it is written, zeros make room, which
    take no memory until they are copied, and the value is written there once LMDB has closed the file.
    """
    made: dict[bytes, Pieces] = {}

    def values() -> Iterator[tuple[bytes, bytes | memoryview]]:
        for name, value in records:
            key = name.encode()
            if isinstance(value, Pieces):
                made[key] = value
                yield key, np.zeros(len(value), np.uint8).data
            else:
                made.pop(key, None)
                yield key, value

    _write_each(path, values())
    if made:
        _write_into(path, made)


def _write_into(path: Path, values: Mapping[bytes, Pieces]) -> None:
    """Write values where a database has room for them."""
    places = {key: room.start for key, room in _open(path).records() if key in values}
    with path.open("r+b") as file:
        for key, value in values.items():
            file.seek(places[key])
            file.writelines(value)


def _write_each(path: Path, records: Iterable[tuple[bytes, bytes | memoryview]]) -> None:
    """Write records, one after another, so that no more than one is in memory."""
    with _writing(path) as environment:
        for record in records:
            _put(environment, [record])


def put_all(path: Path, records: Sequence[tuple[bytes, bytes]]) -> None:
    """Add records to a database, a file, all of them or none; a missing file becomes one. Raises as :func:`write`."""
    with _writing(path) as environment:
        _put(environment, records)


@contextmanager
def _writing(path: Path) -> Iterator[Any]:
    """Open a database to be written. Raises BridgeError for the errors of LMDB, within the block too, OSError."""
    lmdb = required("lmdb", "LMDB databases")
    require_replaceable(path)
    try:
        environment = lmdb.open(os.fsencode(path), subdir=False, lock=False, sync=False, map_size=_map_size(path))
        try:
            yield environment
            environment.sync(True)  # noqa: FBT003 - lmdb takes it by position only
        finally:
            environment.close()
    except lmdb.Error as error:
        raise BridgeError(f"{path}: the LMDB database cannot be written: {error}") from error


def _map_size(path: Path) -> int:
    size = _FIRST_MAP
    while path.exists() and size < path.stat().st_size:
        size *= 2
    return size


def _put(environment: Any, records: Sequence[tuple[bytes, bytes | memoryview]]) -> None:
    """Write records in one transaction; the map grows until it has room for them."""
    lmdb = required("lmdb", "LMDB databases")
    longest = environment.max_key_size()
    for name, _ in records:
        if len(name) > longest:
            key = name.decode("utf-8", "replace")
            raise BridgeError(f"name {key!r} has {len(name)} bytes, but LMDB allows at most {longest}")
    while True:
        try:
            with environment.begin(write=True) as transaction:
                for name, value in records:
                    transaction.put(name, value)
        except lmdb.MapFullError:
            environment.set_mapsize(environment.info()["map_size"] * 2)
        else:
            return
