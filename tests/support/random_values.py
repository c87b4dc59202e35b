"""Random operands that depend on the test alone, not on the tests that ran before it."""

from __future__ import annotations

import zlib
from typing import Any, Final

import numpy as np

DTYPES: Final = {
    "float": np.float32, "double": np.float64, "int8": np.int8, "uint8": np.uint8, "int32": np.int32,
    "int64": np.int64, "bool": np.bool_,
}  # fmt: skip


class RandomValues:
    """Draws arrays from a generator seeded by a name. The fixture ``random`` is one, seeded by the test's name."""

    def __init__(self, name: str) -> None:
        self.generator = np.random.default_rng(zlib.crc32(name.encode()))

    def normal(self, *shape: int, scale: float = 1.0) -> Any:
        """Return normally distributed float32 elements."""
        return self.generator.normal(0, scale, shape).astype(np.float32)

    def numbers(self, *shape: int, name: str = "float") -> Any:
        """Return normally distributed elements of deviation 4, converted to a dtype of ``DTYPES``."""
        return (self.generator.normal(size=shape) * 4).astype(DTYPES[name])

    def within(self, low: int, high: int, *shape: int, name: str = "int64") -> Any:
        """Return integers from ``low`` to ``high`` exclusive, as a dtype of ``DTYPES``."""
        return self.generator.integers(low, high, size=shape).astype(DTYPES[name])
