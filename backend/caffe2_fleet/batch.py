"""A batch: every model of a source checked, exported and validated, with a site of the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from caffe2_bridge.diagnostics.short_repr import short_repr
from caffe2_bridge.storage import AnyPath
from caffe2_fleet.api import find_tasks, run_plan
from caffe2_fleet.job import Limits
from caffe2_fleet.models.discovery import Skipped
from caffe2_fleet.plan import make_plan
from caffe2_fleet.result import ModelResult, count_verdicts
from caffe2_fleet.site.notebook import results_html
from caffe2_fleet.site.summary import write_summary
from caffe2_validation.options import DEFAULTS, ValidationOptions


@dataclass(frozen=True)
class Batch:
    """What a batch found.

    Attributes:
        results: of the models, in their order.
        skipped: the files that are not models.
        kept: how many results are those of an earlier run.
    """

    results: Sequence[ModelResult]
    skipped: Sequence[Skipped]
    kept: int = 0

    def __repr__(self) -> str:
        return short_repr(self, count_verdicts(self.results), models=len(self.results), skipped=len(self.skipped))

    def _repr_html_(self) -> str:
        return results_html(self.results)


def run_batch(
    source: AnyPath,
    out: AnyPath,
    options: ValidationOptions = DEFAULTS,
    *,
    engine: Any = "local",
    jobs: int = 1,
    seconds: float = 600.0,
    memory: int | None = None,
    report: Callable[[ModelResult, int, int], None] | None = None,
    command: str = "",
    plugins: Sequence[str] = (),
) -> Batch:
    """Export and validate models; ``out`` gets the .onnx files, a page and a record of each, and a summary of all.

    Args:
        source: a folder, under which models are found, or a manifest.
        out: folder to write. Results in it of the same model and options are kept.
        options: of each validation; runtimes are names.
        engine: where models run, see :func:`caffe2_backend.fleet.run`.
        jobs: models at a time.
        seconds: time limit for one model.
        memory: limit of the resident memory of one model's process, in bytes; None for no limit.
        report: called after each model, with its result, how many are done and how many there are.
        command: the command line, for the index.
        plugins: modules that register operators, see :func:`caffe2_backend.fleet.run`.

    Raises:
        OptionError: the manifest is not valid, or a plugin has no file.
        NetFormatError: the manifest is not a TOML, JSON or Parquet file.
        RunError: the engine is not installed, does not answer, or was lost.
        OSError: ``source`` cannot be read, or ``out`` cannot be written.
    """
    tasks, skipped = find_tasks(source, out)
    plan = make_plan(tasks, out, options, Limits(seconds, memory), plugins)
    results: dict[str, ModelResult] = {}
    with closing(run_plan(plan, engine, jobs)) as found:
        for result in found:
            results[result.model] = result
            if report is not None:
                report(result, len(results), len(tasks))
    ordered = [results[task.name] for task in tasks]
    write_summary(out, ordered, skipped, options, command)
    return Batch(ordered, skipped, len(plan.kept))
