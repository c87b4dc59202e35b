"""Adagrad fused with the gradient of SparseLengthsSum: equal to the two operators, with named dims."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.diagnostics import ConversionError

INPUTS: Specs = {
    "param": ("float32", ("R", 3)),
    "moment": ("float32", ("R",)),
    "indices": ("int64", ("N",)),
    "grad": ("float32", ("S", 3)),
    "lr": ("float32", (1,)),
    "lengths": ("int32", ("S",)),
}
UPDATED = ["param", "moment"]


@pytest.mark.parametrize("reduction", ["Sum", "Mean"])
def test_equals_gradient_and_optimizer(reduction: str) -> None:
    fused = operator(
        f"RowWiseSparseAdagradFusedWithSparseLengths{reduction}Gradient", list(INPUTS), UPDATED, weight_decay=0.1
    )
    gradient = operator(f"SparseLengthsIndicesInGradient{reduction}Gradient", ["grad", "lengths", "indices"], ["grads"])
    optimizer = operator(
        "RowWiseSparseAdagrad", ["param", "moment", "indices", "grads", "lr"], UPDATED, weight_decay=0.1
    )
    rng = np.random.default_rng(0)
    feeds = {
        "param": rng.random((5, 3), np.float32),
        "moment": rng.random(5, np.float32),
        "indices": np.array([1, 1, 4, 1, 0]),
        "grad": rng.random((3, 3), np.float32),
        "lr": np.array([0.1], np.float32),
        "lengths": np.array([2, 0, 3], np.int32),
    }
    model = export(fused, INPUTS)
    assert [dims(model, 0), dims(model, 1)] == [["R", 3], ["R"]]
    for actual, expected in zip(run(model, feeds), run(export([gradient, optimizer], INPUTS), feeds), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_real_caffe2_updates_float_tables_only() -> None:
    inputs = {**INPUTS, "param": ("float16", ("R", 3))}
    with pytest.raises(ConversionError, match="the parameter must be FLOAT, not FLOAT16"):
        export(operator("RowWiseSparseAdagradFusedWithSparseLengthsSumGradient", list(INPUTS), UPDATED), inputs)
