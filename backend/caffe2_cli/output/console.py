"""Progress on the terminal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final

from caffe2_bridge.diagnostics.printable import printable
from caffe2_cli.output.echo import echo, messages_above
from caffe2_cli.settings import colored, settings

if TYPE_CHECKING:
    from rich.console import Console

_STDOUT: Final = 1
_STDERR: Final = 2
_FORCING: Final = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})  # what makes rich take a pipe for a terminal


def _terminal() -> Console | None:
    """Return the console on stderr if that is a terminal, and the command is not to be quiet.

    A pipe needs no rich, which takes a while to import.
    """
    if settings().quiet or not (os.isatty(_STDERR) or _FORCING & os.environ.keys()):
        return None
    from rich.console import Console

    console = Console(stderr=True, color_system=None if colored() is False else "auto")
    return console if console.is_terminal else None


def _messages_above(console: Console) -> AbstractContextManager[None]:
    """Let what is printed to stderr stand above what the console shows."""
    from rich.text import Text

    return messages_above(lambda line: console.print(Text.from_ansi(line), soft_wrap=True))


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show a spinner on a terminal, nothing in a pipe; with ``--verbose`` print how long it took."""
    console = _terminal()
    start = time.perf_counter()
    if console is None:
        yield
    else:
        with console.status(text), _messages_above(console):
            yield
    _print_seconds(text, start)


def _print_seconds(stage: str, start: float) -> None:
    if settings().verbose:
        echo(f"{stage}: {time.perf_counter() - start:.2f} s", err=True)


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the running stage: a spinner with its name and seconds on a terminal, else nothing.

    Stages that have ended stay on the terminal until all have; with ``--verbose`` their seconds are printed.
    """
    console = _terminal()
    started: list[tuple[str, float]] = []

    def start(stage: str) -> None:
        for name, since in started[-1:]:
            _print_seconds(name, since)
        started.append((stage, time.perf_counter()))

    if console is None:
        yield start
    else:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as bar, _messages_above(console):

            def show(stage: str) -> None:
                start(stage)
                for task in bar.task_ids:
                    bar.update(task, completed=1)
                bar.add_task(stage, total=1)

            yield show
    for name, since in started[-1:]:
        _print_seconds(name, since)


@contextmanager
def steps_shown(total: int, done: int = 0) -> Iterator[Callable[[int, float], None]]:
    """Yield a function that shows the steps so far and the loss: a bar on a terminal, else nothing."""
    console = _terminal()
    if console is None:
        yield lambda _step, _loss: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn()
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar, _messages_above(console):
        task = bar.add_task("", total=total, completed=done)
        yield lambda step, loss: bar.update(task, completed=step, description=f"loss {loss:.6g}")


@contextmanager
def results_shown() -> Iterator[Callable[[str, int, int, str], None]]:
    """Yield a function that prints the line of a result, and shows how many are done, how many there are, and counts.

    Lines go to stdout. On a terminal they stand above a bar, which nothing of what is printed meanwhile breaks.
    """
    console = _terminal()
    if console is None:
        yield lambda line, _done, _total, _counts: echo(line)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    # A stdout that is a file or a pipe stays that; the terminal has one console for all that it shows.
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar, _messages_above(console):
        task = bar.add_task("", total=None)

        def show(line: str, done: int, total: int, counts: str) -> None:
            bar.update(task, completed=done, total=total, description=counts)
            if os.isatty(_STDOUT) and not settings().schema:
                console.print(Text(printable(line, keep="\t")), soft_wrap=True)
            else:
                echo(line)

        yield show
