"""Run the models of a fleet and yield their results."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.storage import AnyPath, locate
from caffe2_fleet.engines.base import Engine
from caffe2_fleet.engines.selection import open_engine
from caffe2_fleet.job import Limits
from caffe2_fleet.models.discovery import Skipped, discover, name_of, text_of
from caffe2_fleet.models.manifest import SUFFIXES, read_manifest
from caffe2_fleet.plan import FleetPlan, make_plan
from caffe2_fleet.result import ModelResult
from caffe2_fleet.task import ModelTask
from caffe2_validation.options import DEFAULTS, ValidationOptions

PathLike: TypeAlias = str | os.PathLike[str]


def run(
    models: PathLike | Iterable[PathLike | ModelTask],
    *,
    engine: Any = "local",
    target: PathLike | None = None,
    options: ValidationOptions = DEFAULTS,
    jobs: int = 1,
    seconds: float = 600.0,
    memory: int | None = None,
    plugins: Sequence[str] = (),
) -> Generator[ModelResult]:
    """Check, export and validate models, and yield a result for each, as they end.

    A run that was interrupted goes on where it stopped, if it has a target: models whose record there has the same
    files, options and version are not run again. Their results come first.

    Args:
        models: a folder, under which models are found; a manifest; or paths of models and tasks. Paths may be URLs.
        engine: ``"local"``, processes of this machine; ``"dask"``, a Dask cluster of this machine;
            ``"dask://HOST:PORT"``, the scheduler of a Dask cluster; ``"slurm"``; any executor of
            ``concurrent.futures``, which stays open; or a ``distributed.Client``.
        target: folder for the .onnx files, pages and records, which every worker must reach under the same path; None
            writes nothing.
        options: of each validation; they must be plain data.
        jobs: how many models run at a time, on engines of this machine; for slurm, how many workers start.
        seconds: time limit of one model.
        memory: limit of the resident memory of one model's process, in bytes; None for no limit.
        plugins: modules that register operators, by name or as .py files, which the process of each model imports.

    Raises:
        OptionError: the manifest is not valid, the engine does not exist, or an option is not plain data,
            or a plugin has no file.
        NetFormatError: the manifest is not a TOML, JSON or Parquet file.
        RunError: the engine is not installed, does not answer, or was lost.
        OSError: ``models`` cannot be read, or ``target`` cannot be written.
    """
    where = None if target is None else locate(target)
    tasks = _tasks(models, where)
    plan = make_plan(tasks, where, options, Limits(seconds, memory), plugins)
    return run_plan(plan, engine, jobs)


def run_plan(plan: FleetPlan, engine: Any, jobs: int) -> Generator[ModelResult]:
    """Yield the results that are kept, then those of the jobs, as they end."""
    yield from plan.kept
    if plan.jobs:
        opened: Engine = open_engine(engine, jobs)
        try:
            yield from opened.run(plan.jobs)
        finally:
            opened.close()


def find_tasks(source: AnyPath, target: AnyPath | None) -> tuple[list[ModelTask], Sequence[Skipped]]:
    """Return the tasks of a folder or of a manifest, and the files that are skipped. Raises like :func:`run`."""
    if source.is_file() and source.suffix in SUFFIXES:
        return read_manifest(source), ()
    if not source.is_dir():
        raise FileNotFoundError(f"{source} must be a folder with models, or a manifest ({', '.join(sorted(SUFFIXES))})")
    if isinstance(source, Path) and isinstance(target, Path) and source.resolve() == target.resolve():
        raise OptionError(f"{target} is the folder of the models, among which its exports would be: write another one")
    found = discover(source, target)
    names = [name_of(model, source) for model in found.models]
    tasks = [ModelTask(name, text_of(model)) for name, model in zip(names, found.models, strict=True)]
    return tasks, found.skipped


def _tasks(models: PathLike | Iterable[PathLike | ModelTask], target: AnyPath | None) -> list[ModelTask]:
    if isinstance(models, str | os.PathLike):
        return find_tasks(locate(models), target)[0]
    tasks = [model if isinstance(model, ModelTask) else _task(locate(model)) for model in models]
    for name, count in Counter(task.name for task in tasks).items():
        if count > 1:
            raise OptionError(f"two models are named {name!r}: give each a ModelTask with a name of its own")
    return tasks


def _task(path: AnyPath) -> ModelTask:
    if not isinstance(path, Path):
        return ModelTask(path.name, path.url.text)
    name = path.name if path.is_absolute() or ".." in path.parts else str(path)
    return ModelTask(name or path.resolve().name, str(path))
