"""A report as one page of HTML that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Final

from caffe2_backend.validation.report import BlobResult, Divergence, OptimizationFault, ValidationReport
from caffe2_frontend.interop.onnx_files import replacing

_TEMPLATE: Final = Path(__file__).with_name("page.html")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 260, 46, 26
_LOWEST, _HIGHEST = -12, 4
_SHOWN_HISTOGRAMS: Final = 6
_MARKS: Final = {"agree": "agree", "disagree": "disagree", "could not run": "could"}


def write_page(report: ValidationReport, path: str | Path, picture: str = "") -> None:
    """Write the report, with the ``picture`` of the model if there is one.

    An existing file is replaced once the new one is complete. Raises OSError.
    """
    with replacing(Path(path)) as file:
        file.write(page(report, picture).encode())


def page(report: ValidationReport, picture: str = "") -> str:
    """The report as HTML, no file and no network is needed to show it; ``picture`` is an svg element."""
    sides = [side for side in report.sides if side != report.reference]
    colours = {side: f"s{i % 4}" for i, side in enumerate(sides)}
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        verdict=escape(report.verdict),
        mark=_MARKS[report.verdict],
        model=escape(report.model),
        summary=escape(_summary(report)),
        divergences="".join([*map(_divergence, report.divergences), *map(_optimization, report.optimizations)]),
        failures=_failures(report),
        rows="\n".join(map(_row, report.results)),
        matrix=_matrix(report),
        legend="".join(f'<span class="{c}"><span class="key"></span></span>{escape(s)}' for s, c in colours.items()),
        depth=_plot([(colours[r.side], r.depth, _height(r), _point_title(r)) for r in report.results], "depth"),
        histograms="".join(map(_histogram, _worst(report.results))) or '<p class="dim">Nothing differs.</p>',
        picture=f'<h2>The net</h2><div class="picture">{picture}</div>' if picture else "",
        versions=_versions(report),
    )


def _summary(report: ValidationReport) -> str:
    outputs = sum(result.is_output for result in report.results)
    text = f"{outputs} comparisons of outputs with {report.reference}, {len(report.wrong)} disagree"
    return f"{text}; {len(report.cases)} cases, {report.seconds:.2f} s"


def _divergence(found: Divergence) -> str:
    step = "" if found.timestep is None else f" at step <b>{found.timestep}</b>"
    growth = ""
    if found.growth:
        points = [("s1", i, error, f"{place}: {error:.2e}") for i, (place, error) in enumerate(found.growth)]
        growth = "<p class='dim'>How the error grows after it, each side with its own values:</p>"
        growth += _plot(points, "operators after it")
    suspects = ""
    if len(found.suspects) > 1 and not found.cause:
        suspects = f"<br>in one of: <code>{escape(', '.join(found.suspects))}</code>"
    equally = "".join(f" or <code>{escape(place)}</code>" for place in found.equally)
    cause = f"<br>{escape(found.cause)}" if found.cause else ""
    folder = f"<p class='dim'>Repro: <code>{escape(found.folder)}</code></p>" if found.folder else ""
    return (
        f"<div class='card divergence'><b class='disagree'>First to disagree</b> ({escape(found.side)}, "
        f"{escape(found.case)})<br><code>{escape(found.operator)}</code>{equally}{step}, "
        f"blob <code>{escape(found.blob)}</code><br>{escape(found.difference.reason)}{cause}"
        f"{suspects}{growth}{folder}</div>"
    )


def _optimization(fault: OptimizationFault) -> str:
    head = "<b class='disagree'>No single operator differs</b>"
    return f"<div class='card divergence'>{head}<br>{escape(str(fault))}</div>"


def _failures(report: ValidationReport) -> str:
    lines = [
        f"<b>{escape(f.side)}</b> could not run {escape(f.case)}: {escape(f.reason[:600])}" for f in report.failures
    ]
    lines += [f"<b>{escape(name)}</b> is not here: {escape(reason)}" for name, reason in report.absent.items()]
    return "".join(f'<div class="card"><span class="could">{line}</span></div>' for line in lines)


def _row(result: BlobResult) -> str:
    found = result.difference
    mark = "<b class='agree'>agrees</b>" if found.agrees else "<b class='disagree'>differs</b>"
    places = ", ".join(name for name, good in (("NaN", found.nan_agrees), ("Inf", found.inf_agrees)) if not good)
    kind = escape(f"{found.dtype}{list(found.shape)}")
    numbers = (f"{found.max_abs:.1e}", f"{found.max_rel:.1e}", f"{found.max_ulp:.3g}")
    return (
        f'<tr data-output="{int(result.is_output)}" data-agrees="{int(found.agrees)}">'
        f"<td><code>{escape(result.name)}</code></td><td>{mark}</td><td>{escape(result.side)}</td><td>{escape(result.case)}</td>"
        + "".join(f'<td class="n">{number}</td>' for number in numbers)
        + f"<td>{f'{places} differ' if places else 'same'}</td><td>{kind}</td><td>{escape(found.reason)}</td></tr>"
    )


def _matrix(report: ValidationReport) -> str:
    if not report.matrix:
        return ""
    head = "".join(f"<th>{escape(side)}</th>" for side in report.sides)
    lines = []
    for one in report.sides:
        cells = (report.matrix[one, other] for other in report.sides)
        texts = ("-" if worst is None else f"{worst:.1e}" for worst in cells)
        lines.append(f"<tr><th>{escape(one)}</th>{''.join(f'<td class=n>{text}</td>' for text in texts)}</tr>")
    table = f"<thead><tr><th></th>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<h2>Every pair: the largest difference</h2><div class="scroll"><table id="matrix">{table}</table></div>'


def _height(result: BlobResult) -> float:
    """The error; what disagrees in kind, or in where NaN is, stands at the top."""
    found = result.difference
    return found.max_abs if found.agrees or found.max_abs else math.inf


def _point_title(result: BlobResult) -> str:
    return f"{result.name} ({result.side}, {result.case}): {result.difference.max_abs:.2e}"


def _plot(points: Sequence[tuple[str, int, float, str]], what: str) -> str:
    """Points by (colour, x, error, title); the error in powers of ten, equal values on the lowest line."""
    last = max((x for _, x, _, _ in points), default=0) or 1

    def across(x: float) -> float:
        return _LEFT + 8 + (x / last) * (_WIDTH - _LEFT - 20)

    def up(power: float) -> float:
        return 8 + (_HIGHEST - power) / (_HIGHEST - _LOWEST) * (_HEIGHT - _BOTTOM - 8)

    parts = []
    for power in range(_LOWEST, _HIGHEST + 1, 4):
        label = "equal" if power == _LOWEST else f"1e{power}"
        parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH}" y1="{up(power):.1f}" y2="{up(power):.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{up(power) + 4:.1f}" text-anchor="end">{label}</text>')
    for x in sorted({0, last // 2, last}):
        parts.append(f'<text x="{across(x):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{x}</text>')  # noqa: PERF401 - as above
    parts.append(f'<text x="{_WIDTH - 4}" y="{_HEIGHT - 32}" text-anchor="end">{escape(what)}</text>')
    for colour, x, error, title in points:
        height = min(max(math.log10(error), _LOWEST), _HIGHEST) if error else _LOWEST
        parts.append(
            f'<g class="{colour}"><circle cx="{across(x):.1f}" cy="{up(height):.1f}" r="4" fill="currentColor" '
            f'fill-opacity=".75"><title>{escape(title)}</title></circle></g>'
        )
    label = f"error by {escape(what)}"
    svg = f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    return f'<div class="wide">{svg}</div>'


def _worst(results: Iterable[BlobResult]) -> list[BlobResult]:
    """The results that are furthest off, one a blob and side."""
    best: dict[tuple[str, str], BlobResult] = {}
    for result in results:
        known = best.get((result.name, result.side))
        if result.difference.histogram and (known is None or known.difference.max_abs < result.difference.max_abs):
            best[result.name, result.side] = result
    ranked = sorted(best.values(), key=lambda r: (r.difference.agrees, -r.difference.max_abs))
    return [result for result in ranked if result.difference.max_abs][:_SHOWN_HISTOGRAMS]


def _histogram(result: BlobResult) -> str:
    counts = result.difference.histogram
    most, width = max(counts), 240 / len(counts)
    bars = "".join(
        f'<rect x="{i * width:.1f}" y="{70 - 62 * count / most:.1f}" width="{width - 1:.1f}" '
        f'height="{62 * count / most:.1f}" '
        f'fill="currentColor"><title>{count} elements around {"0" if not i else f"1e{i - 20}"}</title></rect>'
        for i, count in enumerate(counts)
        if count
    )
    ticks = "".join(
        f'<text x="{(power + 20.5) * width:.0f}" y="84" text-anchor="middle">1e{power}</text>'
        for power in (-15, -10, -5, 0)
    )
    head = (
        f"<code>{escape(result.name)}</code><br><span class='dim'>{escape(result.side)}, {escape(result.case)}</span>"
    )
    svg = f'<svg class="s0" viewBox="0 0 240 88" role="img" aria-label="histogram">{bars}{ticks}</svg>'
    return f'<div class="card">{head}{svg}</div>'


def _versions(report: ValidationReport) -> str:
    lines = [("reference", report.reference), *report.versions.items(), ("cases", ", ".join(report.cases))]
    lines.append(("seed", "inputs were given" if report.seed is None else str(report.seed)))
    if report.guessed:
        lines.append(("taken to be one element", ", ".join(report.guessed)))
    return "<dl>" + "".join(f"<dt class='dim'>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in lines) + "</dl>"
