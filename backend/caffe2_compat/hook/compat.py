"""What rewritten sources call in place of functions that libraries of today do not have.

The rewrites name this module :data:`NAME`, which the loader defines in every module whose source it rewrote.
"""

from __future__ import annotations

import builtins
import inspect
import operator
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = [
    "NAME",
    "ArgSpec",
    "Elements",
    "array",
    "asscalar",
    "builtins",
    "calculate",
    "convert",
    "elements",
    "field_label",
    "fromstring",
    "getargspec",
    "ignore_library",
    "msort",
    "outer_frame",
    "single",
]

NAME: Final = "__caffe2_bridge__"
_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
}
# The modules that run a program, and are no part of it.
_RUNNERS: Final = frozenset({"caffe2_compat.hook.run", "runpy"})
_DETECTRON: Final = "caffe2_detectron_ops"
_PYTHON_NUMBERS: Final = (int, float)
# Kinds of NumPy's types; of two of one category, an array's type was the type of the result.
_CATEGORIES: Final = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


class ArgSpec(NamedTuple):
    """The result of ``inspect.getargspec``, which Python 3.11 removed."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def ignore_library(path: str) -> None:
    """Warn that a library of native operators, as ``dyndep.InitOpsLibrary`` loads them, is not loaded.

    The operators of Detectron's library are there without it.
    """
    if _DETECTRON in path:
        return
    warnings.warn(
        f"{path} is not loaded: its operators are native code for Caffe2's own runtime; nets that use them do not run",
        RuntimeWarning,
        stacklevel=2,
    )


def outer_frame(frame: FrameType) -> FrameType | None:
    """Return the frame that called another one; None for the one that runs the program itself."""
    outer = frame.f_back
    return None if outer is not None and outer.f_globals.get("__name__") in _RUNNERS else outer


def getargspec(function: Callable[..., Any]) -> ArgSpec:
    """Describe the positional arguments of a function."""
    spec = inspect.getfullargspec(function)
    return ArgSpec(spec.args, spec.varargs, spec.varkw, spec.defaults)


def asscalar(array: Any) -> Any:
    """Convert an array of one element to a Python number, as ``numpy.asscalar`` did."""
    return np.asarray(array).item()


def msort(array: Any) -> Any:
    """Sort along the first axis, as ``numpy.msort`` did."""
    return np.sort(array, axis=0)


def fromstring(string: Any, dtype: Any = float, count: int = -1, sep: str = "", **options: Any) -> Any:
    """Return a copy of bytes as numbers, as ``numpy.fromstring`` did, for bytes too."""
    if sep:
        return np.fromstring(string, dtype, count, sep=sep, **options)
    content = string.encode("latin-1") if isinstance(string, str) else string
    return np.frombuffer(content, dtype, count, **options).copy()


def field_label(field: Any) -> int:
    """Return the label of a field of a protobuf message, which protobuf 7 does not have as an attribute."""
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
        """Return the elements at an index."""
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
    """Return what rewritten assignments assign to: the container itself, unless it is an array."""
    return Elements(container) if type(container) is np.ndarray else container


def single(value: Any) -> Any:
    """Return a value, or the element of an array that has one, as ``int`` and ``float`` took them before NumPy 2.4."""
    return value.reshape(()) if type(value) is np.ndarray and value.ndim and value.size == 1 else value


def array(*args: Any, **options: Any) -> Any:
    """Return an array as ``numpy.array`` did before NumPy 2.

    Integers that the type does not hold wrap around, ``copy=False`` copies where it must, and an object's ``__array__``
    need not have the parameter ``copy``.
    """
    if options.get("copy") is False:
        options["copy"] = None
    if args and hasattr(args[0], "__array__") and not isinstance(args[0], np.ndarray | np.generic):
        args = (np.asarray(args[0]), *args[1:])
    try:
        return np.array(*args, **options)
    except OverflowError:
        dtype = options.pop("dtype", args[1] if len(args) > 1 else None)
        return np.array(args[0], **options).astype(dtype)


def convert(dtype: Callable[[Any], Any], value: Any) -> Any:
    """Return a scalar of a type of NumPy; an integer that the type does not hold wraps around, as before NumPy 2."""
    try:
        return dtype(value)
    except OverflowError:
        return np.asarray(value).astype(dtype)[()]  # type: ignore[call-overload]  # a type of NumPy


def calculate(name: str, left: Any, right: Any) -> Any:
    """Apply an operator with the rules of promotion that NumPy had before NumPy 2.

    Of an array and a scalar of NumPy of one category, the array has the type of the result. With a scalar of NumPy, a
    number of Python counts as one of 64 bits.
    """
    if isinstance(left, np.generic) and type(right) in _PYTHON_NUMBERS:
        right = _of_64_bits(right)
    elif isinstance(right, np.generic) and type(left) in _PYTHON_NUMBERS:
        left = _of_64_bits(left)
    elif type(left) is np.ndarray and _is_scalar(right):
        right = _weak(left, right[()])
    elif type(right) is np.ndarray and _is_scalar(left):
        left = _weak(right, left[()])
    return _OPERATORS[name](left, right)


def _of_64_bits(number: float) -> Any:
    try:
        return np.float64(number) if type(number) is float else np.int64(number)
    except OverflowError:
        return number


def _is_scalar(value: Any) -> bool:
    return isinstance(value, np.generic) or (type(value) is np.ndarray and value.ndim == 0)


def _weak(values: np.ndarray[Any, Any], scalar: np.generic[Any]) -> Any:
    """Return the scalar in the type of an array, if that is of the same or a higher category and holds it."""
    kinds = _CATEGORIES.get(values.dtype.kind, -1), _CATEGORIES.get(scalar.dtype.kind, 4)
    if not values.ndim or kinds[0] < kinds[1] or values.dtype == scalar.dtype:
        return scalar
    with np.errstate(over="ignore"):
        cast = scalar.astype(values.dtype)
    return cast if kinds[1] > 1 or cast == scalar else scalar
