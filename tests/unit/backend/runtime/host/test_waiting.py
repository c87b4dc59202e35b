"""Waiting for other threads, and its end where the work around it is given up."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from caffe2_backend.runtime.host.waiting import (
    Cancellation,
    CancelledError,
    concurrent_work,
    is_concurrent,
    wait_for,
    working_in,
)


def wait(condition: threading.Condition, cancellation: Cancellation | None, timeout: float | None = None) -> bool:
    """Wait for what never holds."""
    if cancellation is None:
        with condition:
            return wait_for(condition, lambda: False, timeout)
    with working_in(cancellation), condition:
        return wait_for(condition, lambda: False, timeout)


def test_waiting_ends_after_a_time() -> None:
    condition = threading.Condition()
    assert not wait(condition, None, 0.01)
    assert not wait(condition, Cancellation(), 0.01)


def test_a_cancellation_wakes_those_that_wait_in_it() -> None:
    condition, outer = threading.Condition(), Cancellation()
    with ThreadPoolExecutor(3) as pool, working_in(outer), concurrent_work() as inner:
        assert is_concurrent()
        waiting = [pool.submit(wait, condition, each) for each in (outer, inner)]
        other = pool.submit(wait, condition, Cancellation(), 0.5)
        outer.cancel()
        for each in waiting:
            with pytest.raises(CancelledError, match="another part of its plan failed"):
                each.result()
        assert not other.result()
    assert inner.is_cancelled
    assert not is_concurrent()


def test_work_that_begins_in_cancelled_work_is_cancelled() -> None:
    outer = Cancellation()
    outer.cancel()
    with working_in(outer), concurrent_work() as inner:
        assert inner.is_cancelled
    condition = threading.Condition()
    with working_in(outer), condition:
        assert wait_for(condition, lambda: True)
        with pytest.raises(CancelledError):
            wait_for(condition, lambda: False)
