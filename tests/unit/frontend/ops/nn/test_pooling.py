"""Poolings of whole images of any rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from numpy.testing import assert_allclose
from support.exports import export, run


@pytest.mark.parametrize(("op_type", "reduce"), [("MaxPool", np.max), ("AveragePool", np.mean)])
@pytest.mark.parametrize("dims", [1, 2, 3, 4])
def test_whole_images_with_any_number_of_dims(op_type: str, reduce: Any, dims: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, *range(2, 2 + dims))).astype(np.float32)
    model = export(operator(op_type, ["X"], ["Y"], global_pooling=1), {"X": ("float32", (None,) * x.ndim)})
    (y,) = run(model, {"X": x})
    assert_allclose(y, reduce(x, axis=tuple(range(2, x.ndim)), keepdims=True), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (0.0, [np.inf, 1]),  # the number of pixels to an infinite power
        (-0.0, [0, 1]),
        (-1.0, [2 / 3, 2]),
        (float("inf"), [1, 1]),
        (1e30, [np.inf, np.inf]),
        (2.0**63, [np.inf, np.inf]),
    ],
)
def test_norms_of_any_power_as_in_caffe2(p: float, expected: list[float]) -> None:
    for kernel, result in zip((2, 1), expected, strict=True):
        x = np.array([[[[2, -1]]]] if kernel == 2 else [[[[-2]]]], np.float32)
        op = operator("LpPool", ["X"], ["Y"], kernel_w=kernel, kernel_h=1, p=p)
        (y,) = run(export(op, {"X": ("float32", (None,) * 4)}), {"X": x})
        assert_allclose(y, np.full((1, 1, 1, 1), result, np.float32))
