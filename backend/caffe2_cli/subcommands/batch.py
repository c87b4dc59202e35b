"""``caffe2-bridge batch``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import click
from rich.console import Console

from caffe2_bridge.storage import AnyPath
from caffe2_cli import options
from caffe2_cli.actions import CommandWithActions
from caffe2_cli.byte_size import parse_size
from caffe2_cli.errors import COULD_NOT_RUN, reports_errors
from caffe2_cli.output.command_line import command_line
from caffe2_cli.output.echo import echo
from caffe2_cli.subcommands.fleet import discover, trends

_LISTED: Final = 20  # skipped files; the summary has all


@click.command(cls=CommandWithActions, actions=(discover, trends))
@click.argument("source", type=options.LOCATION)
@click.option("-o", "--output", "out", type=options.LOCATION, help="The folder to write; default SOURCE-validation.")
@click.option(
    "--engine",
    default="local",
    show_default=True,
    help="Where models run: local (processes of this machine), dask (a Dask cluster of this machine), "
    "dask://HOST:PORT (the scheduler of a Dask cluster) or slurm.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Models at a time, on this machine; with slurm, how many workers start.",
)
@options.runtimes
@options.runtime_device
@click.option("--seconds", type=float, default=600.0, show_default=True, help="Time limit for one model.")
@click.option(
    "--memory",
    type=parse_size,
    metavar="SIZE",
    help="Limit of the resident memory of one model's process, such as 4GB; default: none.",
)
@options.random_weights
@options.tolerances
@click.option("--matrix", is_flag=True, help="Compare every pair of runtimes, and print the table.")
@reports_errors(COULD_NOT_RUN)
def batch(
    source: AnyPath,
    out: AnyPath | None,
    engine: str,
    jobs: int,
    runtimes: tuple[str, ...],
    seconds: float,
    memory: int | None,
    *,
    matrix: bool,
    **choices: Any,
) -> None:
    """Check, export and validate every model of SOURCE, in processes with limits of time and memory.

    SOURCE is a folder, or a manifest (.toml, .json, .parquet) that lists models with their init nets, inputs, outputs
    and tolerances: `caffe2-bridge batch discover` writes one, docs/fleets.md describes it. Writes the .onnx files, a
    page for each model, index.html, summary.json and, if PyArrow is installed, results.parquet. A second run resumes:
    models that have a result and did not change are skipped. Exit code 0: all agree, 1: one disagrees, 2: one could not
    run.

    `batch discover --help` and `batch trends --help` describe the other actions.
    """
    from rich.progress import Progress

    from caffe2_fleet.batch import run_batch
    from caffe2_fleet.result import ModelResult, exit_code
    from caffe2_validation.options import ValidationOptions
    from caffe2_validation.selection import select_runtimes

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
            source, target, chosen, engine=engine, jobs=jobs, seconds=seconds, memory=memory, report=report,
            command=command_line(),
        )  # fmt: skip
    if matrix:
        from caffe2_fleet.matrix import text_table

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
