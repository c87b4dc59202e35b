"""Locks of blobs that nets update: who holds those of a blob is the only one that reads it, computes, and writes it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

_RLOCK: Final[Any] = type(threading.RLock())
_acquire, _release = _RLOCK.acquire, _RLOCK.release


class UpdateLocks:
    """The locks of the blobs of one store, by name; the caller of its methods holds the lock of the store.

    Blobs that are first seen together share a lock, as they mostly are updated together: a net then takes one, however
    many states it has.
    """

    def __init__(self) -> None:
        self._locks: dict[str, threading.RLock] = {}

    def of(self, names: Iterable[str]) -> set[threading.RLock]:
        """Return the locks of some blobs."""
        new = threading.RLock()
        return {self._locks.setdefault(name, new) for name in names}


def together(locks: Iterable[threading.RLock]) -> AbstractContextManager[object]:
    """Return a block that holds some locks. It is one lock itself where that is all, which takes the least time."""
    ordered = sorted(locks, key=id)  # in one order for all, so that nobody waits for ever
    return ordered[0] if len(ordered) == 1 else _Several(ordered)


class _Several(AbstractContextManager[None]):
    """Holds several locks. Each loop is one call into C, in which no signal is handled: Ctrl-C leaves none held."""

    def __init__(self, locks: Sequence[threading.RLock]) -> None:
        self._locks = locks

    def __enter__(self) -> None:
        held: list[bool] = []
        try:
            held.extend(map(_acquire, self._locks))
        except BaseException:
            deque(map(_release, self._locks[: len(held)]), 0)
            raise

    def __exit__(self, *_: object) -> None:
        deque(map(_release, self._locks), 0)
