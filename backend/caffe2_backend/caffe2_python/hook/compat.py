"""What rewritten sources call in place of functions that libraries of today do not have.

The rewrites name this module :data:`NAME`, which the loader defines in every module whose source it rewrote.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = ["NAME", "ArgSpec", "Elements", "asscalar", "builtins", "elements", "field_label", "getargspec"]

NAME: Final = "__caffe2_bridge__"


class ArgSpec(NamedTuple):
    """The result of ``inspect.getargspec``, which Python 3.11 removed."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def getargspec(function: Callable[..., Any]) -> ArgSpec:
    """Describe the positional arguments of a function."""
    spec = inspect.getfullargspec(function)
    return ArgSpec(spec.args, spec.varargs, spec.varkw, spec.defaults)


def asscalar(array: Any) -> Any:
    """Convert an array of one element to a Python number, as ``numpy.asscalar`` did."""
    return np.asarray(array).item()


def field_label(field: Any) -> int:
    """The label of a field of a protobuf message, which protobuf 7 does not have as an attribute."""
    repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
    if repeated:
        return int(field.LABEL_REPEATED)
    required = field.is_required if hasattr(field, "is_required") else field.label == field.LABEL_REQUIRED
    return int(field.LABEL_REQUIRED if required else field.LABEL_OPTIONAL)


class Elements:
    """The elements of an array, which may be assigned arrays of one element."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> Any:
        """The elements at an index."""
        return self._array[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        """Assign elements. Raises ValueError, as NumPy does, unless the value fits or has one element."""
        try:
            self._array[index] = value
        except ValueError:
            single = np.asarray(value)
            if single.ndim == 0 or single.size != 1:
                raise
            self._array[index] = single.reshape(())


def elements(container: Any) -> Any:
    """What rewritten assignments assign to: the container itself, unless it is an array."""
    return Elements(container) if type(container) is np.ndarray else container
