"""The model processes of one machine: idle ones are used again, all end together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from caffe2_fleet.process.model_process import LimitError, ModelProcess, ProcessEndedError

_LARGEST: Final = 1 << 30  # an idle process that holds more memory is replaced


class StoppedError(Exception):
    """The pool was stopped: what a process answered, or that it ended, says nothing of its model."""


@dataclass
class ProcessPool:
    """Processes that threads share; each serves one thread at a time."""

    _idle: list[ModelProcess] = field(default_factory=list)
    _busy: set[ModelProcess] = field(default_factory=set)
    _stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def lease(self, *, fresh: bool = False) -> Iterator[ModelProcess]:
        """Lend a process; it is ended afterwards if it is fresh, failed, or holds much memory.

        Args:
            fresh: whether the process must not have run anything, nor run anything afterwards.

        Raises StoppedError after :meth:`stop`, also if the process was in use then.
        """
        process = self._take(fresh=fresh)
        good = False
        try:
            yield process
            good = not fresh
        except (ProcessEndedError, LimitError, OSError, ValueError) as error:
            if self._stopped:
                raise StoppedError from error
            raise
        finally:
            self._give_back(process, kept=good and process.memory <= _LARGEST)
        if self._stopped:
            raise StoppedError

    def stop(self) -> None:
        """Start no more processes, and end those that run."""
        with self._lock:
            self._stopped = True
            running, idle = list(self._busy), list(self._idle)
            self._idle.clear()
        for process in running:
            process.kill()
        for process in idle:
            process.close()

    def _take(self, *, fresh: bool) -> ModelProcess:
        with self._lock:
            if self._stopped:
                raise StoppedError
            process = self._idle.pop() if self._idle and not fresh else ModelProcess()
            self._busy.add(process)
            return process

    def _give_back(self, process: ModelProcess, *, kept: bool) -> None:
        with self._lock:
            self._busy.discard(process)
            if kept and not self._stopped:
                self._idle.append(process)
                return
        process.close()
