"""BlobsQueue: blobs that go from thread to thread through slots of a queue.

As in Caffe2, a slot and the workspace swap their values: after an enqueue a blob holds what the slot held before, and
after a dequeue the slot holds what the blob held. A closed queue can be read until it is empty, and still be written
while there is room.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.host.objects.stat_registry import GLOBAL_STATISTICS
from caffe2_backend.runtime.host.waiting import wait_for
from caffe2_backend.runtime.values import Array, HostObject, Int8Tensor, Value, to_host

family = HostFamily("blobs_queue")

_Record = list[Value | None]


class BlobsQueue(HostObject):
    """Records of a fixed number of blobs in a ring of slots; any number of threads may read and write.

    Args:
        name: of its statistics.
        capacity: the number of slots.
        num_blobs: the number of blobs of a record.
        field_names: names of the blobs in the statistics.
    """

    type_name = "std::shared_ptr<caffe2::BlobsQueue>"

    def __init__(self, name: str, capacity: int, num_blobs: int, field_names: Sequence[str] = ()) -> None:
        self._name = name
        self.num_blobs: Final = num_blobs
        self._field_names = tuple(field_names)
        self._capacity = capacity
        self._slots: dict[int, _Record] = {}  # those that were used: the capacity may be any number
        self._read = 0
        self._written = 0
        self._closed = False
        self._changed = threading.Condition()

    def write(self, record: _Record) -> _Record | None:
        """Wait for room and write a record; return what the slot held, or None if the queue is closed and full."""
        start = time.perf_counter_ns()
        with self._changed:
            self._count("queue_balance", 1)
            wait_for(self._changed, lambda: self._closed or self._has_room())
            if not self._has_room():
                return None
            slot = self._written % self._capacity
            before = self._slots.get(slot) or [None] * self.num_blobs
            self._slots[slot] = record
            self._written += 1
            self._changed.notify_all()
        self._time("write_time_ns", start)
        return before

    def read(self, before: _Record, timeout: float | None = None) -> _Record | None:
        """Wait for a record and read it; the slot holds ``before`` from then on.

        Returns None if the queue is closed and empty, or if there was no record in ``timeout`` seconds.
        """
        start = time.perf_counter_ns()
        with self._changed:
            self._count("queue_balance", -1)
            wait_for(self._changed, lambda: self._closed or self._has_record(), timeout)
            if not self._has_record():
                return None
            slot = self._read % self._capacity
            record, self._slots[slot] = self._slots[slot], before
            self._read += 1
            self._changed.notify_all()
        self._count("queue_dequeued_records", 1)
        for i, value in enumerate(record):
            size = _bytes(value)
            self._count("queue_dequeued_bytes", size)
            if self._field_names:
                self._count(f"queue_dequeued_bytes/{self._field_names[i]}", size)
        self._time("read_time_ns", start)
        return record

    def close(self) -> None:
        """Close the queue: nobody waits for it any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return self._written < self._read + self._capacity

    def _has_record(self) -> bool:
        return self._read < self._written

    def _count(self, what: str, number: int) -> None:
        GLOBAL_STATISTICS.add(f"{self._name}/{what}", number)

    def _time(self, what: str, start: int) -> None:
        self._count(f"{what}/sum", time.perf_counter_ns() - start)
        self._count(f"{what}/count", 1)


def _bytes(value: Value | None) -> int:
    """Return the size of a value in memory; of strings, the lengths."""
    if value is None or isinstance(value, HostObject):
        return 0
    if isinstance(value, bytes):
        return len(value)
    array = to_host(value)
    return sum(len(item) for item in array.reshape(-1)) if array.dtype == object else array.nbytes


@family.runs("CreateBlobsQueue")
def create_blobs_queue(op: HostOp) -> None:
    """CreateBlobsQueue(; capacity=1, num_blobs=1, field_names=[], enforce_unique_name=0) -> queue."""
    num_blobs = op.args.integer("num_blobs", default=1)
    names = op.args.texts("field_names", ())
    if names and len(names) != num_blobs:
        raise op.error(f"field_names has {len(names)} names, and the queue {num_blobs} blobs")
    capacity = op.args.integer("capacity", default=1)
    if capacity < 1 or num_blobs < 1:
        raise op.error("capacity and num_blobs must be positive")
    if op.args.flag("enforce_unique_name", default=False) and isinstance(op.find(op.outputs[0]), BlobsQueue):
        raise op.error(f"queue {op.outputs[0]!r} exists already")
    op.set(0, BlobsQueue(op.outputs[0], capacity, num_blobs, names))


@family.runs("CloseBlobsQueue")
def close_blobs_queue(op: HostOp) -> None:
    """CloseBlobsQueue(queue) -> ()."""
    op.object(0, BlobsQueue).close()


@family.runs("EnqueueBlobs")
def enqueue_blobs(op: HostOp) -> None:
    """EnqueueBlobs(queue, blobs...) -> blobs..., in place. It fails if the queue is closed and full."""
    if not _enqueue(op, op.outputs):
        raise op.error(f"queue {op.inputs[0]!r} is closed")


@family.runs("SafeEnqueueBlobs")
def safe_enqueue_blobs(op: HostOp) -> None:
    """SafeEnqueueBlobs(queue, blobs...) -> blobs..., whether the queue is closed and full."""
    done = _enqueue(op, op.outputs[:-1])
    op.set(len(op.outputs) - 1, np.bool_(not done))


def _enqueue(op: HostOp, names: Sequence[str]) -> bool:
    queue = _queue(op, names)
    if tuple(names) != op.inputs[1:]:
        raise op.error("the blobs must be enqueued in place: the outputs must be the inputs after the queue")
    before = queue.write([op.value(i + 1) for i in range(len(names))])
    if before is None:
        return False
    for name, value in zip(names, before, strict=True):
        op.write(name, value)
    return True


@family.runs("DequeueBlobs")
def dequeue_blobs(op: HostOp) -> None:
    """DequeueBlobs(queue; timeout_secs=0) -> blobs.... It fails if the queue is closed and empty, or after a time."""
    timeout = op.args.number("timeout_secs", default=0)
    queue = _queue(op, op.outputs)
    if not _dequeue(op, queue, op.outputs, timeout if timeout > 0 else None):
        after = f"is closed, or was empty for {timeout:g} seconds" if timeout > 0 else "is closed"
        raise op.error(f"queue {op.inputs[0]!r} {after}")


@family.runs("SafeDequeueBlobs")
def safe_dequeue_blobs(op: HostOp) -> None:
    """SafeDequeueBlobs(queue; num_records=1) -> blobs..., whether the queue is closed and empty.

    With ``num_records`` the rows of so many records are concatenated, of fewer where the queue is closed before.
    """
    names, status = op.outputs[:-1], len(op.outputs) - 1
    queue, count = _queue(op, names), op.args.integer("num_records", default=1)
    if count == 1:
        op.set(status, np.bool_(not _dequeue(op, queue, names, None)))
        return
    rows: list[list[Array]] = [[] for _ in names]
    for _ in range(count):
        record = queue.read([None] * len(names))
        if record is None:
            break
        for i, value in enumerate(record):
            rows[i].append(_rows(op, names[i], value))
    if rows[0]:
        for name, parts in zip(names, rows, strict=True):
            if len({(part.dtype, part.shape[1:]) for part in parts}) > 1:
                raise op.error(f"the records of {name!r} differ in element types or in dims other than the first")
            op.write(name, np.concatenate(parts))
    op.set(status, np.bool_(not rows[0]))


def _rows(op: HostOp, name: str, value: Value | None) -> Array:
    if value is None or isinstance(value, bytes | HostObject | Int8Tensor) or not to_host(value).ndim:
        raise op.error(f"blob {name!r} must be a tensor with a first dim, for records to be concatenated")
    return to_host(value)


@family.runs("WeightedSampleDequeueBlobs")
def weighted_sample_dequeue_blobs(op: HostOp) -> None:
    """WeightedSampleDequeueBlobs(queues...; weights, table_idx_blob=-1) -> blobs..., whether the queue is closed.

    The queue is drawn with the given weights; output ``table_idx_blob``, if any, is its index.
    """
    weights = np.array(op.args.numbers("weights"))
    if len(weights) != len(op.inputs):
        raise op.error(f"there are {len(op.inputs)} queues, and {len(weights)} weights")
    position = op.args.integer("table_idx_blob", default=-1)
    if position >= len(op.outputs) - 1:
        raise op.error("table_idx_blob must be before the last output")
    draw = np.random.default_rng(op.frame.draw_seed()).random() * weights.sum()
    index = min(int(np.searchsorted(np.cumsum(weights), draw, side="right")), len(weights) - 1)
    queue = op.object(index, BlobsQueue)
    if len(op.outputs) != queue.num_blobs + 1 + (position >= 0):
        raise op.error(f"the queues have {queue.num_blobs} blobs, and the operator {len(op.outputs)} outputs")
    done = _dequeue(op, queue, op.outputs[: queue.num_blobs], None)
    if position >= 0:
        op.set(position, np.array([index], np.int32))
    op.set(queue.num_blobs, np.bool_(not done))


def _queue(op: HostOp, names: Sequence[str]) -> BlobsQueue:
    queue = op.object(0, BlobsQueue)
    if len(names) != queue.num_blobs:
        raise op.error(f"queue {op.inputs[0]!r} has {queue.num_blobs} blobs, and the operator {len(names)}")
    return queue


def _dequeue(op: HostOp, queue: BlobsQueue, names: Sequence[str], timeout: float | None) -> bool:
    record = queue.read([op.find(name) for name in names], timeout)
    if record is None:
        return False
    for name, value in zip(names, record, strict=True):
        op.write(name, value)
    return True
