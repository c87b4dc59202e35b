"""Progress on the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

_STDERR: Final = 2
_FORCING: Final = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})  # what makes rich take a pipe for a terminal


def _terminal() -> Console | None:
    """Return the console on stderr if that is a terminal. A pipe needs no rich, which takes a while to import."""
    if not (os.isatty(_STDERR) or _FORCING & os.environ.keys()):
        return None
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal else None


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show a spinner on a terminal, nothing in a pipe."""
    console = _terminal()
    if console is None:
        yield
        return
    with console.status(text):
        yield


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the running stage: a spinner with its name and seconds on a terminal, else nothing.

    Stages that have ended stay on the terminal until all have.
    """
    console = _terminal()
    if console is None:
        yield lambda _stage: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:

        def show(stage: str) -> None:
            for task in bar.task_ids:
                bar.update(task, completed=1)
            bar.add_task(stage, total=1)

        yield show


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
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda step, loss: bar.update(task, completed=step, description=f"loss {loss:.6g}")
