"""Differences of what an optimizer updates: by how much it changed, and not by its value.

A step changes a parameter by a small fraction, so that a wrong update may be within the tolerance of the value. Where
a gradient is near zero, its sign is a matter of rounding, and optimizers that divide by the gradient's magnitude
(Adagrad, Adam) turn that into an update of full size: such elements are not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.values import Array
from caffe2_validation.values import Difference, Tolerance, compare

_RTOL: Final = 1e-2
_ATOL: Final = 1e-3  # of the largest change
_ROUNDING: Final = 4  # units in the last place of the largest value
_SMALL_SHARE: Final = 1e-3  # gradients below this share of the largest one may be rounding errors ...
_SMALL: Final = 1e-6  # ... and those below this number


def update_difference(
    plain: Difference, before: Any, expected: Any, actual: Any, gradient: Any | None = None
) -> Difference:
    """Return how an updated value differs: ``plain``, with the verdict on the change.

    Args:
        plain: the difference of the values.
        before: the value before the step, on both sides.
        expected: the reference's value after it.
        actual: the other side's value after it.
        gradient: the reference's gradient, if it is known and dense.
    """
    old, new, other = np.asarray(before), np.asarray(expected), np.asarray(actual)
    if new.dtype.kind != "f" or new.shape != other.shape or new.dtype != other.dtype or old.shape != new.shape:
        return plain
    compared = _well_conditioned(new, gradient)
    with np.errstate(invalid="ignore", over="ignore"):
        right = (new.astype(np.float64) - old)[compared]
        found = (other.astype(np.float64) - old)[compared]
    largest = float(np.abs(new).max(initial=0.0, where=np.isfinite(new)))
    rounding = _ROUNDING * float(np.finfo(new.dtype).eps) * largest
    atol = _ATOL * float(np.abs(right).max(initial=0.0, where=np.isfinite(right))) + rounding
    tolerances: Mapping[str, Tolerance] = {"float64": Tolerance(_RTOL, atol, grows=False)}
    change = compare(right, found, tolerances=tolerances)
    reason = f"the update: {change.reason}" if change.reason else ""
    return replace(plain, agrees=change.agrees, reason=reason, wrong=change.wrong, rtol=_RTOL, atol=atol)


def _well_conditioned(value: Array, gradient: Any | None) -> Array:
    """Return the elements whose gradient is not near zero; all if the gradient is not known."""
    found = None if gradient is None else np.asarray(gradient)
    if found is None or found.shape != value.shape or found.dtype.kind != "f" or not found.size:
        return np.ones(value.shape, bool)
    magnitude = np.abs(found.astype(np.float64))
    largest = float(magnitude.max(initial=0.0, where=np.isfinite(magnitude)))
    return ~(magnitude <= max(_SMALL, _SMALL_SHARE * largest))  # NaN is compared
