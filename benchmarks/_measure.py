"""Contenders side by side: processes that take turns, and the table of what they took."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from conformance.oracle import find_oracle

HERE: Final = Path(__file__).resolve().parent
MEGA: Final = 1_000_000

# Between two turns: thread pools go on spinning for some milliseconds after their work, and would take the next
# contender's cores.
PAUSE_SECONDS: Final = 0.03


class ContenderError(RuntimeError):
    """A contender's process died."""


class Contender:
    """One process that runs its task when it is told to, see ``_worker.serve``."""

    def __init__(self, command: Sequence[str | Path], threads: int) -> None:
        """Start the process; it gets ready while others do."""
        self.peak = 0
        self._command = command
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            command,
            env=environment(threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()
        self._said.close()

    def answer(self) -> dict[str, Any]:
        """Return the next line that the process says. Raises ContenderError where it ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            self._said.seek(0)
            command = " ".join(map(str, self._command))
            raise ContenderError(f"{command} ended with status {status}\n{self._said.read()}")
        message: dict[str, Any] = json.loads(line)
        return message

    def turn(self, clock: str = "seconds") -> float:
        """Run the task once; return the seconds, or with the clock ``processor`` those of processors it had.

        ``peak`` is then the largest peak of memory of all runs, in bytes.
        """
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        answer = self.answer()
        self.peak = max(self.peak, answer["peak"])
        seconds: float = answer[clock]
        return seconds


def environment(threads: int) -> dict[str, str]:
    """Return the environment of a contender: so many threads, for each library that asks there.

    MKL 2020.0, which real Caffe2 1.9 was built with, multiplies matrices up to 40 times slower on processors of AMD if
    it is not told that they have AVX2.
    """
    number = str(threads)
    amd = {"MKL_DEBUG_CPU_TYPE": "5"} if b"AuthenticAMD" in _processors() else {}
    return {**os.environ, **amd, "OMP_NUM_THREADS": number, "MKL_NUM_THREADS": number}


@cache
def _processors() -> bytes:
    """Return what Linux says of the processors; nothing on other systems."""
    file = Path("/proc/cpuinfo")
    return file.read_bytes() if file.exists() else b""


def take_turns(
    commands: Mapping[str, Sequence[str | Path]],
    repeats: int,
    threads: int,
    peaks: dict[str, int] | None = None,
    clock: str = "seconds",
) -> dict[str, list[float]]:
    """Start a process for each command, and let them run one after another, ``repeats`` rounds of A B C, A B C ...

    Args:
        commands: by the contender's name.
        repeats: rounds that count; one more goes before them.
        threads: of each contender.
        peaks: gets the peak of resident memory of each contender, in bytes, by name.
        clock: see :meth:`Contender.turn`.

    Returns:
        The seconds of each round, by name.
    """
    with ExitStack() as stack:
        contenders: dict[str, Contender] = {}
        for name, command in commands.items():
            contenders[name] = stack.enter_context(Contender(command, threads))
            contenders[name].answer()
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        for round_number in range(repeats + 1):
            for name, contender in contenders.items():
                time.sleep(PAUSE_SECONDS)
                taken = contender.turn(clock)
                if round_number:
                    seconds[name].append(taken)
        if peaks is not None:
            peaks.update({name: contender.peak for name, contender in contenders.items()})
    return seconds


def run(command: Sequence[str | Path], threads: int) -> str:
    """Run a process to its end; what it printed. Raises ContenderError where it fails."""
    done = subprocess.run(command, env=environment(threads), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ContenderError(f"{' '.join(map(str, command))} ended with status {done.returncode}\n{done.stderr}")
    return done.stdout


def ours(script: str, *arguments: str | Path) -> list[str | Path]:
    """Return the command that runs a script of this folder in this Python."""
    return [sys.executable, HERE / script, *arguments]


def caffe2(*arguments: str | Path) -> list[str | Path]:
    """Return the command that runs real Caffe2. Exits where it is not installed: then there is nothing to compare."""
    python = find_oracle()
    if python is None:
        sys.exit("real Caffe2 is not installed; scripts/oracle installs it")
    return [python, HERE / "_caffe2.py", *arguments]


def caffe2_files(python: str | Path) -> Path:
    """Return the folder of the Python files of a real Caffe2."""
    (files,) = python.parents[1].glob("lib/python3*/site-packages")
    return files


@dataclass(frozen=True)
class Spread:
    """Median, smallest and largest of some figures."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Self:
        """Return the spread of figures."""
        return cls(statistics.median(figures), min(figures), max(figures))


def ratio(figures: Sequence[float], others: Sequence[float]) -> float:
    """Return how many times as long: the median over rounds, so that a busy moment of the machine hits both sides."""
    return statistics.median(a / b for a, b in zip(figures, others, strict=True))
