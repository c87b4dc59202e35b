"""The exceptions that say that a model, a file or a call is at fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from caffe2_bridge.diagnostics.code import Severity
from caffe2_bridge.diagnostics.diagnostic import Diagnostic


class BridgeError(Exception):
    """Base of all errors that say that a model, a file or a call is at fault.

    Those that Caffe2 itself would raise while it reads or runs a net are also a RuntimeError, its exception for all of
    them, so that ``except RuntimeError`` of a program written for Caffe2 catches them. All of them can be pickled and
    copied with what they hold, so that they pass from one process to another.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is made anew by calling its type with ``args``, which are those of its base and not its own.
        _, args, *state = cast("tuple[Any, ...]", super().__reduce__())
        return _restored, (type(self), args), *state


def _restored(kind: type[BridgeError], args: tuple[Any, ...]) -> BridgeError:
    """Make an error without its own constructor; what that sets is state."""
    error = kind.__new__(kind, *args)
    super(BridgeError, error).__init__(*args)
    return error


class NetFormatError(BridgeError, RuntimeError):
    """A file or protobuf is not what it should be. ``source`` names it."""

    def __init__(self, reason: str, source: str = "") -> None:
        super().__init__(f"{source}: {reason}" if source else reason)
        self.reason = reason
        self.source = source


class ConversionError(BridgeError, RuntimeError):
    """A net cannot be converted.

    Attributes:
        findings: every diagnostic in net order, warnings and notes too.
        errors: the diagnostics that are errors, in net order: the reasons why the net cannot be converted.
    """

    def __init__(self, findings: Sequence[Diagnostic]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = tuple(findings)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of severity error, in net order."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)


class OptionError(BridgeError):
    """An option has a value that does not exist, or names a blob that does not."""


class RunError(BridgeError, RuntimeError):
    """A net cannot be run, or failed while it ran.

    ``operator`` is the index of the operator that failed, in the net that was run; None if it is not known.
    """

    operator: int | None = None


class BuildError(BridgeError):
    """A net cannot be built as asked. Says which net, operator or blob, and why."""
