"""The dashboard of a fleet: how many models have each value of a property, as bars that are buttons of filters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from caffe2_fleet.result import VERDICTS, ModelResult
from caffe2_fleet.site.html import mark_of

_SIZES: Final = ((1000, "1,000 or more"), (100, "100 to 999"), (10, "10 to 99"), (1, "1 to 9"), (0, "not read"))
_MARKS: Final = ("agree", "could", "disagree")  # the order of colours in a bar


@dataclass(frozen=True)
class Facet:
    """A property of models.

    Attributes:
        name: of the property in the page.
        title: of its chart.
        value_of: returns the value of a model; an empty one is not shown.
        order: values that come first, in this order; the others follow, the most frequent first.
    """

    name: str
    title: str
    value_of: Callable[[ModelResult], str]
    order: Sequence[str] = ()

    def values(self, results: Sequence[ModelResult]) -> list[str]:
        """Return the values that models have."""
        counts = Counter(filter(None, map(self.value_of, results)))
        first = [value for value in self.order if value in counts]
        return first + sorted(counts.keys() - set(first), key=lambda value: (-counts[value], value))


def export_of(result: ModelResult) -> str:
    """Return whether a model was exported; an ONNX model need not be."""
    return "yes" if result.onnx else "is ONNX" if result.format == "ONNX" else "no"


def peer_of(result: ModelResult) -> str:
    """Return the strongest evidence that a model was compared with; empty if it was not compared."""
    if result.compared_with_caffe2:
        return "real Caffe2"
    if result.compared_with_net_evaluator:
        return "PyTorch"
    return "runtimes only" if result.cases else ""


def _size_of(result: ModelResult) -> str:
    count = result.operators + result.body_operators
    return next(text for least, text in _SIZES if count >= least)


FACETS: Final = (
    Facet("verdict", "Verdict", lambda result: result.verdict, VERDICTS),
    Facet("exported", "Exported", export_of, ("yes", "no", "is ONNX")),
    Facet("against", "Compared with", peer_of, ("real Caffe2", "PyTorch", "runtimes only")),
    Facet("size", "Operators", _size_of, [text for _, text in _SIZES]),
    Facet("cause", "Cause", lambda result: result.cause),
    Facet("owner", "Owner", lambda result: result.owner),
)


def dashboard(results: Sequence[ModelResult]) -> str:
    """Return a chart for each property that tells models apart: a bar for each value, with the colours of verdicts."""
    charts = ((facet, facet.values(results)) for facet in FACETS)
    return "\n".join(_chart(facet, values, results) for facet, values in charts if values)


def attributes(result: ModelResult) -> Iterator[str]:
    """Yield the attributes of a row by which buttons of the dashboard select it."""
    yield f'data-mark="{mark_of(result.verdict)}"'
    for facet in FACETS:
        yield f'data-{facet.name}="{escape(facet.value_of(result))}"'


def _chart(facet: Facet, values: Sequence[str], results: Sequence[ModelResult]) -> str:
    marks: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        marks[facet.value_of(result)][mark_of(result.verdict)] += 1
    most = max(marks[value].total() for value in values)
    bars = "\n".join(_bar(facet, value, marks[value], most) for value in values)
    return f'<section class="facet" id="by-{facet.name}"><h2>{facet.title}</h2>\n{bars}\n</section>'


def _bar(facet: Facet, value: str, marks: Counter[str], most: int) -> str:
    """Return a button with a bar of one part for each colour; the script of the page sets the widths anew."""
    parts, start = [], 0.0
    for mark in _MARKS:
        width = 100 * marks[mark] / most
        parts.append(f'<rect class="{mark}" x="{start:.2f}" width="{width:.2f}" height="8" fill="currentColor"/>')
        start += width
    text = escape(value)
    return (
        f'<button data-facet="{facet.name}" data-value="{text}" aria-pressed="false" title="{text}">'
        f'<span>{text}</span><svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{"".join(parts)}'
        f"</svg><b>{marks.total()}</b></button>"
    )
