"""The table of models by pairs of runtimes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from caffe2_backend.validation.report import Pair

if TYPE_CHECKING:
    from caffe2_backend.validation.batch.batch import ModelResult


def cell(pair: Pair) -> str:
    """A pair in a few characters: the largest difference, with a mark where they do not agree; ``-`` where not run."""
    if pair.agrees is None:
        return "-"
    if pair.worst is None:
        return "differ in kind"
    return f"{pair.worst:.1e}" if pair.agrees else f"{pair.worst:.1e} !"


def pairs(result: ModelResult) -> Iterator[Sequence[Any]]:
    """Each pair of different sides once: ``[side, side, largest difference, whether they agree]``."""
    seen: set[frozenset[str]] = set()
    for one, other, worst, agrees in result.matrix:
        both = frozenset((one, other))
        if len(both) == 2 and both not in seen:
            seen.add(both)
            yield one, other, worst, agrees


def text_table(results: Sequence[ModelResult]) -> str:
    """The matrix in Markdown: models by pairs, with the reason where one is missing or does not agree; then counts."""
    columns = list(dict.fromkeys(_name(one, other) for r in results for one, other, _, _ in pairs(r)))
    lines = ["| model | " + " | ".join([*columns, "reason"]) + " |", "|---" * (len(columns) + 2) + "|"]
    counts = {column: [0, 0, 0] for column in columns}
    for result in results:
        found = {_name(one, other): Pair(worst, agrees) for one, other, worst, agrees in pairs(result)}
        cells = []
        for column in columns:
            pair = found.get(column, Pair())
            counts[column][2 if pair.agrees is None else 0 if pair.agrees else 1] += 1
            cells.append(cell(pair))
        reason = "" if result.verdict == "agree" else f"{result.verdict}: {result.reason}"
        lines.append("| " + " | ".join([result.model, *cells, reason.replace("|", "\\|")]) + " |")
    lines += [f"{column}: {a} agree, {d} disagree, {n} not both ran" for column, (a, d, n) in counts.items()]
    return "\n".join(lines)


def _name(one: str, other: str) -> str:
    return " / ".join(sorted((one, other)))
