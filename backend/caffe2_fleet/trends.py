"""What changed between two runs of a fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from caffe2_fleet.result import VERDICTS, ModelResult


@dataclass(frozen=True)
class Trends:
    """Two runs compared, model by model.

    Attributes:
        worse: pairs of an old and a new result whose verdict got worse; better: the others that changed.
        drifted: pairs with the same verdict whose largest difference grew more than tenfold.
        added: models of the new run alone; gone: of the old one alone.
        counts: models by verdict, in the old run and in the new one.
        causes: models by verdict and cause, in the old run and in the new one, where these differ.
    """

    worse: Sequence[tuple[ModelResult, ModelResult]]
    better: Sequence[tuple[ModelResult, ModelResult]]
    drifted: Sequence[tuple[ModelResult, ModelResult]]
    added: Sequence[ModelResult]
    gone: Sequence[ModelResult]
    counts: dict[str, tuple[int, int]]
    causes: dict[tuple[str, str], tuple[int, int]]

    def describe(self) -> str:
        """Return the counts, in a line."""
        return (
            f"{len(self.worse)} worse, {len(self.better)} better, {len(self.drifted)} drifted, "
            f"{len(self.added)} added, {len(self.gone)} gone"
        )


def compare_runs(old: Sequence[ModelResult], new: Sequence[ModelResult]) -> Trends:
    """Compare two runs. Models are the same if their names are."""
    before, after = ({result.model: result for result in run} for run in (old, new))
    both = [(before[name], result) for name, result in after.items() if name in before]
    change = [(VERDICTS.index(b.verdict) - VERDICTS.index(a.verdict), (a, b)) for a, b in both]
    verdicts = [Counter(result.verdict for result in run) for run in (old, new)]
    causes = [Counter((r.verdict, r.cause) for r in run if r.verdict != "agree") for run in (old, new)]
    return Trends(
        worse=[pair for sign, pair in change if sign < 0],
        better=[pair for sign, pair in change if sign > 0],
        drifted=[(a, b) for sign, (a, b) in change if not sign and b.worst > 10 * a.worst > 0],
        added=[result for name, result in after.items() if name not in before],
        gone=[result for name, result in before.items() if name not in after],
        counts={verdict: (verdicts[0][verdict], verdicts[1][verdict]) for verdict in VERDICTS},
        causes={
            cause: (causes[0][cause], causes[1][cause])
            for cause in sorted({*causes[0], *causes[1]})
            if causes[0][cause] != causes[1][cause]
        },
    )
