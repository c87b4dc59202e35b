"""Print text that may hold names from models: whatever they hold, the terminal only shows it.

Results go to stdout. With ``--json`` that gets the JSON object alone, and with ``-o -`` the file alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import click

from caffe2_bridge.diagnostics.printable import printable
from caffe2_bridge.storage import AnyPath
from caffe2_cli.settings import colored, settings

_STYLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "error": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "note": {"fg": "cyan"},
}

_above: list[Callable[[str], None]] = []  # what prints above a spinner or bar that stands on the terminal


@contextmanager
def messages_above(show: Callable[[str], None]) -> Iterator[None]:
    """Print the lines that go to stderr in the block by a function: click's own streams write into a spinner."""
    _above.append(show)
    try:
        yield
    finally:
        _above.pop()


def echo(text: object = "", *, err: bool = False) -> None:
    """Print a line of a result, or several; characters that are not printable are escaped."""
    chosen = settings()
    if err or not chosen.schema:
        _write(_printable(text), err=err or chosen.piped is not None)


def say(text: object = "", *, err: bool = False) -> None:
    """Print a line about what was done, unless the command is to be quiet."""
    if not settings().quiet:
        echo(text, err=err)


def message(severity: str, text: object, place: str = "") -> None:
    """Print an error, a warning or a note to stderr, where these differ in color; ``place`` stands before it."""
    if severity == "note" and settings().quiet:
        return
    marked = click.style(f"{severity}:", **_STYLES[severity])
    _write(f"{_printable(place)}{marked} {_printable(text)}", err=True)


def say_files(paths: Iterable[AnyPath]) -> None:
    """Print which files were written, and their sizes."""
    for path in paths:
        say(f"{name_of(path)}: {path.stat().st_size:,} bytes" if path.is_file() else str(path))


def name_of(path: AnyPath) -> str:
    """Return a path as the user gave it: ``-`` for the file that stdout gets."""
    return "-" if path == settings().piped else str(path)


def print_json(data: Mapping[str, Any]) -> None:
    """Print the JSON object of a command, with the version of its schema first."""
    click.echo(_printable(json.dumps({"schema": settings().schema, **data}, indent=2)))


def _write(line: str, *, err: bool) -> None:
    if err and _above:
        _above[-1](line)
    else:
        click.echo(line, err=err, color=colored() if err else None)


def _printable(text: object) -> str:
    return printable(str(text), keep="\n\t")
