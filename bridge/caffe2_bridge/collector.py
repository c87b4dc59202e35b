"""Pause Python's cycle collector while much is made of which nothing is garbage: graphs, and modules."""

from __future__ import annotations

import gc
from threading import Lock
from typing import Final

_LOCK: Final = Lock()


class CollectorPaused:
    """Pause the cycle collector: it would traverse what grows again and again, and find no garbage in it.

    It resumes at the end of the outermost block, and collects what a conversion leaves when it runs next. Where blocks
    of several threads overlap, it resumes when the one ends that paused it.
    """

    def __enter__(self) -> None:
        """Pause the collector if it runs."""
        with _LOCK:  # another thread that resumes it between the two calls would not be noticed
            self._was_enabled = gc.isenabled()
            gc.disable()

    def __exit__(self, *_: object) -> None:
        """Let it run again if it did before."""
        with _LOCK:
            if self._was_enabled:
                gc.enable()
