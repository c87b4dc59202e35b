"""Reporting of all commands: diagnostics on stderr, the exit code by the kind of command."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, Location, OptionError
from caffe2_bridge.diagnostics.internal import internal_error
from caffe2_bridge.diagnostics.log import LOGGER
from caffe2_cli.output.echo import echo

FAILED: Final = 1
COULD_NOT_RUN: Final = 2  # commands that compare exit with 1 for a disagreement
INTERRUPTED: Final = 130  # as shells report a command that Ctrl-C ended


def reports_errors(exit_code: int = FAILED) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command: errors of the model go to stderr, one diagnostic a line, and end it with ``exit_code``.

    An option with a value that does not exist is a usage error, exit code 2; the exit code of Ctrl-C is 130.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def wrapped(*args: Any, **kwargs: Any) -> None:
            try:
                command(*args, **kwargs)
            except ConversionError as error:
                print_diagnostics(error.findings)
                sys.exit(exit_code)
            except (BridgeError, OSError) as error:
                if _is_usage(error):
                    raise click.UsageError(str(error)) from None
                echo(f"error: {_sentence(error)}", err=True)
                sys.exit(exit_code)
            except (click.ClickException, click.Abort, click.exceptions.Exit):
                raise
            except KeyboardInterrupt:
                echo("interrupted", err=True)
                sys.exit(INTERRUPTED)
            except Exception as error:  # noqa: BLE001 - a fault of this project, which is said to be one
                echo(_of_fault(error, Location(command.__name__.strip("_"))), err=True)
                sys.exit(exit_code)

        return wrapped

    return decorate


def _of_fault(error: Exception, location: Location) -> str:
    """Return what is said of a fault of this project, or of a lack of memory, which is none."""
    try:
        return str(internal_error(error, location))
    except BridgeError as found:
        return f"error: {found}"


# What the operating system reports of a path, in a sentence with it as the subject.
_OF_PATHS: Final[dict[type[OSError], str]] = {
    FileNotFoundError: "no such file or folder",
    IsADirectoryError: "this is a folder, and a file is expected",
    NotADirectoryError: "this is a file, and a folder is expected",
    PermissionError: "access is denied; check the permissions of the file and its folder",
}


def _sentence(error: BridgeError | OSError) -> str:
    """Return the error as a sentence; those of the operating system name the path first, and no number."""
    if isinstance(error, BridgeError) or error.filename is None:  # errors of storage are both
        return str(error)
    path = Path(os.fsdecode(error.filename))
    if isinstance(error, FileNotFoundError) and not path.parent.is_dir():
        return f"{path}: the folder {path.parent} does not exist"
    reason = next((text for kind, text in _OF_PATHS.items() if isinstance(error, kind)), error.strerror)
    return f"{path}: {reason}"


def _is_usage(error: Exception) -> bool:
    from caffe2_frontend.interop.types import InputSpecError

    return isinstance(error, OptionError | InputSpecError)


def print_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    """Print diagnostics to stderr, one a line."""
    for diagnostic in diagnostics:
        echo(str(diagnostic), err=True)


class _Printer(logging.Handler):
    """Print the diagnostics that the conversions of a command log, each once."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._printed: set[Diagnostic] = set()

    def emit(self, record: logging.LogRecord) -> None:
        diagnostic = getattr(record, "diagnostic", None)
        if isinstance(diagnostic, Diagnostic) and diagnostic not in self._printed:
            self._printed.add(diagnostic)
            print_diagnostics([diagnostic])


@contextmanager
def printed_diagnostics() -> Iterator[None]:
    """Print warnings and notes of conversions to stderr, one a line, while a command runs."""
    printer, level = _Printer(), LOGGER.level
    LOGGER.addHandler(printer)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.setLevel(level)
        LOGGER.removeHandler(printer)
