"""The engine of this machine: plain processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final

from caffe2_backend.fleet.job import Job
from caffe2_backend.fleet.process.execute import execute
from caffe2_backend.fleet.process.memory import available_bytes
from caffe2_backend.fleet.process.pool import ProcessPool
from caffe2_backend.fleet.result import ModelResult

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
        """See Engine."""
        pool = ProcessPool()
        threads = ThreadPoolExecutor(max_workers=self._jobs)
        waiting, running = deque(jobs), dict[Future[ModelResult], Job]()
        try:
            while waiting or running:
                while (job := self._next(waiting, list(running.values()))) is not None:
                    running[threads.submit(execute, job, pool)] = job
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    del running[future]
                    yield future.result()
        finally:  # Ctrl-C, above all: nothing that waits starts, and what runs ends
            pool.stop()
            threads.shutdown(wait=True, cancel_futures=True)

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
