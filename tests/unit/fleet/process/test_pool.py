"""Processes that run models: limits, deaths, and their end with the pool."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from caffe2_fleet.batch_records import Records
from caffe2_fleet.job import Job, Limits
from caffe2_fleet.process import model_process
from caffe2_fleet.process.execute import answer, execute
from caffe2_fleet.process.model_process import LimitError, ModelProcess, ProcessEndedError
from caffe2_fleet.process.pool import ProcessPool, StoppedError
from caffe2_fleet.task import ModelTask

# A stand-in for the server: what it does with a request is in the request's task name.
SERVER = """
import json, os, signal, sys, time
print('{"ready": 1}', flush=True)
for line in sys.stdin:
    request = json.loads(line)
    name = json.loads(request["task"])["name"]
    if name.startswith("differs"):
        if name == "differs slowly" and request["repro"]: time.sleep(60)
        print(json.dumps({"verdict": "disagree", "notes": [], "repro": request["repro"]}), flush=True)
        continue
    if name == "sleep": time.sleep(60)
    if name == "large": held = bytearray(300 << 20); time.sleep(60)
    if name == "chatty": print("Hello from html.py", flush=True)
    if name == "odd": print('{"verdict": "ready"}', flush=True)
    if name == "dies" or name.startswith("once") and not os.path.exists(name[5:]):
        open(name[5:] or os.devnull, "w").close()
        print("a last line", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    print(json.dumps({"verdict": "agree", "reason": str(os.getpid())}), flush=True)
"""


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> None:
    real = model_process.subprocess.Popen
    monkeypatch.setattr(
        model_process.subprocess, "Popen", lambda _, **rest: real([sys.executable, "-c", SERVER], **rest)
    )


def job(name: str, **limits: float) -> Job:
    return Job(ModelTask(name, "p"), "{}", key="k", limits=Limits(**limits))  # type: ignore[arg-type] # whole numbers


def ask(process: ModelProcess, name: str, seconds: float = 30, memory: int | None = None) -> str:
    return str(process.ask(job(name).request(), seconds, memory)["reason"])


def test_one_process_runs_many_models() -> None:
    pool = ProcessPool()
    with pool.lease() as process:
        first = ask(process, "a")
    with pool.lease() as process:
        assert ask(process, "b") == first
        assert process.memory > 1 << 20
    with pool.lease(fresh=True) as process:
        assert ask(process, "c") != first
    pool.stop()


def test_limits_end_the_process() -> None:
    pool = ProcessPool()
    start = time.monotonic()
    with pytest.raises(LimitError, match=r"did not end within 0\.2 seconds"), pool.lease() as process:
        ask(process, "sleep", seconds=0.2)
    with pytest.raises(LimitError, match="more than the limit of 100 MiB"), pool.lease() as process:
        ask(process, "large", memory=100 << 20)
    assert time.monotonic() - start < 30
    assert not pool._idle
    with pool.lease() as process:
        assert ask(process, "a", memory=100 << 20)
    pool.stop()


def test_a_process_that_dies_says_how() -> None:
    pool = ProcessPool()
    with pytest.raises(ProcessEndedError, match=r"status -11 \(SIGSEGV\): a last line"), pool.lease() as process:
        ask(process, "dies")
    pool.stop()


def test_a_model_whose_process_dies_runs_once_more_alone(tmp_path: Path) -> None:
    pool = ProcessPool()
    result = execute(job(f"once:{tmp_path / 'died'}"), pool)
    assert (result.verdict, result.attempts) == ("agree", 2)
    assert not pool._idle  # the second process ran nothing else, and runs nothing else
    poison = execute(job("dies"), pool)
    assert (poison.verdict, poison.attempts) == ("crashed", 2)
    assert "SIGSEGV" in poison.reason
    late = execute(job("sleep", seconds=0.2), pool)
    assert (late.verdict, late.attempts) == ("crashed", 1)
    pool.stop()


def test_a_model_whose_runtimes_disagree_runs_once_more_for_the_operator(tmp_path: Path) -> None:
    pool = ProcessPool()
    found, late = (
        answer(replace(job(name, seconds=seconds), target=str(tmp_path)), pool)
        for name, seconds in (("differs", 30.0), ("differs slowly", 0.5))
    )
    assert (found.verdict, found.repro) == ("disagree", "repro/differs")
    assert (late.verdict, late.repro) == ("disagree", "")
    assert late.notes[0].startswith("the operator that differs was not found: ")
    pool.stop()


@pytest.mark.parametrize(("name", "line"), [("chatty", "Hello from html.py"), ("odd", '{"verdict": "ready"}')])
def test_a_line_that_is_not_an_answer_costs_one_model(name: str, line: str) -> None:
    pool = ProcessPool()
    with pool.lease() as process:
        first = ask(process, "a")
    result = execute(job(name), pool)
    assert (result.verdict, result.cause, result.attempts) == ("crashed", "process wrote no answer", 2)
    assert f"a line that is not an answer: {line!r}" in result.reason
    good = execute(job("b"), pool)
    assert good.verdict == "agree"
    assert good.reason != first  # the process that wrote the line is not used again
    pool.stop()


def test_what_is_recorded_is_not_run_again(tmp_path: Path) -> None:
    pool = ProcessPool()
    one = Job(ModelTask("a", "p"), "{}", str(tmp_path), "k")
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "a.html").touch()
    result = execute(one, pool)
    pool.stop()
    assert execute(one, pool) == result == Records(tmp_path).find("a", "k")
    assert json.loads(next((tmp_path / "results").iterdir()).read_text(encoding="utf-8"))["key"] == "k"
    with pytest.raises(StoppedError):
        execute(Job(ModelTask("a", "p"), "{}", str(tmp_path), "other"), pool)


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_processes_end_with_the_pool() -> None:
    pool, raised = ProcessPool(), threading.Event()

    def run() -> None:
        with pytest.raises(StoppedError):
            execute(job("sleep"), pool)
        raised.set()

    thread = in_thread(run)
    while not pool._busy:
        time.sleep(0.01)
    pool.stop()
    thread.join(30)
    assert raised.is_set()
    assert not pool._busy
