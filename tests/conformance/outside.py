"""Recorded cases outside of the domain of their operators: inputs that Caffe2 neither documents nor checks.

Of such a case one promise holds: its conversion returns or raises an error of the project, and a run ends with a
result, an error of the project or one of onnxruntime, never with the process. No node is added to a graph for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_REASONS: Final[Mapping[str, tuple[str, ...]]] = {}

# The id of a case: what its inputs are that no operator promises anything for.
OUTSIDE: Final[Mapping[str, str]] = {case: reason for reason, cases in _REASONS.items() for case in cases}
