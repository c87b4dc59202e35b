"""A report as one page of HTML that needs nothing else."""

from __future__ import annotations

import io
import zipfile
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from caffe2_bridge.storage import Location, locate
from caffe2_frontend.interop.files.onnx_files import replacing
from caffe2_validation.render.circumstances import circumstances
from caffe2_validation.render.plots import depth_plot, histogram, plot, step_plots, worst_results
from caffe2_validation.render.template import escape, fill
from caffe2_validation.report import BlobResult, Divergence, NonFinite, OptimizationFault, ValidationReport
from caffe2_validation.values import Difference

_TEMPLATE: Final = Path(__file__).with_name("page.html")
_LARGEST_REPRO: Final = 1 << 20
_MARKS: Final = {"agree": "agree", "disagree": "disagree", "could not run": "could"}


def write_page(report: ValidationReport, path: Location, picture: str = "") -> None:
    """Write the report, with the ``picture`` of the model if there is one.

    An existing file is replaced once the new one is complete. Raises OSError.
    """
    with replacing(locate(path)) as file:
        file.write(page(report, picture).encode())


@dataclass(frozen=True)
class Verdict:
    """The verdict at the head of a page: its text, the class of its colour, and what it proves."""

    text: str
    mark: str
    proof: str


def page(
    report: ValidationReport, picture: str = "", home: str = "", *, verdict: Verdict | None = None, export: str = ""
) -> str:
    """Return the report as HTML that needs no other file and no network.

    Args:
        report: the report.
        picture: of the model, from :func:`error_picture`.
        home: the address of the index page that leads here; empty if there is none.
        verdict: to show in the place of the report's.
        export: what came of the export of the model, as HTML, to stand below the verdict.
    """
    head = verdict or Verdict(report.verdict_text, _MARKS[report.verdict], report.proof)
    sides = [side for side in report.sides if side != report.reference]
    colours = {side: f"s{i % 4}" for i, side in enumerate(sides)}
    return fill(
        _TEMPLATE,
        verdict=escape(head.text),
        mark=head.mark,
        model=escape(report.model),
        summary=escape(_summary(report)),
        proof=escape(head.proof),
        export=export,
        divergences="".join(
            [
                *(_divergence(found, drawn=bool(picture)) for found in report.divergences),
                *map(_optimization, report.optimizations),
                *map(_nonfinite, report.nonfinite or ()),
                _next_step(report),
            ]
        ),
        failures=_failures(report),
        filters="".join(_filters(report)),
        rows="\n".join(map(_row, report.results)),
        matrix=_matrix(report),
        legend="".join(f'<span class="{c}"><span class="key"></span></span>{escape(s)}' for s, c in colours.items()),
        depth=depth_plot(report.results, colours),
        steps=f"<h2>Error along time</h2>{steps}" if (steps := step_plots(report.results, colours)) else "",
        histograms="".join(map(histogram, worst_results(report.results))) or '<p class="dim">Nothing differs.</p>',
        picture=f"<h2>The net</h2>{picture}" if picture else "",
        circumstances=circumstances(report),
        home=f' <a href="{escape(home)}">all models</a>' if home else "",
    )


def _summary(report: ValidationReport) -> str:
    outputs = sum(result.is_output for result in report.results)
    text = f"{outputs} comparisons of outputs with {report.reference}, {len(report.wrong)} disagree"
    return f"{text}; {len(report.cases)} cases, {report.seconds:.2f} s"


def _divergence(found: Divergence, *, drawn: bool) -> str:
    step = "" if found.timestep is None else f" at step <b>{found.timestep}</b>"
    growth = ""
    if found.growth:
        points = [("s1", i, error, f"{place}: {error:.2e}") for i, (place, error) in enumerate(found.growth)]
        growth = "<p class='dim'>How the error grows after it, each side with its own values:</p>"
        growth += plot(points, "operators after it")
    suspects = ""
    if len(found.suspects) > 1 and not found.cause:
        suspects = f"<br>in one of: <code>{escape(', '.join(found.suspects))}</code>"
    equally = "".join(f" or <code>{escape(place)}</code>" for place in found.equally)
    cause = f"<br>{escape(found.cause)}" if found.cause else ""
    folder = _repro(found.folder) if found.folder else ""
    jump = "<p><button class='to-picture' data-to-picture>show it in the net</button></p>" if drawn else ""
    return (
        f"<div class='card divergence'><b class='disagree'>First to disagree</b> ({escape(found.side)}, "
        f"{escape(found.case)})<br><code>{escape(found.operator)}</code>{equally}{step}, "
        f"blob <code>{escape(found.blob)}</code><br>{escape(found.difference.reason)}{cause}"
        f"{suspects}{jump}{growth}{folder}</div>"
    )


def _repro(folder: str) -> str:
    """Return where the repro is, and a link that saves it from the page if it is not too large."""
    text = f"Repro: <code>{escape(folder)}</code>"
    files = {path: path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}
    if files and sum(map(len, files.values())) <= _LARGEST_REPRO:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, data in files.items():
                archive.writestr(f"repro/{path.relative_to(folder)}", data)
        link = b64encode(packed.getvalue()).decode()
        text += f' <a class="repro" download="repro.zip" href="data:application/zip;base64,{link}">save repro.zip</a>'
    return f"<p class='dim'>{text}</p>"


def _next_step(report: ValidationReport) -> str:
    """Return the command that writes a repro, to copy, if sides disagree and there is none."""
    if report.verdict != "disagree" or not report.command or any(found.folder for found in report.divergences):
        return ""
    command = f"{report.command} --repro repro"
    return (
        f"<div class='card'>To write the operator that differs, ready to run: <code>{escape(command)}</code> "
        f'<button data-copy="{escape(command)}">copy</button></div>'
    )


def _nonfinite(value: NonFinite) -> str:
    return f"<div class='card'><b class='disagree'>First NaN or infinity</b><br>{escape(str(value))}</div>"


def _optimization(fault: OptimizationFault) -> str:
    head = "<b class='disagree'>No single operator differs</b>"
    return f"<div class='card divergence'>{head}<br>{escape(str(fault))}</div>"


def _failures(report: ValidationReport) -> str:
    lines = [
        f"<b>{escape(f.side)}</b> could not run {escape(f.case)}: {escape(f.reason[:600])}" for f in report.failures
    ]
    absent = {name: reason for name, reason in report.absent.items() if name != "caffe2"}  # the caveat says so
    lines += [f"<b>{escape(name)}</b> is not here: {escape(reason)}" for name, reason in absent.items()]
    lines += [escape(report.caveat)] if report.caveat else []
    return "".join(f'<div class="card"><span class="could">{line}</span></div>' for line in lines)


def _filters(report: ValidationReport) -> Iterator[str]:
    """Yield the buttons above the results, each with the number of rows that it shows."""
    outputs = sum(result.is_output for result in report.results)
    wrong = sum(not result.difference.agrees for result in report.results)
    tabs = (("output", "outputs", outputs), ("wrong", "disagreeing", wrong), ("all", "all blobs", len(report.results)))
    for tag, text, count in tabs:
        yield f'<button data-show="{tag}" aria-pressed="false">{text} ({count})</button>'


def _row(result: BlobResult) -> str:
    found = result.difference
    mark = {"agrees": "agree", "differs": "disagree"}.get(found.verdict, "could")
    tags = " ".join(tag for tag, holds in (("output", result.is_output), ("wrong", not found.agrees)) if holds)
    places = ", ".join(name for name, good in (("NaN", found.nan_agrees), ("Inf", found.inf_agrees)) if not good)
    numbers = zip((found.max_abs, found.max_rel, found.max_ulp), found.numbers, strict=True)
    cells = [
        f'<td class="name"><code>{escape(result.name)}</code></td>',
        f'<td class="short"><b class="{mark}">{found.verdict}</b></td>',
        f"<td>{escape(result.side)}</td><td>{escape(result.case)}</td>",
        *(f'<td class="n" data-v="{number!r}">{text}</td>' for number, text in numbers),
        f'<td class="short" data-v="{found.rtol!r}">{_tolerance(found)}</td>',
        f"<td>{f'{places} differ' if places else 'same' if found.compared else ''}</td>",
        f"<td>{escape(f'{found.dtype}{list(found.shape)}')}</td>",
        f"<td{' class=long' if found.reason else ''}>{escape(found.reason)}</td>",
    ]
    return f'<tr data-tags="{tags}">{"".join(cells)}</tr>'


def _tolerance(found: Difference) -> str:
    if not found.compared:
        return ""
    return f"{found.rtol:.1e}, {found.atol:.1e}" if found.rtol or found.atol else "equal"


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
