"""Results of a batch, one for each model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from caffe2_bridge.diagnostics.short_repr import short_repr
from caffe2_validation.report import PairDifference

LIMITS: Final = ("time limit", "memory limit")  # causes of a model that a limit ended
# Verdicts, the worst first: what validation found of a net that was not exported comes second.
VERDICTS: Final = ("not exported", "crashed", "could not run", "not covered", "disagree", "agree")


@dataclass(frozen=True)
class ModelResult:
    """The result of one model: a record of plain data.

    Attributes:
        model: its name: the path relative to the folder, or that of the manifest.
        verdict: one of ``VERDICTS``.
        reason: in words, unless the verdict is ``agree``.
        cause: what groups it with other models; empty if the verdict is ``agree``.
        worst: the largest difference of any output.
        operators: how many operators the net has, or nodes the graph.
        body_operators: how many operators the bodies that these run have.
        seconds: the duration.
        weights: how many weights were synthesized.
        cases: how many cases there were.
        notes: of the report.
        findings: the diagnostics of the export, see ``Diagnostic.to_dict``.
        onnx: the file of the exported model under the folder of the batch; empty if it was not exported.
        page: the page of the model under the folder of the batch.
        matrix: ``[side, side, largest difference, whether they agree]``, if it was asked for.
        key: digest of the model's files and of the options; a result with the same key is not computed again.
        owner: who answers for the model, from the manifest.
        attempts: how many processes ran it: 2 if the first one died.
        types: how many operators of each type the net and its bodies have, or nodes the graph.
        bytes: the size of the model's files.
        onnx_bytes: the size of the exported files.
        times: seconds of each stage: ``read``, ``export``, ``validate``.
        differences: the largest difference of any output by pair of sides, ``REFERENCE / SIDE``; infinite if the sides
            differ in kind.
        versions: of the packages that ran it.
        verdict_text: the verdict of the validation with what it compared, see ValidationReport.
        compared_with_caffe2: whether real Caffe2 was one of the sides; None if there was no validation.
        compared_with_net_evaluator: the same of an evaluator of the net itself, see ValidationReport.
        format: ``Caffe2`` or ``ONNX``; empty if the model could not be read.
        repro: the folder under that of the batch with the operator that differs, ready to run; empty if none was found.
    """

    model: str
    verdict: str
    reason: str = ""
    cause: str = ""
    worst: float = 0.0
    operators: int = 0
    body_operators: int = 0
    seconds: float = 0.0
    weights: int = 0
    cases: int = 0
    notes: Sequence[str] = field(default_factory=list)
    findings: Sequence[Mapping[str, Any]] = field(default_factory=list)
    onnx: str = ""
    page: str = ""
    matrix: Sequence[Sequence[Any]] = field(default_factory=list)
    key: str = field(default="", repr=False)
    owner: str = ""
    attempts: int = 1
    types: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0
    onnx_bytes: int = 0
    times: Mapping[str, float] = field(default_factory=dict)
    differences: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    verdict_text: str = ""
    compared_with_caffe2: bool | None = None
    compared_with_net_evaluator: bool | None = None
    format: str = ""
    repro: str = ""

    def __repr__(self) -> str:
        return short_repr(self, self.model, self.verdict, reason=self.reason, owner=self.owner)

    def _repr_html_(self) -> str:
        from caffe2_bridge.diagnostics.html_repr import html_by

        return html_by("caffe2_fleet.site.notebook:results_html", [self])

    def with_owner(self, owner: str) -> ModelResult:
        """Return the same result of a model that has another owner now."""
        return replace(self, owner=owner)

    def pairs(self) -> Iterator[tuple[str, str, PairDifference]]:
        """Yield each pair of different sides once."""
        seen: set[frozenset[str]] = set()
        for one, other, worst, agrees in self.matrix:
            both = frozenset((one, other))
            if len(both) == 2 and both not in seen:
                seen.add(both)
                yield one, other, PairDifference(worst, agrees)


def count_verdicts(results: Iterable[ModelResult]) -> str:
    """Return how many models have each verdict, the best first: ``2 agree, 1 could not run``."""
    found = Counter(result.verdict for result in results)
    return ", ".join(f"{found[verdict]} {verdict}" for verdict in reversed(VERDICTS) if found[verdict])


def exit_code(results: Sequence[ModelResult]) -> int:
    """Return 0 if all agree; 1 if one disagrees; 2 if one could not run, or there is none."""
    verdicts = {result.verdict for result in results}
    return 1 if "disagree" in verdicts else 0 if verdicts == {"agree"} else 2
