"""What became of a call, and whether the contract allows it."""

from __future__ import annotations

import traceback
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import FrameType, TracebackType
from typing import Any, Final, Self

from support.paths import PACKAGES

_PACKAGES: Final = tuple(folder.name for folder in PACKAGES.values())
_LONGEST: Final = 300


class Status(StrEnum):
    """The ends of a call. The first three are those that the contract allows."""

    RETURNED = "returned"
    REFUSED = "refused"
    RAN_LONG = "ran for long"  # what a model itself takes is not bounded
    ESCAPED = "escaped"
    INTERNAL = "internal error"
    HUNG = "hung"
    DIED = "died"
    MEMORY = "memory"
    WROTE = "wrote outside"
    PRINTED = "printed"


ALLOWED: Final = frozenset({Status.RETURNED, Status.REFUSED, Status.RAN_LONG})
_RUNS: Final = frozenset({
    "caffe2_backend/runtime/sessions/session.py:run_list", "caffe2_validation/runtimes/time_budget.py:within",
    "caffe2_backend/runtime/host/waiting.py:wait_for",
})  # fmt: skip
# Operators of ONNX's reference evaluator, all of whose functions are a part of a run.
_OPERATORS: Final = frozenset(
    f"caffe2_validation/runtimes/reference/{name}.py"
    for name in ("corrected_convolution", "corrected_loop", "corrected_reference", "ragged_reference")
)


@dataclass(frozen=True)
class Outcome:
    """The end of a call.

    Attributes:
        status: how it ended.
        place: the function of the project in which it ended so, ``package/module.py:function``.
        detail: the message of the exception, or a figure.
    """

    status: Status
    place: str = ""
    detail: str = ""

    @property
    def is_violation(self) -> bool:
        """Whether the contract forbids it."""
        return self.status not in ALLOWED

    @property
    def signature(self) -> str:
        """Equal for what is most likely the same fault."""
        kind = self.detail.partition(":")[0] if self.status is Status.ESCAPED else ""
        return " ".join(filter(None, (self.status, kind, self.place)))

    def to_json(self) -> dict[str, str]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The reverse of :meth:`to_json`."""
        return cls(Status(data["status"]), data["place"], data["detail"])


def runs_a_model(place: str) -> bool:
    """Whether a function of the project waits for what a model itself computes."""
    return place in _RUNS or place.partition(":")[0] in _OPERATORS


def unanswered(place: str, reason: str) -> Outcome:
    """The outcome of a call that was ended because it took too long."""
    return Outcome(Status.RAN_LONG if runs_a_model(place) else Status.HUNG, place, reason)


def escaped(error: BaseException) -> Outcome:
    """The outcome of a call that ended with an exception that is not the project's own."""
    return Outcome(Status.ESCAPED, place_of(error.__traceback__), f"{type(error).__name__}: {error}"[:_LONGEST])


def place_of(trace: TracebackType | None) -> str:
    """The innermost function of the project that an exception went through."""
    frames = [frame for frame, _ in traceback.walk_tb(trace)]
    return _innermost(frames)


def _innermost(frames: list[FrameType]) -> str:
    for frame in reversed(frames):
        path = frame.f_code.co_filename
        if any(f"/{package}/" in path for package in _PACKAGES):
            return place_in(path, frame.f_code.co_name)
    return ""


def place_in(path: str, function: str) -> str:
    """A place, as outcomes have it."""
    start = max(path.find(f"/{package}/") for package in _PACKAGES)
    return f"{path[start + 1 :]}:{function}"


def place_in_dump(text: str) -> str:
    """The innermost function of the project in a traceback that ``faulthandler`` wrote, innermost first."""
    for line in text.splitlines():
        found = line.strip()
        if found.startswith('File "') and any(f"/{package}/" in found for package in _PACKAGES):
            path = found.split('"')[1]
            return place_in(path, found.rpartition(" in ")[2])
    return ""
