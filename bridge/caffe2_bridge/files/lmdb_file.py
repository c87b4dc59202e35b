"""Read and write LMDB databases: a folder with ``data.mdb``, or that file under any name.

Requires the package lmdb (extra ``db``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from weakref import WeakValueDictionary

from caffe2_bridge.diagnostics import BridgeError, NetFormatError
from caffe2_bridge.files.blob_record_writer import Record
from caffe2_bridge.files.blob_records import Blob, decode_key, gather
from caffe2_bridge.files.optional_packages import required
from caffe2_bridge.wire import read as wire
from caffe2_bridge.wire.regular_file import require_regular, require_replaceable

DATA: Final = "data.mdb"
_FIRST_MAP: Final = 1 << 24  # bytes; doubled while it is too small


class Environment:
    """An open database and a snapshot of it, which lives as long as this object."""

    def __init__(self, lmdb: ModuleType, path: Path) -> None:
        self.environment = lmdb.open(str(path), subdir=False, readonly=True, lock=False, create=False)
        self.snapshot = self.environment.begin(buffers=True)

    def cursor(self) -> Any:
        """A cursor of the package lmdb on what the database holds now; it is valid while this object lives."""
        return self.environment.begin(buffers=True).cursor()


class _Mapped(wire.Buffer):
    """A value of a database in the mapped file; keeps the map open."""

    __slots__ = ("_environment",)

    def __init__(self, view: memoryview, environment: Environment) -> None:
        self._map = None  # LMDB owns the map: its pages are not dropped
        self.view = view
        self._environment = environment


# A process may open an LMDB file only once. The key is the inode: a file that replaced another is a different file.
_open: Final = WeakValueDictionary[tuple[int, int], Environment]()
_opening: Final = threading.Lock()


def blobs(path: Path) -> Mapping[str, Blob]:
    """Return the blobs of a database, by name, in the order of their keys; values stay in the mapped file.

    Raises NetFormatError if it is damaged, BridgeError if the package lmdb is not installed.
    """
    return gather(_records(open_environment(path)))


def open_environment(path: Path, *, verify_up_to: int | None = None) -> Environment:
    """Open a database to be read, once for all that use it at the same time.

    Args:
        path: the folder, or the file.
        verify_up_to: the size in bytes of files that are checked; None checks all.

    Raises as :func:`blobs`.
    """
    lmdb = required("lmdb", "LMDB databases")
    file = path / DATA if path.is_dir() else path
    try:
        status = file.stat()
        require_regular(status, str(file))
        if verify_up_to is None or status.st_size <= verify_up_to:
            _verify(file)
        with _opening:
            environment = _open.get((status.st_dev, status.st_ino))
            if environment is None:
                environment = _open[status.st_dev, status.st_ino] = Environment(lmdb, file)
    except (lmdb.Error, OSError) as error:
        raise NetFormatError(f"the LMDB database cannot be read: {error}", str(path)) from None
    return environment


def _verify(file: Path) -> None:
    """Raise NetFormatError if the pages of a file are inconsistent: LMDB does not check them, and would crash."""
    verify = required("lmdb.verify", "LMDB databases")
    try:
        problems = verify.verify(str(file), subdir=False)
    except verify.VerifyError as error:
        problems = [str(error)]
    if problems:
        more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        raise NetFormatError(f"the LMDB database is truncated or damaged: {problems[0]}{more}", str(file))


def _records(environment: Environment) -> Iterator[tuple[str, Any]]:
    for key, value in environment.snapshot.cursor():
        name = decode_key(bytes(key))
        span = _Mapped(value, environment).span()
        yield name, lambda span=span: span


def write(path: Path, records: Iterable[Record]) -> None:
    """Write a database into an empty file. Raises BridgeError for a name that is too long for LMDB."""
    with _writing(path) as environment:
        for key, value in records:
            _put(environment, [(key.encode(), value)])


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
        environment = lmdb.open(str(path), subdir=False, lock=False, sync=False, map_size=_map_size(path))
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


def _put(environment: Any, records: Sequence[tuple[bytes, bytes]]) -> None:
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
