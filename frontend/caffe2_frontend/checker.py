"""The check: everything that keeps a net from being converted, with nothing converted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from caffe2_bridge.diagnostics import Diagnostic, Severity
from caffe2_bridge.model import Model
from caffe2_bridge.passes import run_passes
from caffe2_frontend.pipeline import UNDERSTAND
from caffe2_frontend.prepare import begin


@dataclass(frozen=True)
class Report:
    """What a check found.

    ``findings`` are in net order; ``converted`` counts the operators, by type, that convert, those of bodies too.
    """

    findings: tuple[Diagnostic, ...]
    converted: Mapping[str, int]

    @property
    def covered(self) -> bool:
        """Whether the net converts."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)

    def to_json(self) -> str:
        """The report as JSON: ``covered``, ``converted`` and ``findings``."""
        data = {
            "covered": self.covered,
            "converted": dict(sorted(self.converted.items())),
            "findings": [finding.to_dict() for finding in self.findings],
        }
        return json.dumps(data, indent=2)


def check(
    predict_net: Message | bytes | Model,
    init_net: Message | bytes | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
) -> Report:
    """Find everything that keeps a net from being converted; the arguments are those of ``to_onnx``."""
    state = run_passes(UNDERSTAND, begin(predict_net, init_net, inputs=inputs))
    return Report(state.findings, state.covered)
