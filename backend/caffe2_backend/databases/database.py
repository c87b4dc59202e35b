"""What every database offers: modes, cursors and transactions."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import ClassVar

from caffe2_bridge.diagnostics import BridgeError, NetFormatError, RunError

# A key, and what returns the value.
LazyRecord = tuple[bytes, Callable[[], bytes]]


class DatabaseError(RunError):
    """A database cannot be opened, read or written."""


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Turn the errors of files and of their formats into DatabaseErrors that name the database."""
    try:
        yield
    except DatabaseError:
        raise
    except NetFormatError as error:
        raise DatabaseError(f"database {path}: {error.reason}") from None
    except BridgeError as error:
        raise DatabaseError(f"database {path}: {error}") from None
    except OSError as error:
        raise DatabaseError(f"database {path}: {error.strerror or error}") from None


class Mode(IntEnum):
    """How a database is opened; the numbers are Caffe2's.

    ``WRITE`` adds records to a database, and creates it if it does not exist; ``NEW`` creates it.
    """

    READ = 0
    WRITE = 1
    NEW = 2


class Cursor(abc.ABC):
    """A position in a database. A new cursor is at the first record."""

    supports_seek: ClassVar[bool] = False

    @property
    def valid(self) -> bool:
        """Whether there is a record at the position; False at the end."""
        return self._is_valid()

    @property
    def key(self) -> bytes:
        """The key at the position. Raises DatabaseError at the end."""
        self._require_valid()
        return self._key()

    @property
    def value(self) -> bytes:
        """The value at the position. Raises DatabaseError at the end."""
        self._require_valid()
        return self._value()

    def next(self) -> None:
        """Move to the next record, or to the end."""
        if self._is_valid():
            self._next()

    @abc.abstractmethod
    def seek_to_first(self) -> None:
        """Move to the first record."""

    def seek(self, key: bytes) -> None:
        """Move to the first record whose key is not before ``key``. Raises DatabaseError if it is not supported."""
        del key
        raise DatabaseError("this database does not support seeking to a key")

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys and values from the position to the end, and move there."""
        while self.valid:
            yield self.key, self.value
            self.next()

    def _require_valid(self) -> None:
        if not self._is_valid():
            raise DatabaseError("the cursor is at the end of the database")

    @abc.abstractmethod
    def _is_valid(self) -> bool: ...

    @abc.abstractmethod
    def _key(self) -> bytes: ...

    @abc.abstractmethod
    def _value(self) -> bytes: ...

    @abc.abstractmethod
    def _next(self) -> None: ...


class StreamCursor(Cursor):
    """A cursor on records that are read one after another; ``start`` begins at the first one."""

    def __init__(self, start: Callable[[], Iterator[LazyRecord]]) -> None:
        self._start = start
        self._rest: Iterator[LazyRecord] = iter(())
        self._record: LazyRecord | None = None
        self.seek_to_first()

    def seek_to_first(self) -> None:
        """Move to the first record."""
        self._rest = self._start()
        self._next()

    def _is_valid(self) -> bool:
        return self._record is not None

    def _key(self) -> bytes:
        assert self._record is not None
        return self._record[0]

    def _value(self) -> bytes:
        assert self._record is not None
        return self._record[1]()

    def _next(self) -> None:
        self._record = next(self._rest, None)


class Transaction:
    """Records to be written, all of them or none, by :meth:`commit`, which the end of the object implies."""

    def __init__(self, write: Callable[[Iterable[tuple[bytes, bytes]]], None]) -> None:
        self._write = write
        self._records: list[tuple[bytes, bytes]] = []

    def put(self, key: bytes, value: bytes) -> None:
        """Add a record."""
        self._records.append((key, value))

    def commit(self) -> None:
        """Write the records so far. Raises DatabaseError if that fails."""
        records, self._records = self._records, []
        if records:
            self._write(records)

    def __del__(self) -> None:
        self.commit()


class Database(abc.ABC):
    """An open database.

    Args:
        path: the file, or the folder.
        mode: how to open it.

    Raises DatabaseError if it cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], mode: Mode) -> None:
        self.path = Path(path)
        self.mode = mode
        self._closed = True
        with database_errors(self.path):
            self._open()
        self._closed = False

    def cursor(self) -> Cursor:
        """Make a cursor. Raises DatabaseError if the database is not open for reading."""
        if self._closed or self.mode is not Mode.READ:
            raise DatabaseError(f"database {self.path} is not open for reading")
        return self._cursor()

    def transaction(self) -> Transaction:
        """Make a transaction. Raises DatabaseError if the database is not open for writing."""
        if self._closed or self.mode is Mode.READ:
            raise DatabaseError(f"database {self.path} is not open for writing")
        return Transaction(self._checked_write)

    def close(self) -> None:
        """Close the database; cursors that exist stay valid. Raises DatabaseError if it cannot be written."""
        if not self._closed:
            self._closed = True
            with database_errors(self.path):
                self._close()

    def _checked_write(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        if self._closed:
            raise DatabaseError(f"database {self.path} was closed before the transaction was committed")
        with database_errors(self.path):
            self._write(records)

    @abc.abstractmethod
    def _open(self) -> None:
        """Open the database in its mode."""

    @abc.abstractmethod
    def _cursor(self) -> Cursor:
        """Make a cursor."""

    @abc.abstractmethod
    def _write(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Write records at once."""

    def _close(self) -> None:  # noqa: B027 - not every database holds something open
        """Close what is open."""
