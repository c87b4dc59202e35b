"""Tables and lines on stdout, with every name in full: columns that fit the terminal, or one line a row in a pipe."""

from __future__ import annotations

from typing import Final, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from caffe2_bridge.diagnostics.printable import printable
from caffe2_cli.settings import colored, settings

# A pipe has no width: lines are as long as what they hold.
_UNLIMITED: Final = 1_000_000
_COLORS: Final[dict[bool | None, Literal["auto", "standard"] | None]] = {None: "auto", True: "standard", False: None}


def print_table(table: Table) -> None:
    """Print a table, its title on a line of its own.

    On a terminal cells that are too long continue on the next line, those of the widest columns first; elsewhere every
    row is one line.
    """
    if settings().schema:
        return
    console = _console()
    title, table.title = table.title, None
    if title is not None:
        console.print(title, style="table.title", soft_wrap=True, markup=False, highlight=False)
    if not console.is_terminal:
        _print_columns(table, console)
        return
    for column in table.columns:
        column.overflow = "fold"
    table.box, table.padding, table.pad_edge = None, (0, 2, 0, 0), False  # borders take the width that names need
    console.print(table)


def print_line(text: str) -> None:
    """Print a text that the terminal wraps, and nothing else does."""
    if not settings().schema:
        _console().print(cell(text), soft_wrap=True)


def is_terminal() -> bool:
    """Whether tables go to a terminal."""
    return _console().is_terminal


def cell(text: str, style: str = "") -> Text:
    """Return text that may hold names from models, with characters that are not printable escaped."""
    return Text(printable(text, keep="\n"), style=style)


def _console() -> Console:
    console = Console(stderr=settings().piped is not None, color_system=_COLORS[colored()])
    if not console.is_terminal:
        console.width = _UNLIMITED
    return console


def _print_columns(table: Table, console: Console) -> None:
    header = [Text(str(column.header), style="bold") for column in table.columns]
    rows = [header, *([_line(each) for each in row] for row in zip(*(c.cells for c in table.columns), strict=True))]
    widths = [max(row[index].cell_len for row in rows) for index in range(len(header))]
    for row in rows:
        for text, width in zip(row, widths, strict=True):
            text.pad_right(width - text.cell_len)
        line = Text("  ").join(row)
        line.rstrip()
        console.print(line, soft_wrap=True, highlight=False)


def _line(value: object) -> Text:
    text = value.copy() if isinstance(value, Text) else Text(str(value))
    return Text(", ", text.style).join(text.split("\n")) if "\n" in text.plain else text
