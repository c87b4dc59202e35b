"""``caffe2-bridge batch``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from caffe2_backend.cli import options
from caffe2_backend.cli.errors import COULD_NOT_RUN, reports_errors


@click.command()
@click.argument("folder", type=options.PATH)
@click.option("-o", "--output", "out", type=options.PATH, help="The folder to write; default FOLDER-validation.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Models at a time.")
@options.runtimes
@options.runtime_device
@click.option("--seconds", type=float, default=600.0, show_default=True, help="Time limit for one model.")
@options.random_weights
@options.tolerances
@click.option("--matrix", is_flag=True, help="Compare every pair of runtimes, and print the table.")
@reports_errors(COULD_NOT_RUN)
def batch(
    folder: Path,
    out: Path | None,
    jobs: int,
    runtimes: tuple[str, ...],
    seconds: float,
    *,
    matrix: bool,
    **choices: Any,
) -> None:
    """Check, export and validate every model under FOLDER, each in a process of its own.

    Writes summary.json and summary.html. A second run resumes: models that have a result and did not change are
    skipped. Exit code 0: all agree, 1: one disagrees, 2: one could not run.
    """
    from rich.progress import Progress

    from caffe2_backend.validation.batch.batch import run_batch
    from caffe2_backend.validation.batch.result import ModelResult, exit_code
    from caffe2_backend.validation.options import ValidationOptions
    from caffe2_backend.validation.selection import select_runtimes

    target = folder.with_name(f"{folder.resolve().name}-validation") if out is None else out
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("validating", total=None)

        def report(result: ModelResult, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            click.echo(f"{result.model}: {result.verdict}" + (f": {result.reason}" if result.reason else ""))

        chosen = ValidationOptions(runtimes=runtimes or None, matrix=matrix, **choices)
        select_runtimes(chosen, "caffe2")  # so that a runtime that is absent ends the batch, and not each model
        results = run_batch(folder, target, chosen, jobs=jobs, seconds=seconds, report=report)
    if matrix:
        from caffe2_backend.validation.batch.matrix import text_table

        click.echo(text_table(results))
    click.echo(f"{target / 'summary.html'}: {len(results)} models")
    sys.exit(exit_code(results))
