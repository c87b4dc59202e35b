"""Ctrl-C and SIGTERM end a run early; what it found until then is written all the same."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
STATUS: Final = 130  # of a run that was ended, as shells have it for Ctrl-C


@contextmanager
def ended_by_signals() -> Iterator[threading.Event]:
    """Yield an event that the first signal sets; the second one ends the process as usual."""
    ended = threading.Event()

    def end(number: int, _: FrameType | None) -> None:
        ended.set()
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
