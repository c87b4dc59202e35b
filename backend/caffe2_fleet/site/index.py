"""The index of a fleet: a dashboard, and a table with a line for each model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from caffe2_fleet.result import VERDICTS, ModelResult, count_verdicts
from caffe2_fleet.site.facets import attributes, dashboard, export_of, peer_of
from caffe2_fleet.site.html import mark_of
from caffe2_validation.render.template import fill

_FOLDER: Final = Path(__file__).parent


def index_page(summary: Mapping[str, Any], others: Mapping[str, str] | None = None) -> str:
    """Return the index page, from a summary: what the JSON file holds is enough.

    It links to the ``others``, texts by the names of files.
    """
    results = [ModelResult(**model) for model in summary["models"]]
    exported = sum(bool(result.onnx) for result in results)
    counts = f"{len(results)} models: {count_verdicts(results)}; {exported} exported" if results else "no models"
    links = (f'<a href="{name}">{escape(text)}</a>' for name, text in (others or {}).items())
    return fill(
        _FOLDER / "index.html",
        scripts=(_FOLDER / "facets.js",),
        own_style=(_FOLDER / "index.css").read_text(encoding="utf-8"),
        counts=escape(counts),
        total=f"{len(results)} models",
        others=" ".join(links),
        dashboard=dashboard(results),
        owners="" if any(result.owner for result in results) else "without-owner",
        rows="\n".join(map(_row, sorted(results, key=lambda result: VERDICTS.index(result.verdict)))),
        skipped=_skipped(summary["skipped"]),
        circumstances="".join(_circumstances(summary)),
    )


def _row(result: ModelResult) -> str:
    reason = "; ".join([result.reason, *_remarks(result)]).strip("; ")
    operators = f"{result.operators}" + (f" + {result.body_operators}" if result.body_operators else "")
    exported = export_of(result)
    file = f'<a href="{quote(result.onnx)}" title="{result.onnx_bytes:,} bytes">{exported}</a>'
    cells = [
        f'<td class="name">{_name(result)}</td>',
        f'<td class="{mark_of(result.verdict)}" title="{escape(result.verdict_text)}">{escape(result.verdict)}</td>',
        f'<td data-label="exported:">{file if result.onnx else exported}</td>',
        f"<td>{peer_of(result)}</td>",
        _number(result.worst, f"{result.worst:.1e}" if result.cases else "", "max abs"),
        _number(result.operators + result.body_operators, operators, "operators"),
        _number(result.bytes, f"{result.bytes:,}" if result.bytes else "", "bytes"),
        _number(result.seconds, f"{result.seconds:.1f} s", ""),
        f'<td class="owner">{escape(result.owner)}</td>',
        f'<td class="cause">{escape(result.cause)}</td>',
        f'<td class="reason">{escape(reason)}</td>',
    ]
    return f"<tr {' '.join(attributes(result))}>{''.join(cells)}</tr>"


def _name(result: ModelResult) -> str:
    """Return the name as a link to the page; where it does not fit, its folder is cut first."""
    folder, slash, name = result.model.rpartition("/")
    parts = f'<span class="folder">{escape(folder)}</span>' if folder else ""
    parts += f"<span>{slash}{escape(name)}</span>"
    return f'<a class="model" href="{quote(result.page)}">{parts}</a>' if result.page else parts


def _number(value: float, text: str, label: str) -> str:
    return f'<td class="n" data-v="{value!r}"{f" data-label={label!r}" if label else ""}>{text}</td>'


def _remarks(result: ModelResult) -> Iterator[str]:
    if result.weights:
        yield f"{result.weights} synthesized weights"
    yield from result.notes
    for one, other, pair in result.pairs():
        yield f"{one} and {other}: {pair}"


def _skipped(skipped: Sequence[dict[str, Any]]) -> str:
    files = [file for file in skipped if not file.get("is_part")]
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


def _circumstances(summary: Mapping[str, Any]) -> Iterator[str]:
    entries = [
        ("command", summary["command"]),
        ("runtimes", ", ".join(summary["runtimes"]) or "those that are installed"),
        *((f"tolerance of {k}", f"rtol {v['rtol']:g}, atol {v['atol']:g}") for k, v in summary["tolerances"].items()),
        *summary["versions"].items(),
    ]
    for name, text in entries:
        if text:
            yield f"<dt class='dim'>{escape(name)}</dt><dd>{escape(text)}</dd>"
