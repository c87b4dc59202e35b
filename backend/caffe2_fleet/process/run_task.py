"""One model of a batch: read, exported, validated."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from caffe2_backend.picture.onnx_model import every_graph
from caffe2_bridge.control import count_operators
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, NetFormatError
from caffe2_bridge.model import Model
from caffe2_bridge.plugins import import_plugin
from caffe2_bridge.storage import AnyPath
from caffe2_fleet.causes import cause_of_errors, cause_of_sides, cause_of_text
from caffe2_fleet.models.write_manifest import spelled
from caffe2_fleet.task import ModelTask
from caffe2_frontend import ExportOptions, analyze, finish, save_onnx
from caffe2_validation.api import run_validation
from caffe2_validation.forms import Forms, describe_value, read_model, shape_of
from caffe2_validation.inputs.find_weights import find_weights
from caffe2_validation.inputs.generate import generate
from caffe2_validation.options import Described, ValidationOptions
from caffe2_validation.report import ValidationReport
from caffe2_validation.runtimes import AnyModel
from caffe2_validation.versions import package_versions

_REASONS: Final = 3
_LONGEST: Final = 400
_import_once: Final = cache(import_plugin)


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


def run_task(
    task: ModelTask, common: ValidationOptions, onnx_file: AnyPath | None = None, plugins: Iterable[str] = ()
) -> Outcome:
    """Import plugins, read a model, write its export to ``onnx_file`` if that is given, and validate it.

    Errors are not raised: the record has them, as the verdict and the reason.
    """
    start = time.perf_counter()
    outcome = Outcome()
    times: dict[str, float] = {}
    record = outcome.record
    record |= {"times": times, "versions": package_versions()}
    notes: list[str] = []
    refused: Sequence[Diagnostic] = ()
    try:
        for name in plugins:
            _import_once(name)
        options = task.options(common)
        with _timed(times, "read"):
            _require_path(task)
            model = outcome.model = read_model(task.path, task.init or None)
            outer, inner = _count(model)
            record |= {"operators": outer.total(), "body_operators": inner.total(), "types": dict(outer + inner)}
            record["format"] = "Caffe2" if isinstance(model, Model) else "ONNX"
        if isinstance(model, Model):
            with _timed(times, "export"):
                model, notes = find_weights(model)
                outcome.model = model
                exported, refused = _export(model, task, options, onnx_file)
                record |= exported
        with _timed(times, "validate"):
            report = outcome.report = run_validation(model, options=options)
    except ConversionError as error:
        record |= {"verdict": "not covered", "reason": _summary(error.errors), "cause": cause_of_errors(error.errors)}
        record.setdefault("findings", [finding.to_dict() for finding in error.findings])
    except (BridgeError, OSError) as error:
        record |= {"verdict": "could not run", "reason": _line(str(error)), "cause": cause_of_text(str(error))}
    else:
        record |= _compared(report)
        record["notes"] = [*record.get("notes", ()), *notes, *report.notes]
    if refused and record["verdict"] != "not covered":
        record |= _not_exported(refused, record)
    record["seconds"] = round(time.perf_counter() - start, 3)
    return outcome


def _require_path(task: ModelTask) -> None:
    """Raise NetFormatError if a path of the task cannot name a file."""
    for path in (task.path, task.init):
        if "\0" in path:
            raise NetFormatError("the path holds a NUL character, which no file can have in its name", repr(path))


@contextmanager
def _timed(times: dict[str, float], stage: str) -> Iterator[None]:
    """Note the seconds of a stage, also if it fails."""
    start = time.perf_counter()
    try:
        yield
    finally:
        times[stage] = round(time.perf_counter() - start, 4)


def _count(model: AnyModel) -> tuple[Counter[str], Counter[str]]:
    """Return the operators of a net by type, or the nodes of a graph, and those in bodies."""
    if isinstance(model, Model):
        return count_operators(model.predict_net)
    graph, *bodies = every_graph(model.graph)
    return Counter(node.op_type for node in graph.node), Counter(node.op_type for body in bodies for node in body.node)


def _export(
    model: Model, task: ModelTask, options: ValidationOptions, target: AnyPath | None
) -> tuple[dict[str, Any], Sequence[Diagnostic]]:
    """Export a net as the command line does; return fields of the record, and the errors that stop the export.

    If the export fails for want of sizes, it uses those of the inputs that validation generates: ranks, or else sizes.
    """
    try:
        return _export_with(model, task, options, options.described, target), ()
    except ConversionError as error:
        first = error
    if any(error.code == "needs-shape" for error in first.errors):
        for found in _found_sizes(model, options):
            with suppress(ConversionError):
                fields = _export_with(model, task, options, found, target)
                listed = ", ".join(f"{name}={spelled(spec)}" for name, spec in found.items())
                return fields | {"notes": [f"exported with the sizes that validation found: {listed}"]}, ()
    return {"findings": [finding.to_dict() for finding in first.findings]}, first.errors


def _export_with(
    model: Model, task: ModelTask, options: ValidationOptions, described: Described, target: AnyPath | None
) -> dict[str, Any]:
    """Export a net whose inputs are described, and return fields of the record. Raises ConversionError."""
    chosen = ExportOptions(
        inputs=described, outputs=task.outputs or None, opset=task.opset, recurrent=options.recurrent
    )
    export = analyze(model, options=chosen)
    converted = finish(export)
    fields: dict[str, Any] = {"findings": [finding.to_dict() for finding in export.findings]}
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        files = save_onnx(converted, target)
        fields |= {"onnx": str(target), "onnx_bytes": sum(file.stat().st_size for file in files)}
    return fields


def _found_sizes(model: Model, options: ValidationOptions) -> Iterator[Described]:
    """Yield the inputs that validation generates, as descriptions: of their ranks first, then of their sizes."""
    try:
        generated = generate(Forms(model, options.described, export=options.export), None, options)
    except BridgeError:
        return
    found = {name: value for name, value in generated.cases[0].inputs.items() if name in model.inputs}
    for ranks in (True, False):
        shapes: dict[str, tuple[int | None, ...]] = {name: shape_of(value) for name, value in found.items()}
        if ranks:
            shapes = {name: (None,) * len(shape) for name, shape in shapes.items()}
        yield {**{name: describe_value(value, shapes[name]) for name, value in found.items()}, **options.described}


def _not_exported(errors: Sequence[Diagnostic], record: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict of a net whose export failed, with the reason before what validation found."""
    validated = f"validation: {record['verdict']}" + (f": {record['reason']}" if record["reason"] else "")
    reason = f"{_summary(errors)}; {validated}"
    return {"verdict": "not exported", "verdict_text": "", "cause": cause_of_errors(errors), "reason": reason}


def _compared(report: ValidationReport) -> dict[str, Any]:
    reasons = [f"{r.name} in {r.side}: {r.difference.reason}" for r in report.wrong]
    failed = {failure.side: failure for failure in reversed(report.failures)}
    reasons += [f"{side}: {_line(failure.reason)}" for side, failure in failed.items()]
    sides = [result.side for result in report.wrong] or list(failed)
    return {
        "verdict": report.verdict,
        "verdict_text": report.verdict_text,
        "compared_with_caffe2": report.compared_with_caffe2,
        "compared_with_net_evaluator": report.compared_with_net_evaluator,
        "cause": cause_of_sides(report.verdict, sides),
        "worst": max(_differences(report), default=0.0),
        "reason": "; ".join(reasons[:_REASONS]),
        "weights": len(report.random_weights),
        "cases": len(report.cases),
        "matrix": [[*sides, pair.worst, pair.agrees] for sides, pair in report.pairs.items()],
        "differences": _differences_by_pair(report),
    }


def _differences_by_pair(report: ValidationReport) -> dict[str, float]:
    """Return the largest difference of any output: of each pair of sides that was compared."""
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
    """Return the first error, preferably one that known sizes would not fix, and the number of the others."""
    first, *others = sorted(errors, key=lambda finding: finding.code == "needs-shape")
    return _line(str(first)) + (f" (and {len(others)} more)" if others else "")
