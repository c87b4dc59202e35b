"""Differences and tolerances."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from caffe2_backend.runtime import Int8Tensor
from caffe2_bridge.diagnostics import OptionError
from caffe2_validation.options import ValidationOptions
from caffe2_validation.values import TOLERANCES, Tolerance, compare, first_row

A = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)


def test_equal_values_agree_exactly() -> None:
    found = compare(A, A.copy())
    assert found.agrees
    assert (found.max_abs, found.max_rel, found.max_ulp, found.wrong, found.worst) == (0, 0, 0, 0, ())
    assert found.histogram[0] == 24


def test_differences_of_a_large_tensor_are_counted_block_by_block() -> None:
    a = np.zeros((1 << 20) + 3, np.float32)
    b = a.copy()
    b[[0, 1, -2, -1]] = 1.0, 0.02, 1.0, 200.0
    counts = dict(enumerate(compare(a, b).histogram))
    assert {power - 20: count for power, count in counts.items() if count} == {-20: a.size - 4, 0: 2, -2: 1, 2: 1}


def test_one_step_of_a_float_is_one_ulp() -> None:
    found = compare(A, np.nextafter(A, np.float32(9)))
    assert found.agrees
    assert found.max_ulp == 1


def test_ulps_count_floats() -> None:
    one = np.float32(1)
    assert compare(-A, np.nextafter(-A, np.float32(9))).max_ulp == 1
    assert compare(-np.ones(1, np.float32), np.ones(1, np.float32)).max_ulp == 2 * float(one.view(np.uint32))
    assert compare(np.ones(1, np.float16), np.full(1, 2, np.float16)).max_ulp == 1024
    assert compare(np.ones(1), np.full(1, 2.0)).max_ulp == 2.0**52
    far = compare(np.full(1, -3e38, np.float32), np.full(1, 3e38, np.float32))
    assert far.max_ulp <= 2**32


def test_ulps_near_zero_are_left_out() -> None:
    near = compare(np.array([0, 1e-6, 1], np.float32), np.array([1e-9, 2e-6, 1], np.float32))
    assert near.agrees
    assert (near.max_ulp, near.numbers[2]) == (0, "")
    assert compare(A, A).numbers == ("0.0e+00", "0.0e+00", "0")
    exact = compare(np.zeros(1, np.float32), np.ones(1, np.float32), tolerances={})
    assert exact.max_ulp <= 2**32


def test_a_wrong_element_is_named() -> None:
    b = A.copy()
    b[2, 3] += 0.5
    found = compare(A, b)
    assert not found.agrees
    assert found.worst == (2, 3)
    assert found.wrong == 1
    assert found.max_abs == pytest.approx(0.5)
    assert "at [2, 3]" in found.reason
    assert first_row(A, b) == 2


@pytest.mark.parametrize(
    ("b", "reason"),
    [
        (A.astype(np.float64), "dtype is float64, not float32"),
        (A.reshape(6, 4), r"shape is \[6, 4\], not \[4, 6\]"),
    ],
)
def test_dtype_and_shape_are_exact(b: np.ndarray, reason: str) -> None:  # type: ignore[type-arg] # any
    import re

    assert re.search(reason, compare(A, b).reason)
    assert first_row(A, b) is None


def test_nan_and_infinity_agree_with_themselves_alone() -> None:
    a = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    assert compare(a, a).agrees
    moved = compare(a, np.array([1, np.inf, -np.inf, 1], np.float32))
    assert (moved.agrees, moved.nan_agrees, moved.inf_agrees) == (False, False, True)
    sign = compare(a, np.array([np.nan, np.inf, np.inf, 1], np.float32))
    assert (sign.agrees, sign.nan_agrees, sign.inf_agrees) == (False, True, False)
    assert sign.worst == (2,)
    json.dumps(sign.to_dict(), allow_nan=False)


def test_integers_texts_and_scales_are_exact() -> None:
    assert not compare(np.array([1, 2]), np.array([1, 3])).agrees
    assert compare(np.array(["a"], object), np.array(["a"])).agrees
    assert not compare(np.array(["a"], object), np.array(["b"], object)).agrees
    q = np.array([1], np.uint8)
    assert compare(Int8Tensor(q, 0.5, 1), Int8Tensor(q, 0.5, 1)).agrees
    assert "scale" in compare(Int8Tensor(q, 0.5, 1), Int8Tensor(q, 0.25, 1)).reason
    assert compare(Int8Tensor(q, 0.5, 1), q).agrees


def test_tolerance_grows_with_depth_up_to_a_bound() -> None:
    b = A + np.float32(3e-5)
    assert not compare(A * 0, b - A).agrees
    assert compare(A * 0, b - A, depth=16).agrees
    assert Tolerance(1, 1).at_depth(10_000) == Tolerance(8, 8)
    assert not compare(A, A + np.float32(1e-6), tolerances={}).agrees


def test_nothing_agrees_with_nothing() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert compare(empty, empty).agrees


def test_quantized_values_agree_within_one_step_with_a_note() -> None:
    a, b = np.array([0, 7, 255], np.uint8), np.array([0, 8, 254], np.uint8)
    found = compare(a, b)
    assert (found.agrees, found.max_abs, found.wrong) == (True, 1.0, 0)
    assert found.note == "2 of 3 elements differ by one quantization step"
    assert compare(a.astype(np.int8), b.astype(np.int8)).note
    assert compare(Int8Tensor(a, 0.5, 1), Int8Tensor(b, 0.5, 1)).agrees
    assert not compare(a, np.array([0, 7, 253], np.uint8)).agrees
    assert not compare(np.array([0, 7], np.uint8), np.array([255, 7], np.uint8)).agrees
    assert not compare(a.astype(np.int32), b.astype(np.int32)).agrees


def test_masks_of_bytes_are_exact() -> None:
    mask = np.array([0, 1, 1], np.uint8)
    assert not compare(mask, 1 - mask).agrees
    assert compare(Int8Tensor(mask, 0.5, 0), Int8Tensor(1 - mask, 0.5, 0)).agrees


def test_tolerances_of_the_caller_hold_at_any_depth() -> None:
    a, b = np.ones(2, np.float32), np.full(2, 1.005, np.float32)
    assert not compare(a, b, depth=64).agrees
    chosen = ValidationOptions(rtol=1e-2).tolerances
    assert chosen["float32"] == Tolerance(1e-2, TOLERANCES["float32"].atol, grows=False)
    assert compare(a, b, tolerances=chosen).agrees
    strict = ValidationOptions(rtol=0, atol=4e-3).tolerances
    assert not compare(a, b, depth=64, tolerances=strict).agrees
    assert compare(a, b, tolerances=ValidationOptions(rtol=0, atol=6e-3).tolerances).agrees
    again = ValidationOptions.from_json(ValidationOptions(rtol=1e-2, atol=0.5).to_json())
    assert again.tolerances["float64"] == Tolerance(1e-2, 0.5, grows=False)
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(OptionError, match="atol must be a finite number"):
            ValidationOptions(atol=wrong)


def test_sequences_have_the_difference_of_each_step() -> None:
    a = np.zeros((3, 2, 2), np.float32)
    b = a.copy()
    b[1, 0, 1], b[2, 1, 0] = 0.5, np.nan
    found = compare(a, b)
    assert found.rows == (0.0, 0.5, math.inf)
    assert found.to_dict()["rows"] == [0.0, 0.5, "inf"]
    assert compare(a[0], b[0]).rows == ()
    long = compare(np.zeros((1000, 1, 1), np.float32), np.ones((1000, 1, 1), np.float32))
    assert long.rows == (1.0,) * 64
