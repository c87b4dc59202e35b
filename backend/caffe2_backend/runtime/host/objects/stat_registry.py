"""Statistics: numbers by name that operators add to, of the whole process or of a registry of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from caffe2_backend.runtime.values import HostObject


class Statistic(NamedTuple):
    """A number, and when it was read, in nanoseconds since 1970."""

    key: str
    value: int
    time_ns: int


class StatRegistry(HostObject):
    """Numbers by name; threads may add to them at the same time."""

    type_name = "std::unique_ptr<caffe2::StatRegistry>"

    def __init__(self) -> None:
        self._values: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, key: str, number: int) -> None:
        """Add to a number, which is 0 at first."""
        with self._lock:
            self._values[key] = self._values.get(key, 0) + number

    def declare(self, keys: Iterable[str]) -> None:
        """Let numbers exist; those that do keep their values."""
        with self._lock:
            for key in keys:
                self._values.setdefault(key, 0)

    def export(self, *, reset: bool) -> list[Statistic]:
        """Return all numbers; with ``reset`` they are 0 from then on."""
        with self._lock:
            found = [Statistic(key, value, time.time_ns()) for key, value in self._values.items()]
            if reset:
                self._values = dict.fromkeys(self._values, 0)
            return found


# The registry of the process.
GLOBAL_STATISTICS: Final = StatRegistry()
