"""Timers, which add to statistics, and the clock."""

from __future__ import annotations

import time

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.host.objects.stat_registry import GLOBAL_STATISTICS
from caffe2_backend.runtime.values import HostObject

family = HostFamily("timers")


class HostTimer(HostObject):
    """A timer; ``name`` is that of its statistics, the sum and the number of the times taken."""

    type_name = "caffe2::TimerInstance*"

    def __init__(self, name: str) -> None:
        self._key = f"{name}/time_ns"
        self._start: int | None = None
        GLOBAL_STATISTICS.declare((f"{self._key}/sum", f"{self._key}/count"))

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._start is not None

    def start(self) -> None:
        """Start it."""
        self._start = time.perf_counter_ns()

    def elapsed(self) -> int:
        """Return the time since it was started, in nanoseconds; 0 if it is not running."""
        return 0 if self._start is None else time.perf_counter_ns() - self._start

    def stop(self) -> None:
        """Stop it, and add the time to the statistics."""
        GLOBAL_STATISTICS.add(f"{self._key}/sum", self.elapsed())
        GLOBAL_STATISTICS.add(f"{self._key}/count", 1)
        self._start = None


@family.runs("TimerBegin")
def timer_begin(op: HostOp) -> None:
    """TimerBegin(; counter_name) -> timer. The name is that of the output by default."""
    timer = op.state.get("timer")
    if timer is None:
        timer = op.state["timer"] = HostTimer(op.args.text("counter_name", default=op.outputs[0]))
    if timer.is_running:
        raise op.error("the timer is running already")
    timer.start()
    op.set(0, timer)


@family.runs("TimerEnd")
def timer_end(op: HostOp) -> None:
    """TimerEnd(timer) -> ()."""
    _running(op).stop()


@family.runs("TimerGet")
def timer_get(op: HostOp) -> None:
    """TimerGet(timer) -> nanoseconds, an int64 without dims."""
    op.set(0, np.int64(_running(op).elapsed()))


@family.runs("TimerGetAndEnd")
def timer_get_and_end(op: HostOp) -> None:
    """TimerGetAndEnd(timer) -> nanoseconds, an int64 tensor of one element."""
    timer = _running(op)
    elapsed = timer.elapsed()
    timer.stop()
    op.set(0, np.array([elapsed], np.int64))


def _running(op: HostOp) -> HostTimer:
    timer = op.object(0, HostTimer)
    if not timer.is_running:
        raise op.error("the timer is not running")
    return timer


@family.runs("WallClockTime")
def wall_clock_time(op: HostOp) -> None:
    """WallClockTime() -> nanoseconds since 1970, an int64 without dims."""
    op.set(0, np.int64(time.time_ns()))
