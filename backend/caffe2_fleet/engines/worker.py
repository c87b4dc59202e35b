"""What a worker of a cluster or of an executor does with a job: it runs it in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

from caffe2_fleet.job import Job
from caffe2_fleet.process.execute import execute
from caffe2_fleet.process.pool import ProcessPool
from caffe2_fleet.result import ModelResult

_POOL: Final = ProcessPool()  # of a worker: this module is imported there
_RUNS: Final[dict[str, ProcessPool]] = {}  # of runs that this process started, whose workers may be its threads


def execute_on_worker(job: Job, run: str = "") -> ModelResult:
    """Run a job in a process of the worker that calls this; ``run`` is that of :func:`run_of_threads`."""
    return execute(job, _RUNS.get(run, _POOL))


@contextmanager
def run_of_threads() -> Iterator[str]:
    """Yield the name of a run; the processes that threads of this process start for it end with it."""
    run = uuid4().hex
    _RUNS[run] = ProcessPool()
    try:
        yield run
    finally:
        _RUNS.pop(run).stop()
