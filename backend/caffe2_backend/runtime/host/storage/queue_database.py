"""CreateBlobsQueueDB: a queue that is read as a database."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from caffe2_backend.databases import Cursor, Database, DatabaseError, Mode
from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.host.objects.blobs_queue import BlobsQueue
from caffe2_backend.runtime.host.storage.readers import HostReader
from caffe2_backend.runtime.values import Value, text_bytes

family = HostFamily("queues as databases")


class QueueCursor(Cursor):
    """Takes records from a queue: the first one when it is asked for, each other one when it moves on, as in Caffe2.

    Args:
        queue: the queue.
        key: index of the blob with the key; negative for empty keys.
        value: index of the blob with the value.
        timeout: seconds to wait for a record; None waits for ever.
    """

    def __init__(self, queue: BlobsQueue, key: int, value: int, timeout: float | None) -> None:
        self._queue = queue
        self._indices = key, value
        self._timeout = timeout
        self._begun = False
        self._record: list[Value | None] | None = None

    def seek_to_first(self) -> None:
        """Ask the queue again for a record, if there was none."""
        self._begun = self._record is not None

    def _is_valid(self) -> bool:
        if not self._begun:
            self._next()
        return self._record is not None

    def _key(self) -> bytes:
        return self._text(self._indices[0]) if self._indices[0] >= 0 else b""

    def _value(self) -> bytes:
        return self._text(self._indices[1])

    def _next(self) -> None:
        self._begun = True
        self._record = self._queue.read([None] * self._queue.num_blobs, self._timeout)

    def _text(self, index: int) -> bytes:
        assert self._record is not None
        value = self._record[index]
        if isinstance(value, np.ndarray) and value.dtype == object and value.size:
            value = text_bytes(value.reshape(-1)[0])
        if not isinstance(value, bytes):
            raise DatabaseError("the records of the queue must be texts, or tensors of them")
        return value


class QueueDatabase(Database):
    """A queue as a database that one cursor reads."""

    def __init__(self, cursor: QueueCursor) -> None:
        self._only_cursor = cursor
        super().__init__("", Mode.READ)

    def _open(self) -> None:
        pass

    def _cursor(self) -> Cursor:
        return self._only_cursor

    def _write(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        raise NotImplementedError


@family.runs("CreateBlobsQueueDB")
def create_blobs_queue_db(op: HostOp) -> None:
    """CreateBlobsQueueDB(queue; key_blob_index=-1, value_blob_index=0, timeout_secs=0) -> reader."""
    queue = op.object(0, BlobsQueue)
    key = op.args.integer("key_blob_index", default=-1)
    value = op.args.integer("value_blob_index", default=0)
    if not 0 <= value < queue.num_blobs or key >= queue.num_blobs:
        raise op.error(f"the queue has {queue.num_blobs} blobs, and none with the indices {key} and {value}")
    timeout = op.args.number("timeout_secs", default=0)
    cursor = QueueCursor(queue, key, value, timeout if timeout > 0 else None)
    op.set(0, HostReader("", "", QueueDatabase(cursor)))
