"""The command that validates one model of a batch alone."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from caffe2_fleet.models.write_manifest import spelled
from caffe2_fleet.task import ModelTask
from caffe2_validation.options import DEFAULTS, ValidationOptions


def command_of(task: ModelTask, common: ValidationOptions, plugins: Iterable[str] = ()) -> str:
    """Return the command that validates a model as the batch with these options does. Raises OptionError."""
    named = [word for plugin in plugins for word in ("--plugin", plugin)]
    return shlex.join(["caffe2-bridge", "validate", task.path, *_words(task, task.options(common)), *named])


def _words(task: ModelTask, options: ValidationOptions) -> Iterator[str]:
    if task.init:
        yield from ("--init", task.init)
    for runtime in options.runtimes or ():
        yield from ("--against", str(runtime))
    for name, spec in options.described.items():
        yield from ("--input", f"{name}={spelled(spec)}")
    for name in options.outputs or ():
        yield from ("--output", name)
    for option in ("device", "recurrent", "seed", "rtol", "atol"):
        value = getattr(options, option)
        if value != getattr(DEFAULTS, option):
            yield from (f"--{option}", str(value))
    if options.random_weights:
        yield "--random-weights"
