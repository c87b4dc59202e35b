"""The engine of this machine: plain processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Final

from caffe2_fleet.job import Job
from caffe2_fleet.process.execute import answer, kept_result, write_result
from caffe2_fleet.process.memory import available_bytes
from caffe2_fleet.process.pool import ProcessPool
from caffe2_fleet.result import ModelResult

_USED: Final = 0.9  # of the memory that is available


class LocalEngine:
    """Processes of this machine.

    Args:
        jobs: how many models run at a time, at most.
        memory: bytes that models which run at a time are expected to take, at most; None for 90 % of what is available.
            A model that is expected to take more runs alone.
    """

    def __init__(self, jobs: int = 1, memory: int | None = None) -> None:
        self._jobs = jobs
        self._memory = int(available_bytes() * _USED) if memory is None else memory

    def run(self, jobs: Sequence[Job]) -> Iterator[ModelResult]:
        """See Engine.

        Records are written by a thread of their own: a process that has answered runs the next model meanwhile.
        """
        pool = ProcessPool()
        threads, writer = ThreadPoolExecutor(max_workers=self._jobs), ThreadPoolExecutor(max_workers=1)

        def run(job: Job) -> Future[ModelResult]:
            kept = kept_result(job)
            if kept is not None:
                return writer.submit(lambda: kept)
            return writer.submit(write_result, job, answer(job, pool))

        waiting, running, written = deque(jobs), dict[Future[Future[ModelResult]], Job](), set[Future[ModelResult]]()
        try:
            while waiting or running or written:
                while (job := self._next(waiting, list(running.values()))) is not None:
                    running[threads.submit(run, job)] = job
                pending: set[Future[Any]] = {*running, *written}
                done, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in [future for future in running if future in done]:
                    del running[future]
                    written.add(future.result())
                for result in written & done:
                    written.remove(result)
                    yield result.result()
        finally:  # Ctrl-C, above all: nothing that waits starts, what runs ends, and what was answered is recorded
            pool.stop()
            threads.shutdown(wait=True, cancel_futures=True)
            writer.shutdown(wait=True)

    def _next(self, waiting: deque[Job], running: Sequence[Job]) -> Job | None:
        """Take the first job that fits into what the running ones leave of the memory; None if none does."""
        if len(running) >= self._jobs:
            return None
        left = self._memory - sum(job.share for job in running)
        for index, job in enumerate(waiting):
            if job.share <= left or not running:
                del waiting[index]
                return job
        return None

    def close(self) -> None:
        """See Engine: processes end with :meth:`run`."""
