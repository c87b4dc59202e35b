"""Repeat what a broken connection interrupted, a bounded number of times."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from caffe2_bridge.storage.errors import StorageError

T = TypeVar("T")

ATTEMPTS: Final = 5
_FIRST_PAUSE: Final = 0.1  # seconds; each pause is twice the one before


class TransientError(StorageError):
    """A request failed in a way that may not repeat: the connection was cut, or the server is overloaded."""


def pause(failures: int) -> None:
    """Wait after so many failures in succession."""
    time.sleep(_FIRST_PAUSE * 2 ** (failures - 1))


def gave_up(error: StorageError, attempts: int) -> StorageError:
    """Return the error of an operation that was repeated in vain."""
    return StorageError(f"{error.reason} (tried {attempts} times)", error.url)


def repeated(action: Callable[[], T], attempts: int = ATTEMPTS) -> T:
    """Run an action again while it raises TransientError. Raises StorageError after the last attempt."""
    for attempt in range(1, attempts + 1):
        try:
            return action()
        except TransientError as error:
            if attempt == attempts:
                raise gave_up(error, attempt) from None
            pause(attempt)
    raise AssertionError  # the last attempt returns or raises
