"""The report as JSON, and as one page in Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from gpu_suite.results import STATUSES
from gpu_suite.runner import StageReport

_WORST: Final = {"failed": 0, "stopped": 1, "not run": 2, "passed": 3}
_HIDDEN: Final = ("name", "status")
_WIDEST: Final = 200  # characters


def write_report(path: Path, about: Mapping[str, Any], reports: Sequence[StageReport]) -> None:
    """Write the report as JSON to a file, and as a page beside it; each is replaced as a whole."""
    document = {**about, "outcome": worst(reports), "stages": [asdict(report) for report in reports]}
    _replace(path, json.dumps(document, indent=1, default=str) + "\n")
    _replace(path.with_suffix(".md"), "\n".join(page(about, reports)) + "\n")


def worst(reports: Sequence[StageReport]) -> str:
    """Return the worst outcome of the stages."""
    return min((report.outcome for report in reports), key=_WORST.__getitem__, default="not run")


def page(about: Mapping[str, Any], reports: Sequence[StageReport]) -> Iterator[str]:
    """Yield the lines of the page: a table of the stages, then a table of the results of each."""
    yield "# caffe2-bridge on CUDA"
    yield ""
    for name, value in about.items():
        yield f"* {name}: {value}"
    yield ""
    yield "| stage | outcome | seconds | passed | failed | expected | skipped | measured | reason |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for report in reports:
        counts = " | ".join(str(report.count(status)) for status in STATUSES)
        yield f"| {report.title} | {report.outcome} | {report.seconds} | {counts} | {_cell(report.reason)} |"
    for report in reports:
        if report.rows:
            yield ""
            yield f"## {report.title}"
            yield ""
            yield from _rows(report.rows)


def one_line(text: str) -> str:
    """Return a text as one line, shortened: an error of cuDNN has kilobytes, which the JSON keeps."""
    words = " ".join(text.split())
    return words if len(words) <= _WIDEST else f"{words[:_WIDEST]} ..."


def _rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    columns = [key for key in dict.fromkeys(key for row in rows for key in row) if key not in _HIDDEN]
    yield f"| {' | '.join(['what', 'outcome', *columns])} |"
    yield "|" + "---|" * (len(columns) + 2)
    for row in rows:
        cells = [row["name"], row["status"], *(_number(row.get(column, "")) for column in columns)]
        yield f"| {' | '.join(_cell(str(cell)) for cell in cells)} |"


def _number(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
