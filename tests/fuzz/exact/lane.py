"""What a worker process of the fuzzer does: draw a batch, judge its cases, make faults smaller."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from conformance.oracle_server import OracleServer

from fuzz.exact.draw import draw_batch
from fuzz.exact.imports import ImportJudge
from fuzz.exact.judge import Judge
from fuzz.exact.shrink import shrink
from fuzz.exact.verdict import SHOWN, Outcome, Verdict

# The bytes with which the witness fills new memory.
_FILLER = 165


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
    """The verdicts on the cases of a batch."""

    batch: Batch
    verdicts: tuple[Verdict, ...]


def lost(batch: Batch, reason: str) -> Judged:
    """What is known of a batch whose process died: that a case crashes."""
    return Judged(batch, (Verdict(Outcome.CRASHED, reason),))


class Lane:
    """Judges batches with two processes of real Caffe2."""

    def __init__(self) -> None:
        self._oracle = OracleServer()
        self._witness = OracleServer(filler=_FILLER)
        self._judge = Judge(self._oracle, self._witness)
        self._seen: set[str] = set()

    def close(self) -> None:
        """End the processes of real Caffe2."""
        self._oracle.close()
        self._witness.close()

    def check(self, batch: Batch) -> Judged:
        """Judge the cases of a batch. The first case of each kind of fault is made smaller."""
        if batch.imports:
            return self._imported(batch)
        verdicts = []
        for drawn in draw_batch(batch.seed, batch.number, batch.types):
            verdict = self._judge(drawn)
            if batch.shrinks and verdict.outcome in SHOWN and verdict.key not in self._seen:
                self._seen.add(verdict.key)
                verdict = shrink(verdict, self._judge)
            verdicts.append(verdict)
        return Judged(batch, tuple(verdicts))

    def _imported(self, batch: Batch) -> Judged:
        judge = ImportJudge(self._oracle, np.random.default_rng([batch.seed, batch.number, 1]))
        cases = draw_batch(batch.seed, batch.number, batch.types, changes=0)
        return Judged(batch, tuple(verdict for drawn in cases if (verdict := judge(drawn)) is not None))
