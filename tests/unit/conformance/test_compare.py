from __future__ import annotations

import numpy as np
import pytest
from conformance.compare import mismatches
from conformance.corpus import Array


def compare(expected: Array, actual: Array) -> str:
    return "\n".join(mismatches({"Y": expected}, {"Y": actual}))


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.5, np.nan, np.inf, -np.inf], np.float32),
        np.array([], np.float32),
        np.array(3, np.int64),
        np.array([True, False]),
        np.array(["a", "b"], dtype=object),
    ],
)
def test_equal(array: Array) -> None:
    assert compare(array, array.copy()) == ""


def test_strings_are_objects_or_text() -> None:
    assert compare(np.array(["a"], dtype=object), np.array(["a"])) == ""
    assert "1 of 1 differ" in compare(np.array(["a"], dtype=object), np.array(["b"]))


@pytest.mark.parametrize(
    ("expected", "actual", "text"),
    [
        (np.zeros(2, np.float32), np.zeros(2, np.float64), "dtype float64, expected float32"),
        (np.zeros((2, 1), np.float32), np.zeros(2, np.float32), "shape [2], expected [2, 1]"),
        (np.zeros((0, 2), np.float32), np.zeros((2, 0), np.float32), "shape [2, 0]"),
        (np.array([1, 2]), np.array([1, 3]), "1 of 2 differ; at (1,)"),
        (np.array([0, 1], np.float32), np.array([0, 1.5], np.float32), "at most by 0.5; at (1,) 1.5, expected 1"),
        (np.array([np.nan], np.float32), np.array([1], np.float32), "at most by inf"),
        (np.array(1, np.float32), np.array(3, np.float32), "at most by 2; at () 3, expected 1"),
        (np.array([np.inf], np.float32), np.array([-np.inf], np.float32), "1 of 1 differ"),
    ],
)
def test_different(expected: Array, actual: Array, text: str) -> None:
    assert text in compare(expected, actual)


@pytest.mark.parametrize(("dtype", "off", "close"), [
    (np.float32, 1.0009, True),
    (np.float32, 1.0015, False),
    (np.float16, 1.009, True),
    (np.float16, 1.02, False),
])  # fmt: skip
def test_tolerance(dtype: type[np.floating], off: float, close: bool) -> None:
    assert (compare(np.array([10], dtype), np.array([10 * off], dtype)) == "") is close


def test_no_tolerance() -> None:
    one, other = np.array([1], np.float16), np.array([1.001], np.float16)
    assert mismatches({"Y": one}, {"Y": one}, rtol=0, atol=0) == []
    assert mismatches({"Y": one}, {"Y": other}, rtol=0, atol=0) != []
