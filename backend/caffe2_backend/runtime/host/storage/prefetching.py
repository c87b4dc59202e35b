"""Operators that read the next batch while a net works on this one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Generic, TypeVar

from caffe2_backend.runtime.host.family import Ahead, HostOp
from caffe2_backend.runtime.host.waiting import CancelledError

Batch = TypeVar("Batch")


class Prefetcher(Ahead, Generic[Batch]):
    """Calls a function in a thread, once ahead of what it is asked for. An error ends it: it is raised every time."""

    def __init__(self, make: Callable[[], Batch]) -> None:
        self._make = make
        self._pending: Future[Batch] | None = None
        self._lock = threading.Lock()

    def take(self) -> Batch:
        """Return the next result, and begin with the one after it."""
        with self._lock:
            if self._pending is None:
                self._pending = self._begin()
            try:
                batch = self._pending.result()
            except CancelledError:
                self._pending = None
                raise
            self._pending = self._begin()
            return batch

    def finish(self) -> None:
        """Wait until nothing is read any more."""
        if self._pending is not None:
            self._pending.exception()

    def _begin(self) -> Future[Batch]:
        future: Future[Batch] = Future()

        def work() -> None:
            try:
                future.set_result(self._make())
            except Exception as error:  # noqa: BLE001 - whoever takes the batch raises it
                future.set_exception(error)

        # The thread waits as its operator does: not after the plan has failed.
        threading.Thread(target=copy_context().run, args=(work,), name="caffe2-bridge-prefetch", daemon=True).start()
        return future


def next_batch(op: HostOp, make: Callable[[], Batch]) -> Batch:
    """Return the next batch of an operator: read ahead by one, unless its argument ``no_prefetch`` is set."""
    if op.args.flag("no_prefetch", default=False):
        return make()
    prefetcher = op.state.setdefault("prefetcher", Prefetcher(make))
    batch: Batch = prefetcher.take()
    return batch
