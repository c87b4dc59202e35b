"""What a run has to do: the jobs of its models, and those whose results are kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.plugins import absolute_plugin, plugin_source
from caffe2_bridge.storage import AnyPath
from caffe2_fleet.batch_records import Records
from caffe2_fleet.job import Job, Limits
from caffe2_fleet.models.lock import NAME, Lock
from caffe2_fleet.result import ModelResult
from caffe2_fleet.task import ModelTask
from caffe2_validation.options import ValidationOptions


@dataclass(frozen=True)
class FleetPlan:
    """The results of earlier runs that are kept, and the jobs that are left, in the order of the models."""

    kept: Sequence[ModelResult]
    jobs: Sequence[Job]


def make_plan(
    tasks: Iterable[ModelTask],
    target: AnyPath | None,
    options: ValidationOptions,
    limits: Limits,
    plugins: Sequence[str] = (),
) -> FleetPlan:
    """Compute the key of each model, and find what is done. Writes the lock file to the target.

    Raises OptionError if the options are not plain data or a plugin has no file, and OSError if the target cannot be
    written.
    """
    text = plain_options(options)
    sources = [sha256(plugin_source(name)).hexdigest() for name in plugins]
    common = "\n".join([text, version("caffe2-bridge"), *sources])
    named = tuple(map(absolute_plugin, plugins))
    lock = Lock() if target is None else Lock.read(target / NAME)
    records = None if target is None else Records(target)
    folder = "" if target is None else str(target)
    kept, jobs = [], []
    for task in tasks:
        try:
            key, size = lock.lock(task, common)
        except (OSError, ValueError):  # ValueError: a path with a NUL character; the process of the model reports it
            key, size = "", 0
        done = records.find(task.name, key) if records is not None and key else None
        if done is None:
            jobs.append(Job(task, text, folder, key, size, limits, named))
        else:
            kept.append(done if done.owner == task.owner else done.with_owner(task.owner))
    if target is not None:
        lock.write(target / NAME)
    return FleetPlan(kept, jobs)


def plain_options(options: ValidationOptions) -> str:
    """Return the options as JSON text. Raises OptionError if one of them is not plain data."""
    try:
        text = options.to_json()
    except TypeError:
        raise OptionError("the runtimes of a fleet must be names, because its models run in other processes") from None
    restored = ValidationOptions.from_json(text)
    for name in ("described", "outputs", "repro", "sizes", "tolerances"):
        if getattr(restored, name) != getattr(options, name):
            raise OptionError(f"{name} cannot be an option of a whole fleet: give each ModelTask its own")
    return text
