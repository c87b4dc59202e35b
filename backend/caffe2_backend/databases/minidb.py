"""minidb: a file of records in the order in which they were written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from caffe2_backend.databases.database import Cursor, Database, LazyRecord, Mode, StreamCursor, database_errors
from caffe2_bridge import wire
from caffe2_bridge.files.databases import minidb
from caffe2_bridge.regular_file import append_regular


class MiniDatabase(Database):
    """A minidb database."""

    def _open(self) -> None:
        if self.mode is Mode.READ:
            self._span = wire.Buffer.of_file(os.fspath(self.path)).span()
        else:
            with append_regular(self.path) as file:
                if self.mode is Mode.NEW:
                    file.truncate(0)

    def _cursor(self) -> Cursor:
        return StreamCursor(self._records)

    def _records(self) -> Iterator[LazyRecord]:
        with database_errors(self.path):
            for key, value in minidb.raw_records(self._span):
                yield key, value.tobytes

    def _write(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        content = b"".join(minidb.raw_record(key, value) for key, value in records)
        with append_regular(self.path) as file:
            file.write(content)
