"""The engine of a Dask cluster: each worker runs models in processes of its own."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, Final

from distributed import Client, Future, as_completed
from distributed.scheduler import KilledWorker

from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.storage import locate
from caffe2_fleet.batch_records import Records
from caffe2_fleet.engines.worker import execute_on_worker
from caffe2_fleet.job import Job
from caffe2_fleet.process.execute import crashed
from caffe2_fleet.result import ModelResult
from caffe2_fleet.site.model_page import write_model_page

RESOURCE: Final = "memory"  # of workers, in bytes: dask worker --resources memory=16e9
_QUEUED: Final = 2  # jobs at the cluster for each thread of its workers; the others wait here, and take nothing there
_RECONNECT_SECONDS: Final = 60.0


class DaskEngine:
    """A Dask cluster.

    Workers that declare the resource ``memory`` in bytes run no more models at a time than it suffices for. A model
    whose workers were lost, as often as the scheduler allows (``distributed.scheduler.allowed-failures``), is tried
    once more, with all the memory of a worker to itself; if that worker is lost, too, the result is ``crashed``.

    Args:
        client: of the cluster.
        close: called when the engine is closed; None leaves the client open, which is the caller's.
    """

    def __init__(self, client: Client, close: Callable[[], None] | None = None) -> None:
        self._client = client
        self._close = close

    def run(self, jobs: Sequence[Job]) -> Iterator[ModelResult]:
        """See Engine."""
        waiting = deque(jobs)
        running: dict[Future[Any], tuple[Job, bool]] = {}
        done = as_completed([], loop=self._client.loop)

        def submit(job: Job, *, alone: bool = False) -> None:
            self._require_scheduler()
            future = self._client.submit(
                execute_on_worker, job, key=f"fleet-{job.task.name}-{time.monotonic_ns()}", pure=False,
                resources=self._resources(job, alone=alone),
            )  # fmt: skip
            running[future] = job, alone
            done.add(future)

        try:
            while waiting or running:
                while waiting and len(running) < _QUEUED * max(self._threads(), 1):
                    submit(waiting.popleft())
                future = next(done)
                job, alone = running.pop(future)
                try:
                    error = future.exception()
                except CancelledError:  # its scheduler was lost
                    submit(job, alone=alone)
                    continue
                if isinstance(error, KilledWorker) and not alone:
                    submit(job, alone=True)
                elif isinstance(error, KilledWorker):
                    yield _record_lost(job)
                else:
                    yield future.result()
        finally:
            if running and self._client.status == "running":
                self._client.cancel(list(running), force=True)

    def close(self) -> None:
        """See Engine."""
        if self._close is not None:
            self._close()

    def _threads(self) -> int:
        return sum(worker["nthreads"] for worker in self._workers())

    def _workers(self) -> list[dict[str, Any]]:
        return list(self._client.scheduler_info(n_workers=-1).get("workers", {}).values())

    def _resources(self, job: Job, *, alone: bool) -> dict[str, float] | None:
        """Return the memory of a worker that a job takes, if workers declare it: all for a job that runs alone."""
        declared = [worker["resources"].get(RESOURCE, 0) for worker in self._workers()]
        largest = max(declared, default=0)
        return {RESOURCE: largest if alone else min(job.share, largest)} if largest else None

    def _require_scheduler(self) -> None:
        """Wait for a scheduler that was lost to come back. Raises RunError if it does not."""
        deadline = time.monotonic() + _RECONNECT_SECONDS
        while self._client.status in ("connecting", "newly-created") and time.monotonic() < deadline:
            time.sleep(0.1)
        if self._client.status != "running":
            raise RunError(
                "the Dask scheduler was lost: start it and run the batch again, which goes on where it stopped"
            )


def _record_lost(job: Job) -> ModelResult:
    """Return the result of a model whose workers were lost, with its page and its record."""
    reason = "the workers that ran it were lost, the last one while it ran this model alone"
    result = crashed(job, reason, "lost workers", 2)
    if job.target:
        target = locate(job.target)
        write_model_page(target, result)
        Records(target).write(result)
    return result
