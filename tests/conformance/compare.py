"""Whether computed outputs equal recorded ones, and how far off they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from conformance.corpus import Array

RTOL: Final = 1e-3
ATOL: Final = 1e-4
# float16 has 11 bits: two roundings of the same number are up to 2e-3 apart.
HALF_RTOL: Final = 1e-2
HALF_ATOL: Final = 1e-3


def mismatches(
    expected: Mapping[str, Array], actual: Mapping[str, Array], *, rtol: float = RTOL, atol: float = ATOL
) -> list[str]:
    """Return what differs, one text an output that does; empty where all agree.

    Shape and dtype are exact; so are integers, bools and strings. Floats agree within ``rtol`` and ``atol``, float16
    within ``HALF_RTOL`` and ``HALF_ATOL`` where those are more, unless both are 0; NaN equals NaN and an infinity
    equals itself.
    """
    texts = ((name, _mismatch(array, actual[name], rtol, atol)) for name, array in expected.items())
    return [f"{name}: {text}" for name, text in texts if text]


def _mismatch(expected: Array, actual: Array, rtol: float, atol: float) -> str:
    text = _kind_mismatch(expected, actual)
    if text or not expected.size:
        return text
    if expected.dtype.kind != "f":
        wrong = expected != actual
        if not wrong.any():
            return ""
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        return f"{wrong.sum()} of {expected.size} differ; at {place} {actual[place]!r}, expected {expected[place]!r}"
    if expected.dtype == np.float16 and (rtol or atol):
        rtol, atol = max(rtol, HALF_RTOL), max(atol, HALF_ATOL)
    close = np.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return ""
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.asarray(np.abs(actual.astype(np.float64) - expected.astype(np.float64)))
    error[close] = 0
    error[np.isnan(error)] = np.inf
    place = tuple(int(i) for i in np.unravel_index(int(error.argmax()), error.shape))
    return (
        f"{(~close).sum()} of {expected.size} differ, at most by {error.max():.3g}; "
        f"at {place} {actual[place]:.6g}, expected {expected[place]:.6g}"
    )


def _kind_mismatch(expected: Array, actual: Array) -> str:
    """Return a difference of dtype or shape. Strings are objects in one runtime and text in another."""
    text = {"O", "U", "S", "T"}
    if expected.dtype != actual.dtype and not {expected.dtype.kind, actual.dtype.kind} <= text:
        return f"dtype {actual.dtype}, expected {expected.dtype}"
    if expected.shape != actual.shape:
        return f"shape {list(actual.shape)}, expected {list(expected.shape)}"
    return ""
