"""Databases: ``create_db``, cursors and transactions."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from caffe2_backend import databases
from caffe2_compat.extension.values.blobs import text

__all__ = ["DB", "Cursor", "Mode", "Transaction", "create_db", "new", "read", "write"]


class Mode(IntEnum):
    """How a database is opened."""

    read = databases.Mode.READ
    write = databases.Mode.WRITE
    new = databases.Mode.NEW


read, write, new = Mode.read, Mode.write, Mode.new


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


class Cursor:
    """A position in a database."""

    def __init__(self, cursor: databases.Cursor) -> None:
        self._cursor = cursor

    def supports_seek(self) -> bool:
        """Whether the kind of database can find a key."""
        return self._cursor.supports_seek

    def seek_to_first(self) -> None:
        """Move to the first record."""
        self._cursor.seek_to_first()

    def next(self) -> None:
        """Move to the next record."""
        self._cursor.next()

    def key(self) -> bytes:
        """Return the key of the record. Raises DatabaseError at the end."""
        return self._cursor.key

    def value(self) -> bytes:
        """Return the value of the record. Raises DatabaseError at the end."""
        return self._cursor.value

    def valid(self) -> bool:
        """Whether there is a record at the position."""
        return self._cursor.valid


class Transaction:
    """Records to be written; the end of the object commits them."""

    def __init__(self, transaction: databases.Transaction) -> None:
        self._transaction = transaction

    def put(self, key: str | bytes, value: str | bytes) -> None:
        """Add a record."""
        self._transaction.put(_bytes(key), _bytes(value))

    def commit(self) -> None:
        """Write the records so far. Raises DatabaseError if that fails."""
        self._transaction.commit()


class DB:
    """An open database."""

    def __init__(self, database: databases.Database) -> None:
        self._database = database

    def new_cursor(self) -> Cursor:
        """Make a cursor. Raises DatabaseError if the database is not open for reading."""
        return Cursor(self._database.cursor())

    def new_transaction(self) -> Transaction:
        """Make a transaction. Raises DatabaseError if the database is not open for writing."""
        return Transaction(self._database.transaction())

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def create_db(db_type: Any, path: Any, mode: int) -> DB | None:
    """Open a database; None for a type that is unknown. Raises DatabaseError if it cannot be opened."""
    kind = text(db_type)
    if kind not in databases.DATABASES:
        return None
    return DB(databases.create_database(kind, text(path), databases.Mode(mode)))
