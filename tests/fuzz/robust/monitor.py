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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from fuzz.robust.inputs import Input
from fuzz.robust.outcome import Outcome, Status, place_in_dump, runs_a_model, unanswered
from fuzz.robust.progress import Counts, Progress

SECONDS: Final = 10.0  # of processor time that a call may take
_WALL: Final = 60.0  # seconds that it may take in all, for it may also wait
_POLL: Final = 0.5
_RUNNABLE: Final = "R"  # it computes, or another process does in its stead
_PIECE: Final = 1 << 16
_STARTING: Final = 120.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Violation:
    """A call that the contract does not allow, or that ran for long.

    Attributes:
        index: of the drawn input.
        kind: of the input.
        door: that the input was taken to.
        outcome: how the call ended.
    """

    index: int
    kind: str
    door: str
    outcome: Outcome


class Monitor:
    """A worker process; started again after it ended. A context manager that ends it."""

    def __init__(self, seeds: Path, seconds: float = SECONDS) -> None:
        self._seeds = seeds
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._made = tempfile.TemporaryDirectory()
        self._progress = Progress.create(Path(self._made.name) / "progress")
        self._unread = b""
        self._asked = 0
        self.restarts = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._made.cleanup()

    @property
    def counts(self) -> Counts:
        """How many calls ended how, by kind of input and door."""
        return self._progress.counts()

    def drawn(self, seed: int, indices: range) -> Iterator[Violation]:
        """Call doors with drawn inputs; yield violations as they occur."""
        first = indices.start
        while first < indices.stop:
            self._send({"seed": seed, "first": first, "stop": indices.stop})
            for violation in self._violations():
                yield violation
                first = violation.index + 1
            if self._process is not None:
                return

    def given(self, found: Input, door: str) -> Outcome:
        """The outcome of a given input at a door."""
        with tempfile.TemporaryDirectory() as folder:
            found.write(Path(folder))
            self._send({"kind": found.kind, "folder": folder, "door": door})
            (answer,) = self._violations()
            return answer.outcome

    def _send(self, request: dict[str, Any]) -> None:
        process = self._started()
        assert process.stdin is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()

    def _violations(self) -> Iterator[Violation]:
        """The answers to a request; the last one is the end of the process, if it ended."""
        assert self._process is not None
        while True:
            line = self._answer(self._process)
            if isinstance(line, Outcome):
                call = self._progress.call()
                self._stop()
                if not call.calls:
                    raise RuntimeError(f"the worker did not start: {line.detail}")
                self._progress.count(call.kind, call.door, line.status)
                yield Violation(call.index, call.kind, call.door, line)
                return
            answer = json.loads(line)
            if not answer:
                return
            yield Violation(answer["index"], answer["kind"], answer["door"], Outcome.from_json(answer))

    def _answer(self, process: subprocess.Popen[bytes]) -> str | Outcome:
        """The line that the process answers with, or how it failed to."""
        assert process.stdout is not None
        waited, asked, calls = 0.0, time.monotonic(), -1
        ran, before = 0.0, 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                line, ended, rest = self._unread.partition(b"\n")
                if ended:
                    self._unread = rest
                    return line.decode()
                if selector.select(_POLL):
                    read = os.read(process.stdout.fileno(), _PIECE)
                    self._unread += read
                    if not read:
                        return self._died(process)
                    continue
                call = self._progress.call()
                now = time.monotonic()
                state, computed = _state(process.pid)
                # Neither the time in which the machine stood still, and this process with it, is a part of the call,
                # nor that in which others had the processors.
                waited = 0.0 if call.calls != calls else waited + min(now - asked, 2 * _POLL) * (state != _RUNNABLE)
                ran = ran if call.calls == calls else 0.0
                # The first call of a process imports what doors import.
                allowed = self._seconds if call.calls > 1 else max(_STARTING, self._seconds)
                if waited > max(_WALL, allowed):
                    return unanswered(self._place(process), f"waits for more than {max(_WALL, allowed):.0f} s")
                spent = computed - call.processor
                if spent > allowed / 2:
                    place = self._place(process)
                    running = runs_a_model(place)
                    # What a model takes to run is not bounded: it is not counted, and ended as late as the rest.
                    ran += (computed - before) * (running and call.calls == calls)
                    if spent > allowed and (running or spent - ran > allowed):
                        return unanswered(place, f"computes for more than {allowed:.0f} s")
                asked, calls, before = now, call.calls, computed

    def _died(self, process: subprocess.Popen[bytes]) -> Outcome:
        code = process.wait()
        reason = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        text = self._printed()
        return Outcome(Status.DIED, place_in_dump(text), f"{reason}: {text[-300:]}")

    def _place(self, process: subprocess.Popen[bytes]) -> str:
        """The function of the project in which the worker is; empty if it does not say so."""
        assert self._errors is not None
        file = self._errors.fileno()
        start = os.fstat(file).st_size
        process.send_signal(signal.SIGUSR1)  # the worker writes where it is
        time.sleep(_POLL)
        self._asked = os.fstat(file).st_size
        return place_in_dump(os.pread(file, _PIECE, start).decode("utf-8", "replace"))

    def _printed(self) -> str:
        """What the worker has written since it was last asked where it is."""
        assert self._errors is not None
        self._errors.seek(self._asked)
        return self._errors.read().decode("utf-8", "replace")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
            self._progress.reset()
            self._unread = b""
            self._asked = 0
            words = [sys.executable, "-P", "-m", "fuzz.robust.worker", str(self._seeds), f"{self._made.name}/progress"]
            paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self._process = subprocess.Popen(  # noqa: S603 - this project's own module
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
                env={**os.environ, **paths}, start_new_session=True,  # Ctrl-C is for the monitor
            )  # fmt: skip
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


def _state(pid: int) -> tuple[str, float]:
    """The state of a process, a letter of ``proc(5)``, and the seconds that it has computed."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return "X", 0.0
    return fields[0], (int(fields[11]) + int(fields[12])) / _TICKS
