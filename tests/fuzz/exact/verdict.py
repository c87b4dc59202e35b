"""How a drawn case ends."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from fuzz.exact.drawing.drawn import Drawn


class Outcome(StrEnum):
    """How real Caffe2 and the conversion compare on a case."""

    EQUAL = "equal"
    BOTH_REFUSE = "both refuse"
    REFUSED = "refused by the conversion"
    COMPUTED = "computed though Caffe2 refuses"
    COMPUTED_SCHEMA = "computed though Caffe2's schema refuses"
    UNDEFINED = "Caffe2's results differ from run to run"
    ILL_CONDITIONED = "differs as Caffe2's results do for inputs a rounding apart"
    DIED = "Caffe2's process dies"
    DEVIATES = "differs, as documented"
    OUTSIDE = "outside of the domain, and returns or raises an error"
    DIFFERENT = "different"
    FAILS = "reports an error while it runs, where Caffe2 does not"
    CRASHED = "crashed"


# Outcomes that are faults.
FAULTS: Final = frozenset({Outcome.DIFFERENT, Outcome.FAILS, Outcome.CRASHED, Outcome.COMPUTED_SCHEMA})
_NUMBERS: Final = re.compile(r"[-+]?\d[\d.e+-]*|nan|inf|'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\([^)]*\)")


@dataclass(frozen=True)
class Verdict:
    """The outcome of a case, and what was seen: a difference, a reason, an exception."""

    outcome: Outcome
    detail: str = ""
    drawn: Drawn | None = field(default=None, repr=False)

    @property
    def key(self) -> str:
        """A text that verdicts for the same reason share."""
        types = "+".join(sorted(set(self.drawn.types))) if self.drawn else ""
        return f"{self.outcome} | {types} | {_NUMBERS.sub('#', self.detail.splitlines()[0] if self.detail else '')}"
