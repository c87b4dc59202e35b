"""Processes of a batch that is interrupted."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest
from support.paths import MODELS

from caffe2_backend.validation.batch import batch
from caffe2_backend.validation.batch.result import ModelResult
from caffe2_backend.validation.batch.workers import StoppedError, Workers

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_an_answer() -> None:
    answer = Workers().run([sys.executable, "-c", "print(input() * 2)"], "ab", 60)
    assert answer is not None
    assert (answer.output, answer.status) == ("abab\n", 0)


def test_a_process_that_takes_too_long_is_ended() -> None:
    start = time.monotonic()
    assert Workers().run(SLEEP, "", 0.2) is None
    assert time.monotonic() - start < 30


def test_processes_end_with_the_batch() -> None:
    workers, raised = Workers(), threading.Event()

    def run() -> None:
        with pytest.raises(StoppedError):
            workers.run(SLEEP, "", 60)
        raised.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not workers._running:
        time.sleep(0.01)
    workers.stop()
    thread.join(30)
    assert raised.is_set()
    with pytest.raises(StoppedError):
        workers.run(SLEEP, "", 60)


def test_an_interrupted_batch_starts_and_records_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def run(_: Workers, _words: object, text: str, _seconds: float) -> None:
        started.append(text)
        time.sleep(0.5)

    def report(_: ModelResult, _done: int, _total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Workers, "run", run)
    with pytest.raises(KeyboardInterrupt):
        batch.run_batch(MODELS, tmp_path / "out", jobs=1, report=report)
    assert len(started) <= 2  # the first, and the one that began while the first was reported
    assert not (tmp_path / "out" / "summary.json").exists()
