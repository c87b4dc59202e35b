"""Plain processes: shares of memory, and batches that are interrupted."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from support.paths import MODELS

from caffe2_fleet.batch import run_batch
from caffe2_fleet.engines import local
from caffe2_fleet.engines.local import LocalEngine
from caffe2_fleet.job import Job
from caffe2_fleet.process.pool import ProcessPool
from caffe2_fleet.result import ModelResult
from caffe2_fleet.task import ModelTask

GB = 1 << 30


def jobs(*sizes: int) -> list[Job]:
    return [Job(ModelTask(str(i), "p"), "{}", bytes=size) for i, size in enumerate(sizes)]


def test_models_that_run_at_a_time_fit_into_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    running: dict[str, int] = {}
    together: list[int] = []
    lock = threading.Lock()

    def answer(job: Job, _: ProcessPool) -> ModelResult:
        with lock:
            running[job.task.name] = job.share
            together.append(sum(running.values()) if len(running) > 1 else 0)
        time.sleep(0.02)
        with lock:
            del running[job.task.name]
        return ModelResult(job.task.name, "agree")

    monkeypatch.setattr(local, "answer", answer)
    found = list(LocalEngine(4, memory=8 * GB).run(jobs(GB, GB, GB, 0, 10 * GB, 0, GB // 2)))
    assert sorted(result.model for result in found) == [str(i) for i in range(7)]
    assert max(together) <= 8 * GB
    assert max(together) > 0


def test_an_interrupted_batch_starts_no_more_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def answer(job: Job, _: ProcessPool) -> ModelResult:
        started.append(job.task.name)
        time.sleep(0.1)
        return ModelResult(job.task.name, "agree")

    def report(_: ModelResult, _done: int, _total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "answer", answer)
    with pytest.raises(KeyboardInterrupt):
        run_batch(MODELS, tmp_path / "out", jobs=1, report=report)
    assert len(started) <= 2  # the second one started while the first one's record was written
    assert not (tmp_path / "out" / "summary.json").exists()


def test_an_engine_that_does_not_exist() -> None:
    from caffe2_bridge.diagnostics import OptionError
    from caffe2_fleet.engines.selection import open_engine

    with pytest.raises(OptionError, match="engine must be local, dask, dask://HOST:PORT or slurm, not 'ray'"):
        open_engine("ray", 1)
