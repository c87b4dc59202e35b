"""LevelDB: a folder with sorted records. Requires the package plyvel (extra ``db``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from caffe2_backend.databases.database import Cursor, Database, DatabaseError, Mode, database_errors
from caffe2_bridge.files.databases import leveldb_file


class LevelCursor(Cursor):
    """A cursor on what the database held when it was opened."""

    supports_seek = True

    def __init__(self, view: leveldb_file.View, path: Path) -> None:
        self._view = view  # which is removed with this object
        self._path = path
        with self._reading():
            self._cursor = view.cursor()
            self._cursor.seek_to_first()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with database_errors(self._path), leveldb_file.reading(self._path):
            yield

    def seek_to_first(self) -> None:
        """Move to the first record."""
        with self._reading():
            self._cursor.seek_to_first()

    def seek(self, key: bytes) -> None:
        """Move to the first record whose key is not before ``key``."""
        with self._reading():
            self._cursor.seek(key)

    def _is_valid(self) -> bool:
        return bool(self._cursor.valid())

    def _key(self) -> bytes:
        with self._reading():
            return bytes(self._cursor.key())

    def _value(self) -> bytes:
        with self._reading():
            return bytes(self._cursor.value())

    def _next(self) -> None:
        with self._reading():
            self._cursor.next()


class LevelDatabase(Database):
    """A LevelDB database; ``NEW`` raises an error if it exists."""

    def _open(self) -> None:
        exists = leveldb_file.is_leveldb(self.path)
        if self.mode is not Mode.READ:
            if self.mode is Mode.NEW and exists:
                raise DatabaseError(f"database {self.path} exists already")
            self._write(())
            return
        if not exists:
            raise DatabaseError(f"database {self.path}: the path is not the folder of a LevelDB database")
        self._view = leveldb_file.open_view(self.path)

    def _cursor(self) -> Cursor:
        return LevelCursor(self._view, self.path)

    def _write(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        leveldb_file.put_all(self.path, records)
