"""The table of models by pairs of runtimes, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from caffe2_fleet.result import ModelResult
from caffe2_validation.report import PairDifference


def text_table(results: Sequence[ModelResult]) -> str:
    """Return models by pairs, with the reason if a pair is missing or disagrees; then counts by pair."""
    columns = list(dict.fromkeys(_name(one, other) for r in results for one, other, _ in r.pairs()))
    lines = ["| model | " + " | ".join([*columns, "reason"]) + " |", "|---" * (len(columns) + 2) + "|"]
    counts = {column: [0, 0, 0] for column in columns}
    for result in results:
        found = {_name(one, other): pair for one, other, pair in result.pairs()}
        cells = []
        for column in columns:
            pair = found.get(column, PairDifference())
            counts[column][2 if pair.agrees is None else 0 if pair.agrees else 1] += 1
            cells.append(str(pair))
        reason = "" if result.verdict == "agree" else f"{result.verdict}: {result.reason}"
        lines.append("| " + " | ".join([result.model, *cells, reason.replace("|", "\\|")]) + " |")
    lines += [f"{column}: {a} agree, {d} disagree, {n} not both ran" for column, (a, d, n) in counts.items()]
    return "\n".join(lines)


def _name(one: str, other: str) -> str:
    return " / ".join(sorted((one, other)))
