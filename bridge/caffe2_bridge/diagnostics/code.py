"""The type of a diagnostic code, and severities."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How severe a diagnostic is: an error stops the conversion; a warning or a note does not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosticCode:
    """What all diagnostics of one code have in common.

    Attributes:
        code: the stable name.
        summary: a sentence that says what is wrong.
        cause: how it comes about.
        example: a diagnostic of this code as it is printed.
        cure: what the user can do, with what to type on the command line and in Python.
        severity: the severity that diagnostics of this code have.
    """

    code: str
    summary: str
    cause: str
    example: str
    cure: str
    severity: Severity = Severity.ERROR
