"""LMDB: a folder with sorted records. To write requires the package lmdb (extra ``db``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from caffe2_backend.databases.database import Cursor, Database, Mode, database_errors
from caffe2_bridge.files.databases import lmdb_file


class LmdbCursor(Cursor):
    """A cursor on what the database holds now."""

    supports_seek = True

    def __init__(self, path: Path) -> None:
        self._path = path
        with database_errors(path):
            self._cursor = lmdb_file.open_tree(path).cursor()
        self._valid = False
        self.seek_to_first()

    def seek_to_first(self) -> None:
        """Move to the first record."""
        self._move(self._cursor.first)

    def seek(self, key: bytes) -> None:
        """Move to the first record whose key is not before ``key``."""
        self._move(lambda: self._cursor.seek(key))

    def _move(self, step: Callable[[], bool]) -> None:
        self._valid = False
        with database_errors(self._path):
            self._valid = step()

    def _is_valid(self) -> bool:
        return self._valid

    def _key(self) -> bytes:
        return self._cursor.key

    def _value(self) -> bytes:
        with database_errors(self._path):
            return self._cursor.value.tobytes()

    def _next(self) -> None:
        self._move(self._cursor.next)


class LmdbDatabase(Database):
    """An LMDB database; ``NEW`` creates the folder, which must not exist."""

    def _open(self) -> None:
        if self.mode is Mode.READ:
            LmdbCursor(self.path)
            return
        if self.mode is Mode.NEW or not self.path.exists():
            self.path.mkdir(mode=0o744)
        else:
            lmdb_file.make_writable(self.path / lmdb_file.DATA)
        self._write(())

    def _cursor(self) -> Cursor:
        return LmdbCursor(self.path)

    def _write(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        lmdb_file.put_all(self.path / lmdb_file.DATA, list(records))
