"""The summary of a batch: ``summary.json``, and ``index.html`` with a link to the page of each model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.storage import AnyPath
from caffe2_fleet import table
from caffe2_fleet.arrow import has_arrow
from caffe2_fleet.models.discovery import Skipped
from caffe2_fleet.result import VERDICTS, ModelResult
from caffe2_fleet.site import causes, trends
from caffe2_fleet.site.html import link, mark_of
from caffe2_fleet.site.trends import read_summary, write_trends
from caffe2_fleet.table import write_table
from caffe2_frontend.interop.files.onnx_files import replacing
from caffe2_validation.options import ValidationOptions
from caffe2_validation.render.template import fill
from caffe2_validation.versions import package_versions

SCHEMA: Final = 3
_TEMPLATE: Final = Path(__file__).with_name("index.html")
_OTHERS: Final = {causes.NAME: "causes", trends.NAME: "trends", table.NAME: "table"}


def write_summary(
    out: AnyPath, results: Sequence[ModelResult], skipped: Sequence[Skipped], options: ValidationOptions, command: str
) -> None:
    """Write the summary, its pages and its table to ``out``, the folder of the batch. Raises OSError.

    If results changed since the summary that is there, ``trends.html`` compares both.
    """
    counts = Counter(result.verdict for result in results)
    before = _earlier(out)
    summary: dict[str, Any] = {
        "schema": SCHEMA, "command": command, "versions": package_versions(),
        "tolerances": {name: vars(allowed) for name, allowed in options.tolerances.items()},
        "runtimes": list(options.runtimes or ()), "random_weights": options.random_weights,
        "counts": {verdict: counts[verdict] for verdict in VERDICTS},
        "models": [vars(result) for result in results],
        "skipped": [vars(file) for file in skipped],
    }  # fmt: skip
    if before is not None and [r.key for r in before["models"]] != [r.key for r in results]:
        write_trends(before, summary | {"models": results, "folder": str(out)}, out / trends.NAME)
    with replacing(out / causes.NAME) as file:
        file.write(causes.causes_page(results).encode())
    if has_arrow():
        write_table(results, out / table.NAME)
    with replacing(out / "index.html") as file:
        file.write(index_page(summary, [name for name in _OTHERS if (out / name).exists()]).encode())
    with replacing(out / "summary.json") as file:
        file.write(json.dumps(summary).encode())


def _earlier(out: AnyPath) -> dict[str, Any] | None:
    """Return the summary of the run before; None if there is none that can be read."""
    try:
        return read_summary(out)
    except (BridgeError, OSError):
        return None


def index_page(summary: dict[str, Any], others: Sequence[str] = ()) -> str:
    """Return the index page, from a summary: what the JSON file holds is enough. It links to the ``others``."""
    results = [ModelResult(**model) for model in summary["models"]]
    counts = {verdict: count for verdict, count in summary["counts"].items() if count}
    return fill(
        _TEMPLATE,
        counts=escape(", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "no models"),
        others=" ".join(f'<a href="{name}">{escape(_OTHERS[name])}</a>' for name in others),
        filters="".join(_filters(counts, len(results))),
        rows="\n".join(map(_row, sorted(results, key=lambda result: VERDICTS.index(result.verdict)))),
        skipped=_skipped(summary["skipped"]),
        circumstances="".join(_circumstances(summary)),
    )


def _filters(counts: dict[str, int], total: int) -> Iterator[str]:
    yield f'<button data-show="all">all ({total})</button>'
    for verdict, count in counts.items():
        yield f'<button data-show="{_tag(verdict)}">{escape(verdict)} ({count})</button>'


def _tag(verdict: str) -> str:
    return verdict.replace(" ", "-")


def _row(result: ModelResult) -> str:
    file = f'<a href="{quote(result.onnx)}">.onnx</a>' if result.onnx else ""
    operators = f"{result.operators}" + (f" + {result.body_operators}" if result.body_operators else "")
    reason = "; ".join([result.reason, *_remarks(result)]).strip("; ")
    cells = [
        f'<td class="name">{link(result.model, result.page)}</td>',
        f'<td class="short {mark_of(result.verdict)}">{escape(result.verdict_text or result.verdict)}</td>',
        f'<td class="n" data-v="{result.worst!r}">{f"{result.worst:.1e}" if result.cases else ""}</td>',
        f'<td class="n" data-v="{result.operators + result.body_operators}">{operators}</td>',
        f'<td class="n" data-v="{result.seconds!r}">{result.seconds:.1f} s</td>',
        f'<td class="short">{file}</td>',
        f"<td>{escape(result.owner)}</td>",
        f"<td>{escape(result.cause)}</td>",
        f'<td class="long">{escape(reason)}</td>',
    ]
    return f'<tr data-tags="{_tag(result.verdict)}">{"".join(cells)}</tr>'


def _remarks(result: ModelResult) -> Iterator[str]:
    if result.weights:
        yield f"{result.weights} synthesized weights"
    yield from result.notes
    for one, other, pair in result.pairs():
        yield f"{one} and {other}: {pair}"


def _skipped(files: Sequence[dict[str, str]]) -> str:
    if not files:
        return ""
    rows = "".join(
        f'<tr><td class="name"><code>{escape(file["path"])}</code></td><td>{escape(file["reason"])}</td></tr>'
        for file in files
    )
    table = f"<thead><tr><th>file</th><th>reason</th></tr></thead><tbody>{rows}</tbody>"
    return (
        f'<h2>Skipped files</h2><details id="skipped"><summary>{len(files)} files are not models</summary>'
        f'<div class="scroll"><table class="sortable">{table}</table></div></details>'
    )


def _circumstances(summary: dict[str, Any]) -> Iterator[str]:
    entries = [
        ("command", summary["command"]),
        ("runtimes", ", ".join(summary["runtimes"]) or "those that are installed"),
        *((f"tolerance of {k}", f"rtol {v['rtol']:g}, atol {v['atol']:g}") for k, v in summary["tolerances"].items()),
        *summary["versions"].items(),
    ]
    for name, text in entries:
        if text:
            yield f"<dt class='dim'>{escape(name)}</dt><dd>{escape(text)}</dd>"
