"""The process with real Caffe2, used by threads, after a fork, interrupted and slow: a stand-in computes y = x + 1."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_validation.runtimes import process_runtime, real_caffe2, worker_process
from caffe2_validation.runtimes.real_caffe2 import Caffe2

# Speaks the protocol of the worker. "y" is x + 1, "models" the number of models that it has; x = -1 takes a minute.
STAND_IN = """
import os, sys, time
sys.path.insert(0, sys.argv.pop())
import numpy as np
from caffe2_worker import pack, read_frame
models = set()
while (frame := read_frame(sys.stdin.buffer.read)) is not None:
    header, values = frame
    models -= set(header["forget"])
    models |= {header["key"]} if header["do"] == "load" else set()
    found = {}
    if header["do"] == "run":
        if float(values["x"].ravel()[0]) == -1:
            time.sleep(60)
        time.sleep(0.002)
        found = {"y": values["x"] + 1, "models": np.array(len(models)), "process": np.array(os.getpid())}
    for part in pack({}, found):
        sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()
"""
NET = Model(NetDef(op=[operator("Relu", ["x"], ["y"])], external_input=["x"], external_output=["y"]))


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Caffe2]:
    worker = tmp_path / "worker.py"
    worker.write_text(STAND_IN)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@" "{Path(real_caffe2.__file__).parent}"\n')
    python.chmod(0o755)
    monkeypatch.setattr(real_caffe2, "_WORKER", worker)
    made = Caffe2(python)
    yield made
    made.close()


def run(runtime: Caffe2, number: float, *names: str) -> list[float]:
    found = runtime.load(NET).run({"x": np.array([number])}, ["y", *names])
    return [float(np.asarray(found[name]).ravel()[0]) for name in ("y", *names)]


def test_threads_are_answered_one_after_the_other(runtime: Caffe2) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda number: run(runtime, number, "process"), range(200))
    numbers, processes = zip(*answers, strict=True)
    assert list(numbers) == [number + 1.0 for number in range(200)]
    assert len(set(processes)) == 1


def test_a_model_that_ends_is_dropped_with_the_next_request(runtime: Caffe2) -> None:
    counts = [run(runtime, 1.0, "models")[1] for _ in range(20)]
    assert max(counts) <= 2  # of this model and, at most, of the one before


def test_an_ending_model_asks_nothing_while_another_thread_is_answered(runtime: Caffe2) -> None:
    held = runtime.load(NET)
    assert held.run({"x": np.array([1.0])})
    with runtime._lock:
        thread = threading.Thread(target=held.__del__)
        thread.start()
        thread.join(5)
        assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_has_a_process_of_its_own(runtime: Caffe2) -> None:
    first = run(runtime, 1.0, "process")
    reader, writer = os.pipe()
    with runtime._lock:  # a lock that a thread of the parent may hold
        child = os.fork()
    if not child:
        try:
            os.write(writer, json.dumps(run(runtime, 2.0, "process")).encode())
        finally:
            runtime.close()
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        number, process = json.loads(pipe.read())
    os.waitpid(child, 0)
    assert number == 3.0
    assert process != first[1]
    assert run(runtime, 4.0, "process") == [5.0, first[1]]


def is_alive(process: float) -> bool:
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.filterwarnings("error")  # of files that are not closed, and of processes that still run
def test_a_runtime_that_is_dropped_ends_its_process(runtime: Caffe2) -> None:
    other = Caffe2(runtime._python)
    _, process = run(other, 1.0, "process")
    folder = Path(other._process._folder) if other._process else None
    assert is_alive(process)
    del other
    gc.collect()
    assert not is_alive(process)
    assert folder is not None
    assert not folder.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_that_drops_a_runtime_leaves_the_process_of_its_parent(runtime: Caffe2) -> None:
    made = [Caffe2(runtime._python)]
    _, process = run(made[0], 1.0, "process")
    held = made[0]._process  # a fork does not forget what only a stack of a thread holds
    child = os.fork()
    if not child:
        del held
        made.clear()
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert held is made[0]._process
    assert run(made[0], 2.0, "process") == [3.0, process]
    made[0].close()


def test_an_interrupted_request_leaves_no_answer_for_the_next(runtime: Caffe2, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(runtime, 1.0) == [2.0]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(worker_process, "read_frame", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(runtime, 2.0)
    assert run(runtime, 3.0) == [4.0]


def test_the_limit_holds_while_another_thread_waits(runtime: Caffe2, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(runtime, 1.0) == [2.0]
    monkeypatch.setattr(runtime, "_seconds", 1.0)
    start = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(run, runtime, -1.0)
        time.sleep(0.1)
        other = pool.submit(run, runtime, 5.0)
        with pytest.raises(RunError, match="did not answer within 1 seconds"):
            slow.result()
        assert other.result() == [6.0]
    assert time.monotonic() - start < 50


def test_the_limit_holds_for_a_request_that_nobody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    monkeypatch.setattr(process_runtime, "START_SECONDS", 0.2)
    start = time.monotonic()
    with pytest.raises(RunError, match="did not answer"):
        Caffe2(python, seconds=0.2)._ask({"do": "run"}, {"x": np.zeros(1 << 20)}, None)
    assert time.monotonic() - start < 20
