"""A process that runs models one after another, watched by the one that started it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Container, Mapping
from typing import Any, Final

from caffe2_backend.child_python import isolated_python
from caffe2_fleet.process.memory import resident_bytes
from caffe2_fleet.result import VERDICTS

_START_SECONDS: Final = 300.0
_WATCH_SECONDS: Final = 0.05  # between two looks at the memory of the process
_CHUNK: Final = 1 << 16
_LINES: Final = 3  # of a process that ended
_SHOWN: Final = 100  # bytes of a line that is not an answer
# SIGINT is ignored before anything is imported, which takes a second.
_SERVER: Final = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "from caffe2_fleet.process.server import serve; serve()"
)


class ProcessEndedError(Exception):
    """The process ended before it answered, or wrote something else.

    ``cause`` is ``process died`` with the name of the signal or ``status N``, or ``process wrote no answer``.
    """

    def __init__(self, message: str, cause: str) -> None:
        super().__init__(message)
        self.cause = cause


class LimitError(Exception):
    """The process exceeded a limit and was ended; ``limit`` is one of ``caffe2_fleet.result.LIMITS``."""

    def __init__(self, message: str, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class ModelProcess:
    """A process of its own session, so that Ctrl-C reaches the batch alone, which ends it.

    Whoever interrupts all processes of a job, as schedulers of clusters do, interrupts the batch alone, too.
    """

    def __init__(self) -> None:
        self._errors: Any = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process, closed with it
        self._process = subprocess.Popen(  # noqa: S603 - this Python, with this project's own server
            isolated_python(_SERVER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            start_new_session=True, bufsize=0,
        )  # fmt: skip
        self._rest = b""
        self._started = False

    @property
    def memory(self) -> int:
        """The resident memory of the process and its children, in bytes; 0 where the system does not report it."""
        return resident_bytes(self._process.pid)

    def ask(self, request: Mapping[str, Any], seconds: float, memory: int | None = None) -> dict[str, Any]:
        """Send a request and return the answer.

        Args:
            request: plain data.
            seconds: time limit of the answer, without the time that the process takes to start.
            memory: limit of the resident memory, in bytes; None for no limit.

        Raises:
            ProcessEndedError: the process ended, or what it wrote is not an answer; the message has its status and its
                last lines, or the line. The process must not be used again.
            LimitError: a limit was exceeded, and the process was ended.
        """
        if not self._started:
            self._read_object(_START_SECONDS, None)
            self._started = True
        assert self._process.stdin is not None
        try:
            left = memoryview(json.dumps(request).encode() + b"\n")
            while left:
                left = left[self._process.stdin.write(left) :]
        except BrokenPipeError:
            raise self._ending() from None
        return self._read_object(seconds, memory, "verdict", VERDICTS)

    def kill(self) -> None:
        """End the process and its children; a thread that waits for an answer gets a ProcessEndedError."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process, and give back what it holds."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                pipe.close()

    def _read_object(
        self, seconds: float, memory: int | None, key: str = "ready", values: Container[Any] | None = None
    ) -> dict[str, Any]:
        """Read a line that holds a JSON object with a key, whose value is one of ``values``."""
        line = self._read_line(seconds, memory)
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if isinstance(found, dict) and key in found and (values is None or found[key] in values):
            return found
        shown = line[:_SHOWN].decode(errors="replace")
        raise ProcessEndedError(f"its process wrote a line that is not an answer: {shown!r}", "process wrote no answer")

    def _read_line(self, seconds: float, memory: int | None) -> bytes:
        assert self._process.stdout is not None
        source = self._process.stdout.fileno()
        deadline = time.monotonic() + seconds
        watched = select.poll()
        watched.register(source, select.POLLIN | select.POLLHUP)
        while b"\n" not in self._rest:
            wait = deadline - time.monotonic()
            if wait <= 0:
                raise LimitError(f"did not end within {seconds:g} seconds", "time limit")
            if not watched.poll(min(wait, _WATCH_SECONDS) * 1000):
                self._require_memory(memory)
                continue
            part = os.read(source, _CHUNK)
            if not part:
                raise self._ending()
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _require_memory(self, limit: int | None) -> None:
        if limit is not None and (taken := self.memory) > limit:
            message = f"took {taken >> 20} MiB of memory, more than the limit of {limit >> 20} MiB"
            raise LimitError(message, "memory limit")

    def _ending(self) -> ProcessEndedError:
        """Return how the process ended."""
        status = self._process.wait()
        self._errors.seek(0)
        tail = " ".join(self._errors.read().decode(errors="replace").splitlines()[-_LINES:])
        name = signal.Signals(-status).name if -status in set(signal.Signals) else ""
        text = f"its process ended with status {status}" + (f" ({name})" if name else "")
        return ProcessEndedError(f"{text}: {tail}" if tail else text, f"process died ({name or f'status {status}'})")
