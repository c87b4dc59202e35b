"""What to type to describe an input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_NAMES: Final = "NDHW"


def input_hint(name: str, rank: int, dtype: str = "float32") -> str:
    """An example that describes an input, on the command line and in Python; its dims have names."""
    return input_example(name, [_NAMES[i] if i < len(_NAMES) else f"D{i}" for i in range(rank)], dtype)


def input_example(name: str, dims: Sequence[int | str], dtype: str = "float32") -> str:
    """Text that describes an input with these dims, on the command line and in Python."""
    return f"--input '{name}={dtype}[{','.join(map(str, dims))}]', or inputs={{{name!r}: ({dtype!r}, {list(dims)!r})}}"
