"""``caffe2-bridge batch``."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from caffe2_bridge.storage import AnyPath
from caffe2_cli import options
from caffe2_cli.actions import CommandWithActions
from caffe2_cli.byte_size import parse_size
from caffe2_cli.command import Outcome
from caffe2_cli.exit_codes import FAILED, NO, YES
from caffe2_cli.output.command_line import command_line
from caffe2_cli.output.console import results_shown
from caffe2_cli.output.echo import echo, message, say
from caffe2_cli.output.skipped import print_skipped
from caffe2_cli.plugins import plugins
from caffe2_cli.subcommands.fleet import discover, trends


def _complete_source(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the names of actions, and let the shell complete paths."""
    actions = [CompletionItem(name) for name in ("discover", "trends") if name.startswith(typed)]
    return [*actions, CompletionItem(typed, type="file")]


@click.command(
    cls=CommandWithActions, actions=(discover, trends), schema=1, example="caffe2-bridge batch models -o checked",
    codes={
        YES: "All models agree.", NO: "One disagrees.",
        FAILED: "A model does not convert or could not run, or the batch could not be done.",
    },
)  # fmt: skip
@click.argument("source", type=options.LOCATION, shell_complete=_complete_source)
@options.out("out", "The folder to write; default SOURCE-validation")
@click.option(
    "--engine",
    default="local",
    show_default=True,
    shell_complete=options.completing("local", "dask", "dask://", "slurm"),
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
@plugins
@click.option("--matrix", is_flag=True, help="Compare every pair of runtimes, and print the table.")
def batch(
    source: AnyPath,
    out: AnyPath | None,
    engine: str,
    jobs: int,
    runtimes: tuple[str, ...],
    seconds: float,
    memory: int | None,
    plugins: tuple[str, ...],
    *,
    matrix: bool,
    **choices: Any,
) -> Outcome:
    """Check, export and validate every model of SOURCE, in processes with limits of time and memory.

    SOURCE is a folder, or a manifest (.toml, .json, .parquet) that lists models with their init nets, inputs, outputs
    and tolerances: `caffe2-bridge batch discover` writes one, docs/fleets.md describes it. Writes the .onnx files, a
    page for each model, index.html, summary.json, results.csv and, if PyArrow is installed, results.parquet. Models
    whose runtimes disagree run once more, for the operator that differs: repro/ has it. A second run resumes: models
    that have a result and did not change are skipped.

    `batch discover --help` and `batch trends --help` describe the other actions.
    """
    from caffe2_fleet.batch import run_batch
    from caffe2_fleet.result import ModelResult, count_verdicts, exit_code
    from caffe2_validation.options import ValidationOptions
    from caffe2_validation.selection import select_runtimes

    name = source.resolve().name if source.is_dir() else source.stem
    beside = source if source.name else source.resolve()  # "." has no name
    target = beside.with_name(f"{name}-validation") if out is None else out
    ended: list[ModelResult] = []
    with results_shown() as show:

        def report(result: ModelResult, done: int, total: int) -> None:
            ended.append(result)
            line = f"{result.model}: {result.verdict}" + (f": {result.reason}" if result.reason else "")
            show(line, done, total, count_verdicts(ended))

        chosen = ValidationOptions(runtimes=runtimes or None, matrix=matrix, **choices)
        select_runtimes(chosen, "caffe2")  # so that a runtime that is absent ends the batch, and not each model
        found = run_batch(
            source, target, chosen, engine=engine, jobs=jobs, seconds=seconds, memory=memory, report=report,
            command=command_line(), plugins=plugins,
        )  # fmt: skip
    if matrix:
        from caffe2_fleet.matrix import text_table

        echo(text_table(found.results))
    print_skipped(found.skipped, "see summary.json")
    if found.kept:
        say(f"kept from an earlier run: {found.kept} results; to run all again, remove {target}", err=True)
    exported = sum(bool(result.onnx) for result in found.results)
    if not found.results:
        message("error", f"{source} has no models")
    else:
        echo(count_verdicts(found.results))
    page = target / "index.html"
    echo(f"{page}: {len(found.results)} models, {exported} exported")
    results = [{"model": each.model, "verdict": each.verdict, "reason": each.reason} for each in found.results]
    data = {"page": str(page), "exported": exported, "models": results, "skipped": [vars(f) for f in found.skipped]}
    return Outcome(data, exit_code(found.results))
