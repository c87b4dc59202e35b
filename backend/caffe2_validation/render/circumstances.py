"""The circumstances of a validation: command, reference, versions, tolerances, seed and cases."""

from __future__ import annotations

from collections.abc import Iterator

from caffe2_validation.render.template import escape
from caffe2_validation.report import ValidationReport


def circumstances(report: ValidationReport) -> str:
    """Return a list in HTML of what a reader needs to repeat the validation."""
    entries = "".join(f"<dt class='dim'>{escape(name)}</dt><dd>{text}</dd>" for name, text in _entries(report))
    return f"<dl>{entries}</dl>"


def _entries(report: ValidationReport) -> Iterator[tuple[str, str]]:
    if report.command:
        yield "command", f"<code>{escape(report.command)}</code>"
    yield "reference", escape(report.reference)
    yield "compared with it", escape(", ".join(side for side in report.sides if side != report.reference))
    yield "cases", escape(", ".join(report.cases))
    yield "seed", "inputs were given" if report.seed is None else str(report.seed)
    if report.random_weights:
        yield "synthesized weights", f"{len(report.random_weights)}: {escape(', '.join(report.random_weights))}"
    if report.guessed:
        yield "taken to be one element", escape(", ".join(report.guessed))
    for note in report.notes:
        yield "note", escape(note)
    for dtype, allowed in report.tolerances.items():
        growth = ", times min(sqrt(depth), 8)" if allowed.grows else " at any depth"
        yield f"tolerance of {dtype}", f"rtol {allowed.rtol:g}, atol {allowed.atol:g}{growth}"
    if report.tolerances:
        yield "tolerance of other types", "equal; quantized values within one step"
    yield from ((name, escape(version)) for name, version in report.versions.items())
