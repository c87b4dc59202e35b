"""One diagnostic: what is wrong, where, and what the user can do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from caffe2_bridge.diagnostics.code import Severity
from caffe2_bridge.diagnostics.codes import CODES
from caffe2_bridge.diagnostics.printable import printable
from caffe2_bridge.verification import is_verifying


@dataclass(frozen=True, slots=True)
class Location:
    """A location in a model: a net, an operator of it, and the bodies that enclose it.

    ``path`` holds the enclosing operators from the outside in, each with the name of the body that was entered, so that
    a diagnostic reads ``predict[12] RecurrentNetwork > step_net[3] FC``.
    """

    net: str = "net"
    index: int | None = None
    op_type: str = ""
    op_name: str = ""
    path: tuple[Location, ...] = ()

    def enter(self, body: str, index: int | None = None, op_type: str = "", op_name: str = "") -> Location:
        """Return the location of an operator inside the body named ``body`` of this operator."""
        outer = Location(self.net, self.index, self.op_type, self.op_name)
        return Location(body, index, op_type, op_name, (*self.path, outer))

    @property
    def outermost(self) -> Location:
        """The location of the operator of the net itself that this one is in, or is."""
        return next(iter(self.path), self)

    def operator_text(self, index: int, op_type: str, op_name: str) -> str:
        """Return the location of an operator of this net, as text."""
        return self._text(_place(self.net, index, op_type, op_name))

    def _text(self, place: str) -> str:
        """Return a place in this net, as text with the enclosing operators."""
        if self.path:
            outer = (_place(each.net, each.index, each.op_type, each.op_name) for each in self.path)
            place = " > ".join((*outer, place))
        return printable(place)

    def __str__(self) -> str:
        return self._text(_place(self.net, self.index, self.op_type, self.op_name))


def _place(net: str, index: int | None, op_type: str, op_name: str) -> str:
    text = net if index is None else f"{net}[{index}]"
    text = f"{text} {op_type}".rstrip()
    return f"{text} ({op_name})" if op_name else text


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A stable ``code`` of :data:`CODES`, the reason as a sentence, the location, and what the user can do."""

    code: str
    reason: str
    location: Location = field(default_factory=Location)
    severity: Severity = Severity.ERROR
    hint: str = ""

    def __post_init__(self) -> None:
        if is_verifying() and self.code not in CODES:
            raise ValueError(f"diagnostic code {self.code!r} is not in caffe2_bridge.diagnostics.CODES")

    def __str__(self) -> str:
        text = f"{self.location}: {self.severity}: {self.reason} [{self.code}]"
        return f"{text} ({self.hint})" if self.hint else text

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: the fields, the location as text (``place``) and in parts (``location``)."""
        data = asdict(self)
        data["severity"] = str(self.severity)
        data["place"] = str(self.location)
        return data
