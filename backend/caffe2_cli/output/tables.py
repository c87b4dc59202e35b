"""Tables and lines on stdout, with every name in full."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from caffe2_bridge.diagnostics.printable import printable

# A pipe has no width: tables are as wide as what they hold.
_UNLIMITED: Final = 1_000_000


def print_table(table: Table) -> None:
    """Print a table, its title on a line of its own.

    On a terminal cells that are too long continue on the next line; in a pipe or a file every row is one line.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=_UNLIMITED)
    for column in table.columns:
        column.overflow = "fold"
    title, table.title = table.title, None
    if title is not None:
        console.print(title, style="table.title", soft_wrap=True, markup=False, highlight=False)
    console.print(table)


def print_line(text: str) -> None:
    """Print a text that the terminal wraps, and nothing else does."""
    Console().print(cell(text), soft_wrap=True)


def cell(text: str, style: str = "") -> Text:
    """Return text that may hold names from models, with characters that are not printable escaped."""
    return Text(printable(text, keep="\n"), style=style)
