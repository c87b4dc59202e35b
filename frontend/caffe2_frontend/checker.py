"""The public check: every reason why a net does not convert."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from caffe2_bridge.diagnostics import Diagnostic, Severity
from caffe2_bridge.diagnostics.short_repr import short_repr
from caffe2_bridge.files.model_argument import NetLike
from caffe2_bridge.model import Model
from caffe2_frontend.analysis import analyze
from caffe2_frontend.interop.types import tensor_infos
from caffe2_frontend.options import DEFAULTS, ExportOptions


@dataclass(frozen=True)
class Report:
    """The result of a check.

    Attributes:
        findings: the diagnostics, in net order.
        converted: how many operators convert, by type, including those in bodies.
        unexamined: how many operators were not examined, because they read what one that does not convert writes.
    """

    findings: tuple[Diagnostic, ...]
    converted: Mapping[str, int]
    unexamined: int = 0

    @property
    def covered(self) -> bool:
        """Whether the net converts."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)

    @property
    def refused(self) -> Mapping[str, int]:
        """How many operators do not convert, by type, including those in bodies."""
        errors = (finding for finding in self.findings if finding.severity is Severity.ERROR)
        places = dict.fromkeys(error.location for error in errors if error.location.op_type)
        return Counter(place.op_type for place in places)

    def __repr__(self) -> str:
        return short_repr(
            self, covered=self.covered, converted=sum(self.converted.values()), refused=tuple(self.refused),
            unexamined=self.unexamined, findings=len(self.findings),
        )  # fmt: skip

    def _repr_html_(self) -> str:
        from caffe2_bridge.diagnostics.html_repr import findings_html, html_table

        counts = [(name, "converts", count) for name, count in self.converted.items()]
        counts += [(name, "does not convert", count) for name, count in self.refused.items()]
        return html_table(self.summary(), counts, ("operator", "", "count")) + findings_html(self.findings)

    def summary(self) -> str:
        """Return how many operators convert and do not, in one line or two."""
        converted = sum(self.converted.values())
        line = f"{converted} operators convert; {'covered' if self.covered else 'not covered'}"
        if any(finding.code == "missing-parameters" for finding in self.findings):
            line += ", without the values of its parameters"
        refused = sum(self.refused.values())
        total = converted + refused + self.unexamined
        if refused in (0, total):
            return line
        unknown = {finding.location.op_type for finding in self.findings if finding.code == "unknown-operator"}
        if unknown.issuperset(self.refused):
            does = "has no conversion" if refused == 1 else "have no conversion"
        else:
            does = "was not converted" if refused == 1 else "were not converted"
        first = f"{refused} of {total} operators {does}: {', '.join(self.refused)}"
        if self.unexamined:
            behind = "behind it" if refused == 1 else "behind them"
            first += f"; {self.unexamined} {behind} {'was' if self.unexamined == 1 else 'were'} not examined"
        return f"{first}\n{line}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON: ``covered``, ``converted`` and ``findings``."""
        return {
            "covered": self.covered,
            "converted": dict(sorted(self.converted.items())),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(self.to_dict(), indent=2)


def check(
    predict_net: NetLike | Model,
    init_net: NetLike | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    options: ExportOptions = DEFAULTS,
) -> Report:
    """Report every reason why a net does not convert, without converting it.

    Args:
        predict_net: a path or URL that ``caffe2_bridge.load`` reads, a loaded model, a NetDef (this project's or
            Caffe2's own class, or its bytes), or a PlanDef.
        init_net: the net that fills the parameters, or its path; not with a loaded model, which has its own.
        inputs: what is known of the net's inputs, as for ``to_onnx``; added to those in ``options``.
        options: the other options of the export that is to be checked.

    Raises:
        NetFormatError: an argument is not a net, or a file cannot be read.
        OptionError: an option has a value that is not supported, or names a blob that the net does not have.
        InputSpecError: the description of an input is not ``(dtype, shape)``.
    """
    if inputs:
        options = replace(options, inputs={**options.inputs, **tensor_infos(inputs)})
    state = analyze(predict_net, init_net, options)
    return Report(state.findings, state.covered, state.unexamined)
