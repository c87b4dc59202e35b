"""Results of fleets in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from caffe2_bridge.diagnostics.html_repr import html_table
from caffe2_fleet.result import VERDICTS, ModelResult, count_verdicts
from caffe2_fleet.site.facets import export_of, peer_of

_MOST: Final = 50  # rows
_HEAD: Final = ("model", "verdict", "exported", "against", "max abs", "operators", "time", "cause", "reason")


def results_html(results: Sequence[ModelResult]) -> str:
    """Return results as a table, the worst first, under their counts; of many the first."""
    ordered = sorted(results, key=lambda result: VERDICTS.index(result.verdict))
    more = f", the worst {_MOST}" if len(ordered) > _MOST else ""
    title = f"{len(ordered)} models: {count_verdicts(ordered)}{more}" if ordered else "no models"
    return html_table(title, map(_row, ordered[:_MOST]), _HEAD)


def _row(result: ModelResult) -> tuple[str, ...]:
    return (
        result.model, result.verdict_text or result.verdict, export_of(result), peer_of(result),
        f"{result.worst:.1e}" if result.cases else "", str(result.operators + result.body_operators),
        f"{result.seconds:.1f} s", result.cause, result.reason,
    )  # fmt: skip
