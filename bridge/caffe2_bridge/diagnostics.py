"""What is wrong with a user's model, and where.

The exceptions::

    BridgeError
    ├── NetFormatError    a file or protobuf is not what it should be
    ├── ConversionError   a net cannot be converted; holds every finding
    ├── RunError          a net cannot be run
    └── BuildError        a net cannot be built as asked

They say that the model, the file or the call is at fault. A fault of our own code is an ordinary exception and passes
untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad a finding is: an error stops the conversion; a warning or a note does not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a model: a net, an operator of it, and the bodies that enclose it.

    ``path`` holds the enclosing operators from the outside in, each with the name of the body that was entered, so that
    a finding reads ``predict[12] RecurrentNetwork > step_net[3] FC``.
    """

    net: str = "net"
    index: int | None = None
    op_type: str = ""
    op_name: str = ""
    path: tuple[Location, ...] = ()

    def enter(self, body: str, index: int | None = None, op_type: str = "", op_name: str = "") -> Location:
        """The place of an operator inside the body called ``body`` of this operator."""
        outer = Location(self.net, self.index, self.op_type, self.op_name)
        return Location(body, index, op_type, op_name, (*self.path, outer))

    def __str__(self) -> str:
        parts = []
        for place in (*self.path, self):
            text = place.net if place.index is None else f"{place.net}[{place.index}]"
            text = f"{text} {place.op_type}".rstrip()
            parts.append(f"{text} ({place.op_name})" if place.op_name else text)
        return " > ".join(parts)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: a stable ``code``, a reason in words, the place, and what the user can do about it."""

    code: str
    reason: str
    location: Location = field(default_factory=Location)
    severity: Severity = Severity.ERROR
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.location}: {self.severity}: {self.reason} [{self.code}]"
        return f"{text} ({self.hint})" if self.hint else text

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: the fields, with the location's text beside its parts."""
        data = asdict(self)
        data["severity"] = str(self.severity)
        data["place"] = str(self.location)
        return data


class BridgeError(Exception):
    """Base of all errors that say that a model, a file or a call is at fault."""


class NetFormatError(BridgeError):
    """A file or protobuf is not what it should be. ``source`` names it."""

    def __init__(self, reason: str, source: str = "") -> None:
        super().__init__(f"{source}: {reason}" if source else reason)
        self.reason = reason
        self.source = source


class ConversionError(BridgeError):
    """A net cannot be converted. ``findings`` holds every finding in net order."""

    def __init__(self, findings: Sequence[Diagnostic]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = tuple(findings)


class OptionError(BridgeError):
    """An option has a value that does not exist, or names a blob that does not."""


class RunError(BridgeError):
    """A net cannot be run, or failed while it ran."""


class BuildError(BridgeError):
    """A net cannot be built as asked. Says which net, operator or blob, and why."""
