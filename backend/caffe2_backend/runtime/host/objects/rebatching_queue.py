"""RebatchingQueue: single elements of batches, which leave the queue in batches of another size."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.host.waiting import wait_for
from caffe2_backend.runtime.values import Array, HostObject

family = HostFamily("rebatching_queue")

_Element = tuple[Array, ...]


class RebatchingQueue(HostObject):
    """Elements of ``num_blobs`` tensors; any number of threads may read and write."""

    type_name = "std::unique_ptr<caffe2::RebatchingQueue>"

    def __init__(self, capacity: int, num_blobs: int) -> None:
        self._capacity = capacity
        self.num_blobs: Final = num_blobs
        self._elements: deque[_Element] = deque()
        self._closed = False
        self._changed = threading.Condition()

    def write(self, elements: Sequence[_Element]) -> bool:
        """Write elements as there is room for them; return False if the queue was closed before all were written."""
        for element in elements:
            with self._changed:
                wait_for(self._changed, lambda: self._closed or len(self._elements) < self._capacity)
                if self._closed:
                    return False
                self._elements.append(element)
                self._changed.notify_all()
        return True

    def read(self, count: int) -> list[_Element]:
        """Wait for so many elements and read them, fewer if the queue is closed and empty before."""
        found: list[_Element] = []
        while len(found) < count:
            with self._changed:
                wait_for(self._changed, lambda: self._closed or bool(self._elements))
                if not self._elements:
                    break
                while self._elements and len(found) < count:
                    found.append(self._elements.popleft())
                self._changed.notify_all()
        return found

    def close(self) -> None:
        """Close the queue: nobody waits for it any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


@family.runs("CreateRebatchingQueue")
def create(op: HostOp) -> None:
    """CreateRebatchingQueue(; capacity=1, num_blobs=1) -> queue."""
    capacity, num_blobs = (op.args.integer(name, default=1) for name in ("capacity", "num_blobs"))
    if capacity < 1 or num_blobs < 1:
        raise op.error("capacity and num_blobs must be positive")
    op.set(0, RebatchingQueue(capacity, num_blobs))


@family.runs("CloseRebatchingQueue")
def close(op: HostOp) -> None:
    """CloseRebatchingQueue(queue) -> ()."""
    op.object(0, RebatchingQueue).close()


@family.runs("EnqueueRebatchingQueue")
def enqueue(op: HostOp) -> None:
    """EnqueueRebatchingQueue(queue, tensors...; enqueue_batch=0) -> (): one element, or the rows of a batch.

    It fails if the queue is closed.
    """
    queue = op.object(0, RebatchingQueue)
    arrays = [op.array(i) for i in range(1, len(op.inputs))]
    _require_blobs(op, queue, len(arrays))
    elements = [tuple(arrays)]
    if op.args.flag("enqueue_batch", default=False):
        if any(not array.ndim for array in arrays) or len({len(array) for array in arrays}) != 1:
            raise op.error("the tensors of a batch must have the same first dim")
        elements = [tuple(array[i : i + 1].reshape(array.shape[1:]) for array in arrays) for i in range(len(arrays[0]))]
    if not queue.write(elements):
        raise op.error(f"queue {op.inputs[0]!r} is closed")


@family.runs("DequeueRebatchingQueue")
def dequeue(op: HostOp) -> None:
    """DequeueRebatchingQueue(queue; num_elements=1) -> tensors...: a batch of elements.

    It is smaller where the queue is closed before; the operator fails if the queue is closed and empty.
    """
    queue = op.object(0, RebatchingQueue)
    _require_blobs(op, queue, len(op.outputs))
    found = queue.read(op.args.integer("num_elements", default=1))
    if not found:
        raise op.error(f"queue {op.inputs[0]!r} is closed, or no elements were asked for")
    for i in range(queue.num_blobs):
        column = [element[i] for element in found]
        if len({(array.dtype, array.shape) for array in column}) > 1:
            raise op.error(f"the elements of {op.outputs[i]!r} differ in element types or shapes")
        op.set(i, np.stack(column))


def _require_blobs(op: HostOp, queue: RebatchingQueue, count: int) -> None:
    if count != queue.num_blobs:
        raise op.error(f"queue {op.inputs[0]!r} has {queue.num_blobs} blobs, and the operator {count}")
