"""What a worker process of the fuzzer does: draw a batch, judge its cases, make faults smaller."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from conformance.oracle import OracleServer

from fuzz.exact.drawing.domain import outside
from fuzz.exact.drawing.draw import draw_batch, vary
from fuzz.exact.drawing.drawn import Drawn
from fuzz.exact.imports import ImportJudge
from fuzz.exact.judge import Judge, Loaded, returns, run_of
from fuzz.exact.shrink import shrink
from fuzz.exact.verdict import FAULTS, Outcome, Verdict

_T = TypeVar("_T")
_R = TypeVar("_R")
# The bytes with which the witness fills new memory.
_FILLER = 165
# How many more cases of each net that can be converted are drawn: they share its conversion, which takes longest.
VARIANTS = 5
# Seconds of a case in real Caffe2, and bytes of address space for a batch.
_TIME_LIMIT = 5
_MEMORY_LIMIT = 6 << 30
# Of a batch, after which no more of its cases are judged: nets whose loops have no end take long in each of them.
_BATCH_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch of a seed with a number; ``types`` limit what it is drawn from.

    Of ``imports`` the exports are mutated and imported; the cases are compared otherwise.
    """

    seed: int
    number: int
    types: tuple[str, ...] = ()
    shrinks: bool = True
    imports: bool = False


@dataclass(frozen=True)
class Judged:
    """The verdicts on the cases of a batch, of so many nets."""

    batch: Batch
    verdicts: tuple[Verdict, ...]
    nets: int = 0


def lost(batch: Batch, reason: str) -> Judged:
    """What is known of a batch whose process died: that a case crashes."""
    return Judged(batch, (Verdict(Outcome.CRASHED, reason),))


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """Let what asks for very much memory raise an error: models whose sizes are elements of their inputs.

    onnxruntime does not return what a run that fails has asked for, so that batches before this one count for nothing.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY_LIMIT, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _in_time(cases: Sequence[_T], reals: Sequence[_R], deadline: float) -> Iterator[tuple[_T, _R]]:
    """The cases with their results in real Caffe2, until the deadline."""
    for pair in zip(cases, reals, strict=True):
        if time.monotonic() > deadline:
            return
        yield pair


def _is_doubtful(verdict: Verdict) -> bool:
    """Whether a case may have ended as it did because an earlier one of its request wrote out of bounds."""
    return verdict.outcome in FAULTS or verdict.outcome in {Outcome.DIED, Outcome.UNDEFINED}


def _outside(cases: Sequence[tuple[Drawn, Loaded | None]], deadline: float) -> Iterator[Verdict]:
    """The verdicts on those of some cases that are outside of the domain, until the deadline."""
    for drawn, loaded in cases:
        if time.monotonic() < deadline and (reason := outside(drawn)):
            with suppress(MemoryError):
                yield returns(drawn, reason, loaded)


class Lane:
    """Judges batches with two processes of real Caffe2."""

    def __init__(self) -> None:
        self._oracle = OracleServer(_TIME_LIMIT)
        self._witness = OracleServer(_TIME_LIMIT, filler=_FILLER)
        self._judge = Judge(self._oracle, self._witness)
        self._seen: set[str] = set()

    def close(self) -> None:
        """End the processes of real Caffe2."""
        self._oracle.close()
        self._witness.close()

    def check(self, batch: Batch) -> Judged:
        """Judge the cases of a batch. The first case of each kind of fault is made smaller."""
        with _bounded_memory():
            return self._imported(batch) if batch.imports else self._compared(batch)

    def _compared(self, batch: Batch) -> Judged:
        deadline = time.monotonic() + _BATCH_SECONDS
        firsts = [drawn.declared() for drawn in draw_batch(batch.seed, batch.number, batch.types)]
        inside = [drawn for drawn in firsts if not outside(drawn)]
        reals = self._oracle.run_all([run_of(drawn) for drawn in inside], deadline)
        verdicts = list(_outside([(drawn, None) for drawn in firsts], deadline))
        pairs = []
        for drawn, real in _in_time(inside, reals, deadline):
            with suppress(MemoryError):  # results that are too large to be compared
                verdict, loaded = self._judge.first(drawn, real)
                verdicts.append(self._judge(drawn) if _is_doubtful(verdict) else verdict)
                if loaded is not None:
                    pairs.append((drawn, loaded))
        random = np.random.default_rng([batch.seed, batch.number, 2])
        varied = [(vary(drawn, random), loaded) for drawn, loaded in pairs for _ in range(VARIANTS)]
        verdicts += _outside(varied, deadline)
        others = [(drawn, loaded) for drawn, loaded in varied if not outside(drawn)]
        reals = self._oracle.run_all([run_of(drawn) for drawn, _ in others], deadline)
        for (drawn, loaded), real in _in_time(others, reals, deadline):
            with suppress(MemoryError):
                verdicts.append(self._judge.another(drawn, real, loaded))
        return Judged(batch, tuple(self._shrunk(verdict, batch) for verdict in verdicts), len(firsts))

    def _shrunk(self, verdict: Verdict, batch: Batch) -> Verdict:
        if not batch.shrinks or verdict.outcome not in FAULTS or verdict.key in self._seen:
            return verdict
        self._seen.add(verdict.key)
        return shrink(verdict, self._judge)

    def _imported(self, batch: Batch) -> Judged:
        judge = ImportJudge(self._oracle, self._witness, np.random.default_rng([batch.seed, batch.number, 1]))
        cases = draw_batch(batch.seed, batch.number, batch.types, changes=0)
        verdicts = tuple(verdict for drawn in cases if (verdict := judge(drawn)) is not None)
        return Judged(batch, verdicts, len(verdicts))
