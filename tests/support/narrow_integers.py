"""NumPy whose default integers have 32 bits, as on 32-bit systems and in WebAssembly."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import numpy as np
import pytest

# What makes integers of Python arrays, with the position of the dtype; and what returns indices, whatever it is given.
_CONSTRUCTORS: Final = {"array": 1, "asarray": 1, "full": 2, "arange": 3}
_INDICES: Final = ("argsort", "flatnonzero", "nonzero", "searchsorted", "argmax", "argmin", "indices", "argwhere")


def narrow_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let NumPy return int32 to the project's modules where it would return its default integers."""
    for name, position in _CONSTRUCTORS.items():
        monkeypatch.setattr(np, name, _constructor(getattr(np, name), position))
    for name in _INDICES:
        monkeypatch.setattr(np, name, _indices(getattr(np, name)))


def _constructor(function: Callable[..., Any], position: int) -> Callable[..., Any]:
    @wraps(function)
    def narrow(*values: Any, **named: Any) -> Any:
        result = function(*values, **named)
        chosen = named.get("dtype") is not None or len(values) > position or any(map(_has_dtype, values))
        return result if chosen or not _is_called_here() else _narrowed(result)

    return narrow


def _indices(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def narrow(*values: Any, **named: Any) -> Any:
        result = function(*values, **named)
        return _narrowed(result) if _is_called_here() else result

    return narrow


def _is_called_here() -> bool:
    return "caffe2_" in sys._getframe(2).f_code.co_filename


def _has_dtype(value: Any) -> bool:
    """Whether a value has a dtype, or holds what has one."""
    if isinstance(value, list | tuple):
        return any(map(_has_dtype, value))
    return hasattr(value, "dtype") or hasattr(value, "__array__")


def _narrowed(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(map(_narrowed, result))
    return result.astype(np.int32) if getattr(result, "dtype", None) == np.int64 else result
