"""Sizes of generated inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Size:
    """Sizes of open dims: T steps, a batch of N, and any other dim."""

    steps: int
    batch: int
    other: int

    def __str__(self) -> str:
        return f"T={self.steps} N={self.batch}"


SIZES: Final = (Size(1, 1, 2), Size(6, 3, 4), Size(17, 2, 5))
