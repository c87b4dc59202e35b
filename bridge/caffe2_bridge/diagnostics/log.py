"""Logging of warnings and notes, which do not stop a conversion and so reach the user in no exception.

The logger ``caffe2_bridge`` gets warnings at WARNING and notes at INFO. Without any configuration of :mod:`logging`,
Python prints warnings to stderr and drops notes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Final

from caffe2_bridge.diagnostics.code import Severity
from caffe2_bridge.diagnostics.diagnostic import Diagnostic

LOGGER: Final = logging.getLogger("caffe2_bridge")
_LEVELS: Final[Mapping[Severity, int]] = {Severity.WARNING: logging.WARNING, Severity.NOTE: logging.INFO}
_muted: ContextVar[bool] = ContextVar("muted", default=False)


def log_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    """Log warnings and notes; the record's attribute ``diagnostic`` is the diagnostic. Errors are not logged."""
    for diagnostic in diagnostics:
        level = _LEVELS.get(diagnostic.severity)
        if level is not None and not _muted.get():
            LOGGER.log(level, "%s", diagnostic, extra={"diagnostic": diagnostic})


def log_new_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    """Log like :func:`log_diagnostics`, each diagnostic once in a process: for code that converts a net repeatedly."""
    for diagnostic in diagnostics:
        if not _muted.get():
            _log_once(diagnostic)


@lru_cache(maxsize=1024)
def _log_once(diagnostic: Diagnostic) -> None:
    log_diagnostics([diagnostic])


@contextmanager
def muted() -> Iterator[None]:
    """Log no diagnostics: for code that converts nets on trial, or reports their diagnostics itself."""
    token = _muted.set(True)
    try:
        yield
    finally:
        _muted.reset(token)
