"""Readers: a cursor that threads share, and that begins again at the end."""

from __future__ import annotations

import threading

from caffe2_backend.databases.database import Cursor, DatabaseError


class DatabaseReader:
    """Reads the records of a shard over and over: of every ``num_shards`` records, the one at ``shard_id``.

    As in Caffe2, a shard begins anew as soon as the database ends, whichever records were skipped.

    Args:
        cursor: on the database.
        num_shards: how many readers share the records.
        shard_id: which of them this is.

    Raises DatabaseError if ``shard_id`` is not one of the shards, or the database has fewer records.
    """

    def __init__(self, cursor: Cursor, *, num_shards: int = 1, shard_id: int = 0) -> None:
        if not 0 <= shard_id < num_shards:
            raise DatabaseError(f"shard_id must be at least 0 and below num_shards ({num_shards}), not {shard_id}")
        self.cursor = cursor
        self._num_shards = num_shards
        self._shard_id = shard_id
        self._lock = threading.Lock()
        self.seek_to_first()

    def read(self) -> tuple[bytes, bytes]:
        """Return a key and a value, and move on. Raises DatabaseError if the database is empty."""
        with self._lock:
            record = self.cursor.key, self.cursor.value
            for _ in range(self._num_shards):
                self.cursor.next()
                if not self.cursor.valid:
                    self._begin()
                    break
            return record

    def seek_to_first(self) -> None:
        """Begin again."""
        with self._lock:
            self._begin()

    def _begin(self) -> None:
        self.cursor.seek_to_first()
        for _ in range(self._shard_id):
            self.cursor.next()
            if not self.cursor.valid:
                raise DatabaseError(f"the database has not enough records for shard {self._shard_id}")
