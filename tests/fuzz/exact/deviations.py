"""Where the conversion knowingly does not do what Caffe2 does, with the reasons that docs/testing.md gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from conformance.corpus import Array

from fuzz.exact.drawn import Drawn

Applies = Callable[[Drawn, Mapping[str, Array], Mapping[str, Array]], bool]

DEVIATIONS: Final[Mapping[str, Applies]] = {}


def deviation(drawn: Drawn, expected: Mapping[str, Array], actual: Mapping[str, Array]) -> str:
    """The reason why the results of a case may differ; empty if none applies."""
    return next((reason for reason, applies in DEVIATIONS.items() if applies(drawn, expected, actual)), "")
