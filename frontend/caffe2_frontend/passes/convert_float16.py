"""Convert the model to half precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from caffe2_bridge.diagnostics import Diagnostic, Location, Severity
from caffe2_bridge.passes import FunctionalPass
from caffe2_frontend.interop.half.float16 import to_float16
from caffe2_frontend.interop.half.float32_nodes import LARGEST, SMALLEST
from caffe2_frontend.state import Export

_LISTED: Final = 5


class ConvertFloat16(FunctionalPass[Export]):
    """Convert float32 values to float16 if the caller asks for it; report what stays and what is clamped."""

    requires: ClassVar[frozenset[str]] = frozenset({"graph", "opset"})
    ensures: ClassVar[frozenset[str]] = frozenset({"float16"})

    def __call__(self, state: Export) -> Export:
        """Return the state with the converted model. Raises OptionError if onnxruntime is not installed."""
        if not state.options.fp16 or state.model is None:
            return state
        half = to_float16(state.model, keep_io=state.options.fp16_io == "float32")
        location = Location(str(state.graph.name))
        findings = list(state.findings)
        if half.float32:
            listed = ", ".join(f"{count} {op_type}" for op_type, count in sorted(half.float32.items()))
            reason = f"these nodes stay in float32: {listed}"
            findings.append(Diagnostic("note", reason, location, severity=Severity.NOTE))
        if half.clamped:
            reason = (
                f"{_listed(half.clamped)} beyond the range of float16 ({SMALLEST:.3g} to {LARGEST:.5g}) "
                "become the nearest number in it"
            )
            findings.append(Diagnostic("float16-range", reason, location, severity=Severity.WARNING))
        return replace(state, model=half.model, findings=tuple(findings))


def _listed(clamped: Mapping[str, int]) -> str:
    """Return ``12 values of 'w' and 3 of 'b'``, the first few."""
    first, *others = [f"{count} of {name!r}" for name, count in list(clamped.items())[:_LISTED]]
    first = first.replace(" of ", " numbers of ", 1)
    more = len(clamped) - _LISTED
    return ", ".join([first, *others]) + (f" and of {more} other weights" if more > 0 else "")
