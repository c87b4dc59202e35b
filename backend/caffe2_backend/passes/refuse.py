"""Where findings become an error."""

from __future__ import annotations

from typing import ClassVar

from caffe2_backend.state import Import
from caffe2_bridge.diagnostics import ConversionError, Severity


class RefuseFindings:
    """Raise ConversionError with all findings where one of them is an error."""

    requires: ClassVar[frozenset[str]] = frozenset()
    ensures: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, state: Import) -> Import:
        """The same state, if it has no errors."""
        if any(finding.severity is Severity.ERROR for finding in state.findings):
            raise ConversionError(state.findings)
        return state
