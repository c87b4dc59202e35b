"""Reporting of all commands: diagnostics on stderr, and the exit code that an error has."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, Location, OptionError
from caffe2_bridge.diagnostics.internal import internal_error
from caffe2_bridge.diagnostics.log import LOGGER
from caffe2_cli.exit_codes import FAILED, INTERRUPTED
from caffe2_cli.output.echo import echo, message, print_json
from caffe2_cli.output.hints import typed_hint
from caffe2_cli.settings import settings

_LONG: Final = 200  # characters of a hint that is printed once
_AS_ABOVE: Final = "as above"


@contextmanager
def errors_reported(name: str, findings: int = FAILED) -> Iterator[None]:
    """End the process for an error in the block, of the command of this name: one diagnostic a line goes to stderr.

    Args:
        name: of the command.
        findings: the exit code for a model that does not convert. A usage error, a file that cannot be read and a fault
            of this project have FAILED, Ctrl-C has INTERRUPTED.
    """
    try:
        yield
    except ConversionError as error:
        print_diagnostics(error.findings)
        if settings().schema:
            print_json({"findings": [finding.to_dict() for finding in error.findings]})
        faults = any(finding.code == "internal-error" for finding in error.findings)
        sys.exit(FAILED if faults else findings)
    except (BridgeError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise  # what reads the output, head say, has read enough: click ends quietly
        if _is_usage(error):
            raise click.UsageError(str(error)) from None
        message("error", _sentence(error))
        sys.exit(FAILED)
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except KeyboardInterrupt:
        echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - a fault of this project, which is said to be one
        _print_fault(error, Location(name))
        sys.exit(FAILED)


def _print_fault(error: Exception, location: Location) -> None:
    """Print a fault of this project, or a lack of memory, which is none."""
    try:
        print_diagnostics([internal_error(error, location)])
    except BridgeError as found:
        message("error", found)


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


def print_diagnostics(diagnostics: Iterable[Diagnostic], hints: set[str] | None = None) -> None:
    """Print diagnostics to stderr, one a line; of a long hint that several have, the first line alone has the text.

    ``hints`` are those that were printed before, to which these are added.
    """
    hints = set() if hints is None else hints
    for diagnostic in diagnostics:
        place, severity = f"{diagnostic.location}: ", str(diagnostic.severity)
        hint = _AS_ABOVE if diagnostic.hint in hints else typed_hint(diagnostic.hint)
        message(severity, str(replace(diagnostic, hint=hint)).removeprefix(f"{place}{severity}: "), place)
        if len(diagnostic.hint) > _LONG:
            hints.add(diagnostic.hint)


class _Printer(logging.Handler):
    """Print the diagnostics that the conversions of a command log, each once."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._printed: set[Diagnostic] = set()
        self._hints: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        diagnostic = getattr(record, "diagnostic", None)
        if isinstance(diagnostic, Diagnostic) and diagnostic not in self._printed:
            self._printed.add(diagnostic)
            print_diagnostics([diagnostic], self._hints)


@contextmanager
def printed_diagnostics() -> Iterator[None]:
    """Print warnings and notes of conversions to stderr, one a line, while a command runs."""
    printer, level, propagate = _Printer(), LOGGER.level, LOGGER.propagate
    LOGGER.addHandler(printer)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False  # a program that runs may print what reaches the root logger
    try:
        yield
    finally:
        LOGGER.propagate = propagate
        LOGGER.setLevel(level)
        LOGGER.removeHandler(printer)
