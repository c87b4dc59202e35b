"""The commands that compare: ``caffe2-bridge validate``, ``batch`` and ``oracle``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from caffe2_bridge.diagnostics import BridgeError, ConversionError

COULD_NOT_RUN = 2


def _could_not_run(command: Callable[..., None]) -> Callable[..., None]:
    """What keeps a comparison from being made goes to stderr, and the exit code is 2."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except ConversionError as error:
            for finding in error.findings:
                click.echo(str(finding), err=True)
            sys.exit(COULD_NOT_RUN)
        except (BridgeError, OSError) as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(COULD_NOT_RUN)

    return wrapped


def add_commands(main: click.Group, described: Callable[..., Any], read_arrays: Callable[[Path], Any]) -> None:
    """Add the commands to the group.

    Args:
        main: the group.
        described: the callback that reads ``--input NAME=DTYPE[DIMS]``.
        read_arrays: what reads an .npz file.
    """
    _add_validate(main, described, read_arrays)
    main.add_command(batch)
    main.add_command(oracle)


def _add_validate(main: click.Group, described: Callable[..., Any], read_arrays: Callable[[Path], Any]) -> None:
    @main.command()
    @click.argument("model", type=click.Path(path_type=Path))
    @click.option("--init", type=click.Path(path_type=Path), help="The init net, where it is not beside MODEL.")
    @click.option("--other", type=click.Path(path_type=Path), help="A second model to compare MODEL with.")
    @click.option(
        "--against", "runtimes", multiple=True, metavar="RUNTIME",
        help="A runtime, repeatable; the first is the reference. Default: those that are here of caffe2, "
        "onnxruntime-cpu, onnx-reference; there are onnxruntime-cuda and workspace too.",
    )  # fmt: skip
    @click.option("--inputs", "source", type=click.Path(path_type=Path), help="An .npz file; else inputs are made up.")
    @click.option(
        "--input", "known", multiple=True, callback=described, metavar="NAME=DTYPE[DIMS]",
        help="What is known of an input; a dim is a size, a name or '?'. Repeatable.",
    )  # fmt: skip
    @click.option("--every-blob", is_flag=True, help="Compare what lies in between, too.")
    @click.option(
        "--matrix", is_flag=True, help="Compare every pair of runtimes; without --against, all that are here."
    )
    @click.option(
        "--random-weights", is_flag=True, help="Make up weights that a net lacks, from --seed, fitting its operators."
    )
    @click.option("--lockstep", is_flag=True, help="Find the first operator, and the step, that do not agree.")
    @click.option(
        "--repro", type=click.Path(path_type=Path), help="Put that operator with its inputs into this folder."
    )
    @click.option("--report", type=click.Path(path_type=Path), help="Write a page (HTML, without a network) here.")
    @click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
    @click.option("--seed", type=int, default=2018, show_default=True, help="Of inputs that are made up.")
    @click.option(
        "--recurrent", type=click.Choice(["auto", "fused", "scan", "loop"]), default="auto", show_default=True,
        help="The form of recurrent nets in the export.",
    )  # fmt: skip
    @click.option("--caffe2-python", metavar="PATH", help="The Python that has real Caffe2.")
    @_could_not_run
    def validate(model: Path, **options: Any) -> None:
        """Prove that runtimes agree on MODEL, or find where they do not.

        Exit code 0: they agree, 1: they disagree, 2: something could not run.
        """
        _validate(model, read_arrays, **options)


def _validate(
    model: Path,
    read_arrays: Callable[[Path], Any],
    *,
    init: Path | None,
    other: Path | None,
    runtimes: tuple[str, ...],
    source: Path | None,
    known: dict[str, Any],
    every_blob: bool,
    matrix: bool,
    random_weights: bool,
    lockstep: bool,
    repro: Path | None,
    report: Path | None,
    as_json: bool,
    seed: int,
    recurrent: str,
    caffe2_python: str | None,
) -> None:
    from caffe2_backend.validation import validate as run
    from caffe2_backend.validation.runtimes import Runtime, present_runtimes
    from caffe2_backend.validation.sides import read_model

    chosen: list[str | Runtime] | None = list(runtimes) or None
    if matrix and chosen is None:
        chosen = list(present_runtimes(caffe2_python=caffe2_python))
    read = read_model(model, init)
    result = run(
        read, read_arrays(source) if source else None, chosen, other=other, described=known,
        every_blob=every_blob or report is not None, matrix=matrix, lockstep=lockstep or repro is not None,
        repro=None if repro is None else str(repro), seed=seed, recurrent=recurrent, random_weights=random_weights,
        caffe2_python=caffe2_python,
    )  # fmt: skip
    if report is not None:
        from caffe2_backend.validation.render.page import write_page

        write_page(result, report, _picture(model if model.suffix == ".onnx" else read, result))
    if as_json:
        click.echo(result.to_json())
    else:
        _print(result)
        _tell_circumstances(result)
    sys.exit(result.exit_code)


def _picture(model: Any, result: Any) -> str:
    from caffe2_backend.validation.render.picture import error_picture

    try:
        return error_picture(model, result)
    except BridgeError as error:  # no graphviz here: the page is whole without its picture
        click.echo(f"no picture of the net on the page: {error}", err=True)
        return ""


def _print(result: Any) -> None:
    console = Console()
    table = Table(
        "runtime", "case", "output", "max abs", "max rel", "ulp", "", title=Text(f"{result.model}: {result.verdict}")
    )
    for entry in result.results:
        found = entry.difference
        if entry.is_output or not found.agrees:
            mark = Text("agrees") if found.agrees else Text(found.reason, style="bold red")
            numbers = (f"{found.max_abs:.1e}", f"{found.max_rel:.1e}", f"{found.max_ulp:.0f}")
            table.add_row(entry.side, entry.case, Text(entry.name), *numbers, mark)
    console.print(table)
    if result.matrix:
        from caffe2_backend.validation.batch.matrix import cell

        grid = Table("", *result.sides, title="largest difference")
        for one in result.sides:
            grid.add_row(one, *(cell(result.pairs[one, other]) for other in result.sides))
        console.print(grid)
    for divergence in result.divergences:
        console.print(Text(f"first to disagree: {divergence}"))
    for fault in result.optimizations:
        console.print(Text(str(fault)))


def _tell_circumstances(result: Any) -> None:
    """What was made up, is not here or could not run, on stderr."""
    if result.random_weights:
        click.echo(f"weights made up: {len(result.random_weights)} (seed {result.seed})", err=True)
    for note in result.notes:
        click.echo(f"note: {note}", err=True)
    for name, reason in result.absent.items():
        click.echo(f"not here: {name}: {reason}", err=True)
    for failure in result.failures:
        click.echo(f"could not run: {failure.side}, {failure.case}: {failure.reason}", err=True)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("-o", "--output", "out", type=click.Path(path_type=Path), help="Where to; default FOLDER-validation.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Models at a time.")
@click.option("--against", "runtimes", multiple=True, metavar="RUNTIME", help="As in validate; repeatable.")
@click.option("--seconds", type=float, default=600.0, show_default=True, help="What one model may take.")
@click.option("--random-weights", is_flag=True, help="As in validate.")
@click.option("--matrix", is_flag=True, help="Compare every pair of runtimes, and print the table.")
@_could_not_run
def batch(
    folder: Path,
    out: Path | None,
    jobs: int,
    runtimes: tuple[str, ...],
    seconds: float,
    *,
    random_weights: bool,
    matrix: bool,
) -> None:
    """Check, export and validate every model under FOLDER, each in a process of its own.

    Writes summary.json and summary.html. Run again, it goes on where it stopped: what has a result and did not change
    is not run again. Exit code 0: all agree, 1: one disagrees, 2: one could not run.
    """
    from rich.progress import Progress

    from caffe2_backend.validation.batch.batch import ModelResult, Options, exit_code, run_batch

    target = folder.with_name(f"{folder.resolve().name}-validation") if out is None else out
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("validating", total=None)

        def tell(result: ModelResult, done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)
            click.echo(f"{result.model}: {result.verdict}" + (f": {result.reason}" if result.reason else ""))

        options = Options(tuple(runtimes), random_weights=random_weights, matrix=matrix)
        results = run_batch(folder, target, options, jobs=jobs, seconds=seconds, tell=tell)
    if matrix:
        from caffe2_backend.validation.batch.matrix import text_table

        click.echo(text_table(results))
    click.echo(f"{target / 'summary.html'}: {len(results)} models")
    sys.exit(exit_code(results))


@click.group()
def oracle() -> None:
    """Real Caffe2, to compare with."""


@oracle.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--python", metavar="PATH", help="A CPython 3.8; default one on PATH, or one that pyenv has.")
@_could_not_run
def install(folder: Path | None, python: str | None) -> None:
    """Install real Caffe2 (about 0.8 GB) into FOLDER, and print the Python that has it.

    Without FOLDER: $CAFFE2_ORACLE_DIR, else ~/.cache/caffe2-oracle, where every command finds it.
    """
    from caffe2_backend.validation.runtimes.install import install_oracle

    with Console(stderr=True).status("installing real Caffe2"):
        click.echo(str(install_oracle(folder, python)))
