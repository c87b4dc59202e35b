"""Progress on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def progress(text: str) -> Iterator[None]:
    """A spinner on a terminal, nothing in a pipe."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield
