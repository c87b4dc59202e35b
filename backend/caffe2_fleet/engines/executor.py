"""The engine of an executor of ``concurrent.futures``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed

from caffe2_bridge.diagnostics import RunError
from caffe2_fleet.engines.worker import execute_on_worker, run_of_threads
from caffe2_fleet.job import Job
from caffe2_fleet.result import ModelResult


class ExecutorEngine:
    """The threads or processes of an executor; each runs one model at a time, in a process of its own.

    Args:
        executor: the caller's, which stays open. Its workers must have this project, and reach the models.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def run(self, jobs: Sequence[Job]) -> Iterator[ModelResult]:
        """See Engine."""
        with run_of_threads() as run:
            try:
                futures = [self._executor.submit(execute_on_worker, job, run) for job in jobs]
            except RuntimeError as error:  # it was shut down, or is broken, which is a RuntimeError too
                raise _lost(error) from error
            try:
                for future in as_completed(futures):
                    yield future.result()
            except BrokenExecutor as error:
                raise _lost(error) from error
            finally:
                for future in futures:
                    future.cancel()

    def close(self) -> None:
        """See Engine: the executor is the caller's."""


def _lost(error: Exception) -> RunError:
    return RunError(f"the executor was lost ({error}): run the batch again, which goes on where it stopped")
