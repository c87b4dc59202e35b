"""Progress of a validation: a function that is called with the name of each stage when it starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str], None]


def silent(_stage: str) -> None:
    """Report nothing."""
