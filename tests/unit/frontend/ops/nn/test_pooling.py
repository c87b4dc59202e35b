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
