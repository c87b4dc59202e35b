"""Waiting of host operators for other threads, which ends where the plan that they run in has failed.

Real Caffe2 waits for ever where a concurrent substep fails and another one waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

from caffe2_bridge.diagnostics import RunError


class CancelledError(RunError):
    """The run was cancelled, because another part of its plan failed."""


class Cancellation:
    """Whether concurrent work has been given up. Conditions that threads wait for in it are notified when it is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._conditions: list[threading.Condition] = []
        self._inner: list[Cancellation] = []

    @property
    def is_cancelled(self) -> bool:
        """Whether the work has been given up."""
        return self._cancelled

    def cancel(self) -> None:
        """Give the work up: wake all that wait in it."""
        with self._lock:
            self._cancelled = True
            conditions, inner = list(self._conditions), list(self._inner)
        for condition in conditions:
            with condition:
                condition.notify_all()
        for one in inner:
            one.cancel()

    @contextmanager
    def notifying(self, condition: threading.Condition) -> Iterator[None]:
        """Notify a condition if the work is given up within the block."""
        with self._lock:
            self._conditions.append(condition)
        try:
            yield
        finally:
            with self._lock:
                self._conditions.remove(condition)

    @contextmanager
    def enclosing(self, inner: Cancellation) -> Iterator[None]:
        """Give other work up, too, if this work is given up within the block."""
        with self._lock:
            self._inner.append(inner)
            cancelled = self._cancelled
        if cancelled:
            inner.cancel()
        try:
            yield
        finally:
            with self._lock:
                self._inner.remove(inner)


# The cancellation of the concurrent work that this thread does; None if it does none.
_current: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


def is_concurrent() -> bool:
    """Whether this thread is one of several that run parts of a plan."""
    return _current.get() is not None


@contextmanager
def concurrent_work() -> Iterator[Cancellation]:
    """Yield a cancellation of concurrent work, which the work that this thread does includes."""
    outer, inner = _current.get(), Cancellation()
    with nullcontext() if outer is None else outer.enclosing(inner):
        yield inner


@contextmanager
def working_in(cancellation: Cancellation) -> Iterator[None]:
    """Let a cancellation end what this thread waits for within the block."""
    token = _current.set(cancellation)
    try:
        yield
    finally:
        _current.reset(token)


def wait_for(condition: threading.Condition, holds: Callable[[], bool], timeout: float | None = None) -> bool:
    """Wait until something holds; return False if it did not in time.

    Args:
        condition: is notified when it may hold; the caller has locked it.
        holds: whether it holds.
        timeout: in seconds; None waits for ever.

    Raises CancelledError if the work that this thread does has been given up.
    """
    cancellation = _current.get()
    if cancellation is None or holds():
        return condition.wait_for(holds, timeout)
    with cancellation.notifying(condition):
        done = condition.wait_for(lambda: holds() or cancellation.is_cancelled, timeout)
    if done and cancellation.is_cancelled and not holds():
        raise CancelledError("the run was cancelled, because another part of its plan failed")
    return done
