"""A deviation: operators whose results may differ from those of Caffe2, for a known reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fuzz.exact.deviations.causes import Arrays
from fuzz.exact.drawing.drawn import Drawn

Applies = Callable[[Drawn, Arrays, Arrays], bool]


@dataclass(frozen=True)
class Deviation:
    """Operator types whose results may differ for a reason, and whether a case gives it cause.

    ``may_fail``: the model may also fail to run.
    """

    reason: str
    types: frozenset[str]
    applies: Applies
    may_fail: bool = False
