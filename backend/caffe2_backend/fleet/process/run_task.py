"""One model of a batch: read, exported, validated."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from caffe2_backend.fleet.causes import cause_of_errors, cause_of_sides, cause_of_text
from caffe2_backend.fleet.task import ModelTask
from caffe2_backend.picture.onnx_model import every_graph
from caffe2_backend.validation.api import run_validation
from caffe2_backend.validation.forms import read_model
from caffe2_backend.validation.inputs.find_weights import find_weights
from caffe2_backend.validation.options import ValidationOptions
from caffe2_backend.validation.report import ValidationReport
from caffe2_backend.validation.runtimes import AnyModel
from caffe2_backend.validation.versions import package_versions
from caffe2_bridge.control import count_operators
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic
from caffe2_bridge.model import Model
from caffe2_bridge.storage import AnyPath
from caffe2_frontend import ExportOptions, analyze, finish, save_onnx

_REASONS: Final = 3
_LONGEST: Final = 400


@dataclass
class Outcome:
    """What one model came to.

    Attributes:
        record: the fields of a ModelResult that follow from the model: plain data.
        model: the model; None if it cannot be read.
        report: of the validation; None if it did not run.
    """

    record: dict[str, Any] = field(default_factory=dict)
    model: AnyModel | None = None
    report: ValidationReport | None = None


def run_task(task: ModelTask, common: ValidationOptions, onnx_file: AnyPath | None = None) -> Outcome:
    """Read a model, write its export to ``onnx_file`` if that is given, and validate it.

    Errors are not raised: the record has them, as the verdict and the reason.
    """
    start = time.perf_counter()
    outcome = Outcome()
    times: dict[str, float] = {}
    record = outcome.record
    record |= {"times": times, "versions": package_versions()}
    notes: list[str] = []
    try:
        options = task.options(common)
        with _timed(times, "read"):
            model = outcome.model = read_model(task.path, task.init or None)
            outer, inner = _count(model)
            record |= {"operators": outer.total(), "body_operators": inner.total(), "types": dict(outer + inner)}
        if isinstance(model, Model):
            with _timed(times, "export"):
                model, notes = find_weights(model)
                outcome.model = model
                exported, why_not = _export(model, task, options, onnx_file)
                record |= exported
                notes += why_not
        with _timed(times, "validate"):
            report = outcome.report = run_validation(model, options=options)
    except ConversionError as error:
        record |= {"verdict": "not covered", "reason": _summary(error.errors), "cause": cause_of_errors(error.errors)}
        record.setdefault("findings", [finding.to_dict() for finding in error.findings])
    except (BridgeError, OSError) as error:
        record |= {"verdict": "could not run", "reason": _line(str(error)), "cause": cause_of_text(str(error))}
    else:
        record |= _compared(report)
        record["notes"] = [*notes, *report.notes]
    record["seconds"] = round(time.perf_counter() - start, 3)
    return outcome


@contextmanager
def _timed(times: dict[str, float], stage: str) -> Iterator[None]:
    """Note the seconds of a stage, also if it fails."""
    start = time.perf_counter()
    try:
        yield
    finally:
        times[stage] = round(time.perf_counter() - start, 4)


def _count(model: AnyModel) -> tuple[Counter[str], Counter[str]]:
    """The operators of a net by type, or the nodes of a graph, and those in bodies."""
    if isinstance(model, Model):
        return count_operators(model.predict_net)
    graph, *bodies = every_graph(model.graph)
    return Counter(node.op_type for node in graph.node), Counter(node.op_type for body in bodies for node in body.node)


def _export(
    model: Model, task: ModelTask, options: ValidationOptions, target: AnyPath | None
) -> tuple[dict[str, Any], list[str]]:
    """Export a net as the command line does; return fields of the record, and a note if it cannot be exported.

    The validation may find out how inputs look and go on where the export fails.
    """
    chosen = ExportOptions(
        inputs=options.described, outputs=task.outputs or None, opset=task.opset, recurrent=options.recurrent
    )
    try:
        export = analyze(model, options=chosen)
        converted = finish(export)
    except ConversionError as error:
        return {"findings": [finding.to_dict() for finding in error.findings]}, [
            f"not exported: {_summary(error.errors)}"
        ]
    fields: dict[str, Any] = {"findings": [finding.to_dict() for finding in export.findings]}
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        files = save_onnx(converted, target)
        fields |= {"onnx": str(target), "onnx_bytes": sum(file.stat().st_size for file in files)}
    return fields, []


def _compared(report: ValidationReport) -> dict[str, Any]:
    reasons = [f"{r.name} in {r.side}: {r.difference.reason}" for r in report.wrong]
    failed = {failure.side: failure for failure in reversed(report.failures)}
    reasons += [f"{side}: {_line(failure.reason)}" for side, failure in failed.items()]
    sides = [result.side for result in report.wrong] or list(failed)
    return {
        "verdict": report.verdict,
        "cause": cause_of_sides(report.verdict, sides),
        "worst": max(_differences(report), default=0.0),
        "reason": "; ".join(reasons[:_REASONS]),
        "weights": len(report.random_weights),
        "cases": len(report.cases),
        "matrix": [[*sides, pair.worst, pair.agrees] for sides, pair in report.pairs.items()],
        "differences": _differences_by_pair(report),
    }


def _differences_by_pair(report: ValidationReport) -> dict[str, float]:
    """The largest difference of any output: of each pair of sides that was compared."""
    found: dict[str, float] = {}
    for result in report.results:
        if result.is_output:
            pair = f"{report.reference} / {result.side}"
            found[pair] = max(found.get(pair, 0.0), result.difference.max_abs)
    for (one, other), pair_difference in report.pairs.items():
        if pair_difference.agrees is not None and one < other and f"{other} / {one}" not in found:
            worst = pair_difference.worst
            found.setdefault(f"{one} / {other}", math.inf if worst is None else worst)
    return found


def _differences(report: ValidationReport) -> Iterator[float]:
    return (result.difference.max_abs for result in report.results if result.is_output)


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]


def _summary(errors: Sequence[Diagnostic]) -> str:
    """The first error, preferably one that known sizes would not fix, and the number of the others."""
    first, *others = sorted(errors, key=lambda finding: finding.code == "needs-shape")
    return _line(str(first)) + (f" (and {len(others)} more)" if others else "")
