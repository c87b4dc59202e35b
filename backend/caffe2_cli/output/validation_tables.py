"""A validation report on the terminal."""

from __future__ import annotations

from rich.table import Table

from caffe2_cli.output.echo import message, say
from caffe2_cli.output.tables import cell, print_line, print_table
from caffe2_cli.settings import settings
from caffe2_validation.report import ValidationReport


def print_report(report: ValidationReport) -> None:
    """Print every output, and the blobs that disagree, with the largest differences; then what the lockstep found."""
    table = Table(
        "runtime",
        "case",
        "output",
        "max abs",
        "max rel",
        "ulp",
        "",
        title=cell(f"{report.model}: {report.verdict_text}"),
    )
    for entry in report.results:
        found = entry.difference
        if entry.is_output or not found.agrees:
            mark = cell(found.verdict) if found.agrees else cell(found.reason, style="bold red")
            table.add_row(cell(entry.side), cell(entry.case), cell(entry.name), *found.numbers, mark)
    print_table(table)
    if report.matrix:
        print_table(_matrix(report))
    for divergence in report.divergences:
        print_line(f"first to disagree: {divergence}")
    for fault in report.optimizations:
        print_line(str(fault))
    for value in report.nonfinite or ():
        print_line(f"first NaN or infinity: {value}")
    if report.nonfinite == ():
        print_line("no NaN and no infinity in any value")


def _matrix(report: ValidationReport) -> Table:
    grid = Table("", *report.sides, title="largest difference")
    for one in report.sides:
        grid.add_row(one, *(str(report.pairs[one, other]) for other in report.sides))
    return grid


def print_circumstances(report: ValidationReport) -> None:
    """Print to stderr what was not tested, which weights were synthesized, and what is missing or could not run.

    With ``--json`` the object says it.
    """
    if settings().schema:
        return
    if report.caveat:
        say(report.caveat, err=True)
    if report.random_weights:
        say(f"synthesized weights: {len(report.random_weights)} (seed {report.seed})", err=True)
    for note in report.notes:
        message("note", note)
    for name, reason in report.absent.items():
        if name != "caffe2":  # the caveat says so
            say(f"missing: {name}: {reason}", err=True)
    for failure in report.failures:
        message("warning", f"could not run: {failure.side}, {failure.case}: {failure.reason}")
