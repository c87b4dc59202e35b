"""Reports of validations in a notebook: the verdict, the outputs by side, and the page to unfold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from caffe2_bridge.diagnostics.html_repr import escaped, folded_page, html_table
from caffe2_validation.render.page import page
from caffe2_validation.report import ValidationReport

_MOST: Final = 40  # rows
_HEAD: Final = ("output", "runtime", "result", "max abs", "reason")


def report_html(report: ValidationReport) -> str:
    """Return a report as HTML: verdict, proof, the worst case of each output in each runtime, and the whole page."""
    rows = list(_rows(report))
    more = f" (the first {_MOST} of {len(rows)} outputs)" if len(rows) > _MOST else ""
    table = html_table(f"{report.model}: {report.verdict_text}{more}", rows[:_MOST], _HEAD)
    first = "".join(f"<p>First to disagree: {escaped(found)}</p>" for found in report.divergences)
    otherwise = "it is too large for a notebook; caffe2_validation.render.page.write_page(report, path) writes it"
    return f"<p>{escaped(report.proof)}</p>{table}{first}" + folded_page("Report", page(report), otherwise)


def _rows(report: ValidationReport) -> Iterator[tuple[str, ...]]:
    """Yield the worst case of each output on each side, those that disagree first, and the sides that failed."""
    worst = {
        (result.name, result.side): result
        for result in sorted(report.results, key=lambda r: (not r.difference.agrees, r.difference.max_abs))
        if result.is_output
    }
    for result in sorted(worst.values(), key=lambda r: r.difference.agrees):
        found = result.difference
        yield result.name, result.side, found.verdict, found.numbers[0], found.reason
    for failure in report.failures:
        yield "", failure.side, f"could not run {failure.case}", "", failure.reason
