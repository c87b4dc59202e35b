"""Differences of updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from caffe2_validation.comparison.update_difference import update_difference
from caffe2_validation.values import Tolerance, compare

BEFORE = np.linspace(0.5, 1.5, 100, dtype=np.float32)
CHANGE = np.linspace(1e-5, 2e-5, 100, dtype=np.float32)


def judged(actual: Any, gradient: Any = None, before: Any = BEFORE) -> Any:
    expected = (BEFORE + CHANGE).astype(np.float32)
    return update_difference(compare(expected, actual), before, expected, actual, gradient)


def test_rounding_errors_agree() -> None:
    assert judged(np.nextafter(BEFORE + CHANGE, np.float32(9))).agrees


@pytest.mark.parametrize("factor", [0.0, -1.0, 1.1])
def test_another_update_does_not(factor: float) -> None:
    actual = (BEFORE + factor * CHANGE).astype(np.float32)
    assert compare((BEFORE + CHANGE).astype(np.float32), actual).agrees
    found = judged(actual)
    assert not found.agrees
    assert found.reason.startswith("the update: ")


def test_elements_without_a_gradient_are_not_compared() -> None:
    actual = BEFORE + CHANGE
    actual[7] -= 2 * CHANGE[7]
    gradient = np.ones(100, np.float32)
    assert not judged(actual, gradient).agrees
    gradient[7] = 1e-7
    assert judged(actual, gradient).agrees
    gradient[7] = np.nan
    assert not judged(actual, gradient).agrees


def test_nan_is_an_update_of_its_own() -> None:
    actual = BEFORE + CHANGE
    actual[3] = np.nan
    assert not judged(actual).agrees


def test_integers_and_shapes_are_compared_as_values() -> None:
    plain = compare(np.array([3]), np.array([4]))
    assert update_difference(plain, np.array([2]), np.array([3]), np.array([4])) is plain
    assert not judged(np.zeros((2, 2), np.float32)).agrees


def test_scaled_tolerances() -> None:
    a, scaled = np.array([1e-1, 1e-3], np.float32), {"float32": Tolerance(0.0, 1e-3, scaled=True)}
    assert compare(a, a + np.float32(5e-5), tolerances=scaled).agrees
    assert not compare(a, a + np.float32(5e-4), tolerances=scaled).agrees
    assert compare(a * 0, a * 0 + np.float32(5e-6), tolerances=scaled).agrees
    assert Tolerance(1e-3, 1e-3, scaled=True).at_depth(4).scaled
