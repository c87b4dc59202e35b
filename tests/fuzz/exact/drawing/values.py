"""Elements of operands: ordinary ones, and those on which computations part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from conformance.corpus import Array

DTYPES: Final = ("float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "int64", "bool")
STRINGS: Final = ("", "a", "ab", "abc", "b", "A", " ", "a b", "1", "-2", "\xe9", "x" * 40, "\\", "a.c", "\n")
_SPECIAL: Final = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-42, 1.17549435e-38, 3.4e38, -3.4e38, 1e-10, 65504.0)
_HARD_INTEGERS: Final = (0, -1, 1, 2**31 - 1, -(2**31), 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**24 + 1, 255)
Drawing = Callable[[Array, np.random.Generator], Array]


def draw_values(array: Array, random: np.random.Generator, *, hard: bool) -> tuple[Array, str]:
    """New elements for an array, and what they are; ``hard`` ones are those at which kernels often differ."""
    kind = array.dtype.kind
    if kind == "O":
        texts = np.empty(array.size, object)
        texts[:] = [STRINGS[i] for i in random.integers(0, len(STRINGS), array.size)]
        return texts.reshape(array.shape), "strings"
    if kind == "b":
        return random.integers(0, 2, array.shape).astype(bool), "bools"
    table = _FLOATS if kind == "f" else _INTEGERS
    table = {**table, **(_HARD_FLOATS if kind == "f" else _HARD)} if hard else table
    name = str(random.choice(list(table)))
    with np.errstate(all="ignore"):
        drawn: Array = np.asarray(table[name](array, random)).reshape(array.shape)
        if kind == "f" and (array >= 0).any() and not (array < 0).any():  # a variance, a sum of squares, a weight
            drawn = np.abs(drawn)
            if np.nanmax(array) <= 1 and not hard:
                drawn = np.clip(drawn, 0, 1)
        return cast(drawn, array.dtype), name


def cast(array: Array, dtype: np.dtype[np.generic]) -> Array:
    """The array in another element type; what lies outside of an integer type wraps around."""
    if dtype.kind in "iu" and array.dtype.kind == "f":
        wide = np.nan_to_num(array.astype(np.float64), nan=0, posinf=2**31, neginf=-(2**31))
        array = wide.clip(-(2.0**62), 2.0**62).astype(np.int64)
    with np.errstate(all="ignore"):
        return np.asarray(array.astype(dtype))


def _scatter(array: Array, values: tuple[float, ...], random: np.random.Generator, share: float) -> Array:
    drawn = array.astype(object if array.dtype.kind in "iu" else np.float64).reshape(-1)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        values = tuple(value for value in values if limits.min <= value <= limits.max) or (limits.max,)
    for i in np.flatnonzero(random.random(drawn.size) < share):
        drawn[i] = values[random.integers(0, len(values))]
    return drawn


_FLOATS: Final[Mapping[str, Drawing]] = {
    "normal": lambda a, r: r.standard_normal(a.shape),
    "shuffled": lambda a, r: r.permutation(a.reshape(-1)),
    "integers, with ties": lambda a, r: r.integers(-3, 4, a.shape),
    "uniform": lambda a, r: r.random(a.shape),
    "constant": lambda a, r: np.full(a.shape, r.choice([0.0, 1.0, -1.0, 0.5])),
    "halves": lambda a, r: r.integers(-6, 7, a.shape) / 2,
}
_HARD_FLOATS: Final[Mapping[str, Drawing]] = {
    "special": lambda a, r: _scatter(a, _SPECIAL, r, 0.3),
    "one special": lambda a, r: _scatter(a, (float(r.choice(_SPECIAL)),), r, 0.2),
    "large": lambda a, r: r.standard_normal(a.shape) * 1e18,
    "tiny": lambda a, r: r.standard_normal(a.shape) * 1e-39,
    "nearly constant": lambda a, r: 1000.0 + r.standard_normal(a.shape) * 1e-3,
    "wide": lambda a, r: r.standard_normal(a.shape) * 100.0,
}
_INTEGERS: Final[Mapping[str, Drawing]] = {
    "shuffled": lambda a, r: r.permutation(a.reshape(-1)),
    "small": lambda a, r: r.integers(0, 4, a.shape),
    "within": lambda a, r: r.integers(int(a.min()), int(a.max()) + 1, a.shape) if _is_narrow(a) else a,
    "repeated": lambda a, r: r.choice(a.reshape(-1), a.shape) if a.size else a,
    "sorted": lambda a, _: np.sort(a.reshape(-1)),
    "zeros": lambda a, _: np.zeros(a.shape),
}
_HARD: Final[Mapping[str, Drawing]] = {
    "extreme": lambda a, r: _scatter(a, _HARD_INTEGERS, r, 0.5),
    "one off": lambda a, r: _scatter(a, (int(a.max()) + 1 if a.size else 0, -1), r, 0.2),
    "signed": lambda a, r: r.integers(-5, 6, a.shape),
    "large": lambda a, r: r.integers(2**53, 2**60, a.shape),
}


def _is_narrow(array: Array) -> bool:
    return bool(array.size) and int(array.max()) < 2**62
