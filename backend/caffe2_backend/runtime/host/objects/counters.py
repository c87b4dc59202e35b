"""Counters: CreateCounter, ResetCounter, CountDown, CountUp, CheckCounterDone and RetrieveCount."""

from __future__ import annotations

import threading

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.values import HostObject

family = HostFamily("counters")


class HostCounter(HostObject):
    """A count that threads share; each change of it is one step for all of them."""

    type_name = "std::unique_ptr<caffe2::Counter<long int> >"

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()

    def add(self, number: int) -> int:
        """Add to the count; return the count before."""
        with self._lock:
            before = self._count
            self._count += number
            return before

    def reset(self, count: int) -> int:
        """Set the count; return the count before."""
        with self._lock:
            before, self._count = self._count, count
            return before

    @property
    def count(self) -> int:
        """The count."""
        return self._count


@family.runs("CreateCounter")
def create_counter(op: HostOp) -> None:
    """CreateCounter(; init_count=0) -> counter."""
    op.set(0, HostCounter(op.args.integer("init_count", default=0)))


@family.runs("ResetCounter")
def reset_counter(op: HostOp) -> None:
    """ResetCounter(counter; init_count=0) -> [count before]."""
    before = op.object(0, HostCounter).reset(op.args.integer("init_count", default=0))
    if op.outputs:
        op.set(0, np.int64(before))


@family.runs("CountUp")
def count_up(op: HostOp) -> None:
    """CountUp(counter) -> count before."""
    op.set(0, np.int64(op.object(0, HostCounter).add(1)))


@family.runs("CountDown")
def count_down(op: HostOp) -> None:
    """CountDown(counter) -> whether the count before was at most 0; Caffe2 counts on below 0."""
    op.set(0, np.bool_(op.object(0, HostCounter).add(-1) <= 0))


@family.runs("CheckCounterDone")
def check_counter_done(op: HostOp) -> None:
    """CheckCounterDone(counter) -> whether the count is at most 0."""
    op.set(0, np.bool_(op.object(0, HostCounter).count <= 0))


@family.runs("RetrieveCount")
def retrieve_count(op: HostOp) -> None:
    """RetrieveCount(counter) -> count."""
    op.set(0, np.int64(op.object(0, HostCounter).count))
