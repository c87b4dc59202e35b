"""The pause of Python's cycle collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from caffe2_bridge.collector import CollectorPaused


@pytest.fixture(autouse=True)
def _collector_restored() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_the_collector_resumes_after_the_outermost_block() -> None:
    gc.enable()
    with CollectorPaused():
        with CollectorPaused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_does_not_run_stays_off() -> None:
    gc.disable()
    with CollectorPaused():
        pass
    assert not gc.isenabled()


def test_the_collector_resumes_after_an_exception() -> None:
    gc.enable()
    with pytest.raises(ValueError, match="x"), CollectorPaused():
        raise ValueError("x")
    assert gc.isenabled()


@pytest.mark.parametrize("first_ends_first", [False, True])
def test_the_collector_resumes_after_blocks_of_two_threads(*, first_ends_first: bool) -> None:
    gc.enable()
    inside, leave = Event(), Event()

    def other() -> None:
        with CollectorPaused():
            inside.set()
            leave.wait()

    thread = Thread(target=other)
    with CollectorPaused():
        thread.start()
        inside.wait()
        if not first_ends_first:
            leave.set()
            thread.join()
            assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_a_block_that_begins_while_another_ends_does_not_leave_the_collector_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gc.enable()
    first, second = CollectorPaused(), CollectorPaused()
    first.__enter__()
    disable, ending = gc.disable, Thread(target=first.__exit__)

    def end_the_first_before() -> None:
        ending.start()
        ending.join(0.1)
        disable()

    with monkeypatch.context() as patch:
        patch.setattr(gc, "disable", end_the_first_before)
        second.__enter__()
    ending.join()
    second.__exit__()
    assert gc.isenabled()
