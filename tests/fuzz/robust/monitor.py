"""A worker process that is watched: its death, or that it does not answer, is an outcome."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from fuzz.robust.inputs import Input
from fuzz.robust.outcome import Outcome, Status, place_in_dump

SECONDS: Final = 10.0  # of processor time that a call may take
_WALL: Final = 60.0  # seconds that it may take in all, for it may also wait
_POLL: Final = 0.5
_STARTING: Final = 120.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Monitor:
    """A worker process; started again after it ended. A context manager that ends it."""

    def __init__(self, seeds: Path, seconds: float = SECONDS) -> None:
        self._seeds = seeds
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[bytes] | None = None
        self._fresh = True
        self.restarts = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def drawn(self, seed: int, index: int) -> tuple[str, str, Outcome]:
        """The kind, the door and the outcome of a drawn case; the first two are empty where the process ended."""
        return self._ask({"seed": seed, "index": index})

    def given(self, found: Input, door: str) -> Outcome:
        """The outcome of a given input at a door."""
        with tempfile.TemporaryDirectory() as folder:
            found.write(Path(folder))
            return self._ask({"kind": found.kind, "folder": folder, "door": door})[2]

    def _ask(self, request: dict[str, Any]) -> tuple[str, str, Outcome]:
        process = self._started()
        assert process.stdin is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = self._answer(process)
        if isinstance(line, Outcome):
            self._stop()
            return "", "", line
        answer = json.loads(line)
        return answer["kind"], answer["door"], Outcome.from_json(answer)

    def _answer(self, process: subprocess.Popen[str]) -> str | Outcome:
        """The line that the process answers with, or how it failed to."""
        assert process.stdout is not None
        fresh = self._fresh
        self._fresh = False
        start, spent = time.monotonic(), _processor_time(process.pid)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                if selector.select(_POLL):
                    line = process.stdout.readline()
                    return line or self._died(process)
                allowed = _STARTING if fresh else self._seconds
                too_long = time.monotonic() - start > max(_WALL, allowed)
                if too_long or _processor_time(process.pid) - spent > allowed:
                    return self._hung(process)

    def _died(self, process: subprocess.Popen[str]) -> Outcome:
        code = process.wait()
        reason = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        text = self._printed()
        return Outcome(Status.DIED, place_in_dump(text), f"{reason}: {text[-300:]}")

    def _hung(self, process: subprocess.Popen[str]) -> Outcome:
        process.send_signal(signal.SIGUSR1)  # the worker writes where it is
        time.sleep(_POLL)
        return Outcome(Status.HUNG, place_in_dump(self._printed()), f"more than {self._seconds:.0f} s")

    def _printed(self) -> str:
        assert self._errors is not None
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
            words = [sys.executable, "-m", "fuzz.robust.worker", str(self._seeds)]
            paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self._process = subprocess.Popen(  # noqa: S603 - this project's own module
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
                env={**os.environ, **paths},
            )  # fmt: skip
            self._fresh = True
            self.restarts += 1
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, self._errors):
                if stream is not None:
                    stream.close()


def _processor_time(pid: int) -> float:
    """Seconds that a process has computed."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
