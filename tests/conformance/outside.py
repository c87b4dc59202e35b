"""Recorded cases outside of the domain of their operators: inputs that Caffe2 neither documents nor checks.

Of such a case one promise holds: its conversion returns or raises an error of the project, and a run ends with a
result, an error of the project or one of onnxruntime, never with the process. No node is added to a graph for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


def _cases(group: str, numbers: str) -> tuple[str, ...]:
    """The ids of cases of one file, of which ``numbers`` are separated by blanks."""
    return tuple(f"{group}/{number}" for number in numbers.split())


_REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    "labels, scores or both are infinite or NaN": (
        *_cases(
            "recorded/ops/PairWiseLoss",
            "004 005 006 007 008 009 013 014 015 016 017 018 020 021 025 026 028 029 030 032 033 037 038 041 042 044 045 049 050 053 056 062",
        ),
        *_cases("recorded/ops/PairWiseLossGradient", "007 008 009 010 012 013 014 015 016 017 018 019 020 021"),
    ),
    "finite numbers whose sum leaves the range": (*_cases("recorded/ops/PairWiseLoss", "058"),),
    "a row of zeros is divided by its length as float16": (
        *_cases("recorded/ops/Float16SparseNormalize", "009 011 013"),
    ),
    "a row is scaled again although it is infinite, or too small or large for its square": (
        *_cases("recorded/ops/Float16SparseNormalize", "012"),
        *_cases("recorded/ops/SparseNormalize", "013 014 015 016 018 019"),
    ),
    "a sequence of 0 divides a sum of no gradients": (*_cases("recorded/ops/SparseWngrad", "004"),),
}

# The id of a case: what its inputs are that no operator promises anything for.
OUTSIDE: Final[Mapping[str, str]] = {case: reason for reason, cases in _REASONS.items() for case in cases}
