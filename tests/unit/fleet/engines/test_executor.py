"""Executors of concurrent.futures as engines; modules: worker, executor, selection."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.nets import net, op

from caffe2_bridge import Model, RunError, save
from caffe2_bridge.diagnostics import OptionError
from caffe2_fleet import ModelResult, run, run_batch
from caffe2_fleet.engines import executor, worker
from caffe2_fleet.engines.executor import ExecutorEngine
from caffe2_fleet.engines.selection import open_engine
from caffe2_fleet.job import Job
from caffe2_fleet.task import ModelTask
from caffe2_validation.options import ValidationOptions

OPTIONS = ValidationOptions(runtimes=("workspace", "onnxruntime-cpu"))


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    for kind in ("Relu", "Exp", "Nope"):
        save(Model.of(net(op(kind, "x", "y"))), tmp_path / "zoo" / kind)
    return tmp_path / "zoo"


def test_threads_run_models_in_processes_that_end_with_the_run(zoo: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        found = {result.model: result for result in run(zoo, engine=threads, options=OPTIONS, target=tmp_path / "out")}
        assert {name: result.verdict for name, result in found.items()} == {
            "Relu": "agree", "Exp": "agree", "Nope": "not covered"
        }  # fmt: skip
        assert threads.submit(int).result() == 0  # it is still open
    assert not worker._RUNS
    assert not worker._POOL._idle
    assert (tmp_path / "out" / "onnx" / "Relu.onnx").is_file()


@pytest.mark.slow
def test_processes(zoo: Path, tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        batch = run_batch(zoo, tmp_path / "out", OPTIONS, engine=processes)
    assert repr(batch) == "Batch('2 agree, 1 not covered', models=3, skipped=3)"


def jobs(*names: str) -> list[Job]:
    return [Job(ModelTask(name, name), "{}") for name in names]


def test_a_run_that_is_given_up_starts_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    started, go_on = [], threading.Event()

    def execute(job: Job, _: Any) -> ModelResult:
        started.append(job.task.name)
        if job.task.name == "b":
            go_on.wait()
        return ModelResult(job.task.name, "agree")

    monkeypatch.setattr(worker, "execute", execute)
    with ThreadPoolExecutor(1) as threads:
        results = ExecutorEngine(threads).run(jobs("a", "b", "c"))
        assert next(results).model == "a"
        results.close()  # type: ignore[attr-defined] # a generator
        go_on.set()
    assert started in (["a"], ["a", "b"])


def end_the_process(_: Job, __: str) -> None:
    os._exit(1)


def test_an_executor_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "execute_on_worker", end_the_process)
    with (
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes,
        pytest.raises(RunError, match=r"the executor was lost .*run the batch again, which goes on where it stopped"),
    ):
        list(ExecutorEngine(processes).run(jobs("a")))
    threads = ThreadPoolExecutor(1)
    threads.shutdown()
    with pytest.raises(RunError, match=r"the executor was lost \(cannot schedule new futures after shutdown\)"):
        list(ExecutorEngine(threads).run(jobs("a")))


class Immediate(Executor):
    """An executor of another library."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*args, **kwargs))
        return future


def test_any_executor_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "execute", lambda job, _: ModelResult(job.task.name, "agree"))
    engine = open_engine(Immediate(), 1)
    assert sorted(result.model for result in engine.run(jobs("a", "b"))) == ["a", "b"]
    engine.close()
    with pytest.raises(OptionError, match=r"an executor of concurrent.futures or a distributed.Client, not int"):
        open_engine(3, 1)
