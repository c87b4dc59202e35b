"""``caffe2-bridge batch``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from caffe2_backend.cli import options
from caffe2_backend.cli.errors import COULD_NOT_RUN, reports_errors
from caffe2_backend.cli.output.command_line import command_line
from caffe2_backend.cli.output.echo import echo

_LISTED: Final = 20  # skipped files; the summary has all


@click.command()
@click.argument("source", type=options.PATH)
@click.option("-o", "--output", "out", type=options.PATH, help="The folder to write; default SOURCE-validation.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Models at a time.")
@options.runtimes
@options.runtime_device
@click.option("--seconds", type=float, default=600.0, show_default=True, help="Time limit for one model.")
@options.random_weights
@options.tolerances
@click.option("--matrix", is_flag=True, help="Compare every pair of runtimes, and print the table.")
@reports_errors(COULD_NOT_RUN)
def batch(
    source: Path,
    out: Path | None,
    jobs: int,
    runtimes: tuple[str, ...],
    seconds: float,
    *,
    matrix: bool,
    **choices: Any,
) -> None:
    """Check, export and validate every model of SOURCE, each in a process of its own.

    SOURCE is a folder, or a manifest (.toml, .json) that lists models with their init nets, inputs, outputs and
    tolerances: see docs/validation.md. Writes the .onnx files, a page for each model, index.html and summary.json. A
    second run resumes: models that have a result and did not change are skipped. Exit code 0: all agree, 1: one
    disagrees, 2: one could not run.
    """
    from rich.progress import Progress

    from caffe2_backend.validation.batch.batch import run_batch
    from caffe2_backend.validation.batch.result import ModelResult, exit_code
    from caffe2_backend.validation.options import ValidationOptions
    from caffe2_backend.validation.selection import select_runtimes

    name = source.resolve().name if source.is_dir() else source.stem
    beside = source if source.name else source.resolve()  # "." has no name
    target = beside.with_name(f"{name}-validation") if out is None else out
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("validating", total=None)

        def report(result: ModelResult, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            echo(f"{result.model}: {result.verdict}" + (f": {result.reason}" if result.reason else ""))

        chosen = ValidationOptions(runtimes=runtimes or None, matrix=matrix, **choices)
        select_runtimes(chosen, "caffe2")  # so that a runtime that is absent ends the batch, and not each model
        found = run_batch(
            source, target, chosen, jobs=jobs, seconds=seconds, report=report, command=command_line()
        )  # fmt: skip
    if matrix:
        from caffe2_backend.validation.batch.matrix import text_table

        echo(text_table(found.results))
    _print_skipped(found.skipped)
    exported = sum(bool(result.onnx) for result in found.results)
    echo(f"{target / 'index.html'}: {len(found.results)} models, {exported} exported")
    sys.exit(exit_code(found.results))


def _print_skipped(files: Sequence[Any]) -> None:
    """Print the first skipped files to stderr, and how many there are by reason."""
    for file in files[:_LISTED]:
        echo(f"skipped: {file.path}: {file.reason}", err=True)
    if len(files) > _LISTED:
        echo(f"skipped: {len(files) - _LISTED} more files, see summary.json:", err=True)
        for reason, count in Counter(file.reason for file in files[_LISTED:]).most_common(5):
            echo(f"  {count}: {reason}", err=True)
