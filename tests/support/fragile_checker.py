"""A checker whose cases end as their ids say: for the test of the worker pool, whose processes import it by name."""

from __future__ import annotations

import os
import time

from conformance.check import Result, Status, Task


class SlowStart:
    """A checker that takes two seconds to make."""

    def __init__(self) -> None:
        time.sleep(2)

    def check(self, task: Task) -> Result:
        return Result(task, Status.PASSED)


class FragileChecker:
    def check(self, task: Task) -> Result:
        match task.ref.id.partition("@")[0]:
            case "dies":
                os.abort()
            case "hangs":
                time.sleep(600)
        return Result(task, Status.PASSED, detail=str(os.getpid()))
