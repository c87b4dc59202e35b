"""onnxruntime, and its build for web pages."""

from __future__ import annotations

from typing import Final

from caffe2_frontend.targets.target import Target

ONNXRUNTIME: Final = Target("onnxruntime", "run: every recorded case, in the version that is installed")
ONNXRUNTIME_WEB: Final = Target(
    "onnxruntime-web", "run: recorded cases, in 1.30.0; it is built from onnxruntime's CPU provider"
)

# The opset of each minor version, by its public compatibility table; from 1.17 on they take the default opset. 1.15.1
# lists opset 19, but has no Shape of it: opset 17 is what was run.
_OPSETS: Final = {
    8: 13, 9: 14, 10: 15, 11: 16, 12: 17, 13: 17, 14: 17, 15: 17, 16: 17,
}  # fmt: skip
_FIRST, _LAST = min(_OPSETS), 99


def release(minor: int) -> Target | None:
    """Return the table of onnxruntime 1.``minor``; None if there is none."""
    if not _FIRST <= minor <= _LAST:
        return None
    source = "run: recorded recurrent and control cases in 1.15.1" if minor == 15 else "its public compatibility table"
    return Target(f"onnxruntime-1.{minor}", source, opset=_OPSETS.get(minor))
