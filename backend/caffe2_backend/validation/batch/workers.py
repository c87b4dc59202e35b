"""The processes of a batch, which end with it."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field


class StoppedError(Exception):
    """The batch was interrupted: what a process answered, or that it ended, says nothing of its model."""


@dataclass(frozen=True)
class Answer:
    """What a process printed, and its status."""

    output: str
    errors: str
    status: int


@dataclass
class Workers:
    """The processes that run now; threads may start them until they are stopped."""

    _running: set[subprocess.Popen[str]] = field(default_factory=set)
    _stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, words: Sequence[str], text: str, seconds: float) -> Answer | None:
        """Run a command with a text as its input; None if it took longer. Raises StoppedError after :meth:`stop`.

        It has a session of its own: Ctrl-C reaches the batch alone, which stops it.
        """
        with self._lock:
            if self._stopped:
                raise StoppedError
            process = subprocess.Popen(  # noqa: S603 - this project's own module
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=os.name == "posix",
            )  # fmt: skip
            self._running.add(process)
        try:
            output, errors = process.communicate(text, timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None
        finally:
            with self._lock:
                self._running.discard(process)
        if self._stopped:
            raise StoppedError
        return Answer(output, errors, process.returncode)

    def stop(self) -> None:
        """Start no more processes, and end those that run."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            process.kill()
