"""Bursts: steps of one net in a row, of which a workspace sees the last.

A step of a tiny net takes a few microseconds, less than reading its inputs from a workspace and writing its results
there. Steps that nobody interrupts need neither: each starts from what the one before it left. A burst ends after as
long as Python runs a thread before it switches to another one, and as soon as another thread writes a blob, so that
its value is read by the next step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

SECONDS: Final = 5e-3


class Burst:
    """Counts the steps of a burst; the first is made in any case.

    Args:
        times: how many steps there may be.
        unchanged: whether no blob was written since the first step began.
    """

    def __init__(self, times: int, unchanged: Callable[[], bool]) -> None:
        self.steps = 1
        self._times = times
        self._unchanged = unchanged
        self._end = time.perf_counter() + SECONDS if times > 1 else 0.0

    def goes_on(self) -> bool:
        """Whether another step follows, which is counted."""
        if self.steps >= self._times or time.perf_counter() > self._end or not self._unchanged():
            return False
        self.steps += 1
        return True

    def take_back(self) -> None:
        """Take back the count of a step that was not made, or failed: the next burst starts with it."""
        self.steps -= 1


ONCE: Final = Burst(1, bool)
