"""Pause Python's cycle collector while a conversion builds large graphs."""

from __future__ import annotations

import gc
from contextlib import ContextDecorator


class CollectorPaused(ContextDecorator):
    """Pause the cycle collector: it would traverse the growing graph repeatedly, and none of it is garbage yet.

    It resumes at the end of the outermost block, and collects what a conversion leaves when it runs next.
    """

    def __enter__(self) -> None:
        """Pause the collector if it runs."""
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        """Let it run again if it did before."""
        if self._was_enabled:
            gc.enable()
