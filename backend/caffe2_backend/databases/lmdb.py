"""LMDB: a folder with sorted records. Requires the package lmdb (extra ``db``)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from caffe2_backend.databases.database import Cursor, Database, Mode, database_errors
from caffe2_bridge.files import lmdb_file

# Files of databases up to this size in bytes are checked before they are opened: checking reads the whole file, which
# takes too long for a training set.
_CHECKED: Final = 1 << 26


class LmdbCursor(Cursor):
    """A cursor on what the database holds now."""

    supports_seek = True

    def __init__(self, path: Path) -> None:
        with database_errors(path):
            self._environment = lmdb_file.open_environment(path, verify_up_to=_CHECKED)
        self._cursor = self._environment.cursor()
        self._valid = bool(self._cursor.first())

    def seek_to_first(self) -> None:
        """Move to the first record."""
        self._valid = bool(self._cursor.first())

    def seek(self, key: bytes) -> None:
        """Move to the first record whose key is not before ``key``."""
        self._valid = bool(self._cursor.set_range(key))

    def _is_valid(self) -> bool:
        return self._valid

    def _key(self) -> bytes:
        return bytes(self._cursor.key())

    def _value(self) -> bytes:
        return bytes(self._cursor.value())

    def _next(self) -> None:
        self._valid = bool(self._cursor.next())


class LmdbDatabase(Database):
    """An LMDB database; ``NEW`` creates the folder, which must not exist."""

    def _open(self) -> None:
        if self.mode is Mode.READ:
            LmdbCursor(self.path)
            return
        if self.mode is Mode.NEW or not self.path.exists():
            self.path.mkdir(mode=0o744)
        self._write(())

    def _cursor(self) -> Cursor:
        return LmdbCursor(self.path)

    def _write(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        lmdb_file.put_all(self.path / lmdb_file.DATA, list(records))
