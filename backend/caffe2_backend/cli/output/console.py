"""Progress on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def progress(text: str) -> Iterator[None]:
    """A spinner on a terminal, nothing in a pipe."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """A function that shows the stage that runs: a spinner with its name and its seconds on a terminal, else nothing.

    Stages that have ended stay on the terminal until all have.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _stage: None
        return
    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:

        def show(stage: str) -> None:
            for task in bar.task_ids:
                bar.update(task, completed=1)
            bar.add_task(stage, total=1)

        yield show


@contextmanager
def steps_shown(total: int, done: int = 0) -> Iterator[Callable[[int, float], None]]:
    """A function that shows the steps so far and the loss: a bar on a terminal, else nothing."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _step, _loss: None
        return
    columns = (
        BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn()
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda step, loss: bar.update(task, completed=step, description=f"loss {loss:.6g}")
