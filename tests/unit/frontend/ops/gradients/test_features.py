"""Gradients of merged features and tensor-train embeddings: dims, run-time sizes and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.diagnostics import ConversionError


def test_gradient_of_a_feature_has_the_dims_of_its_presence() -> None:
    inputs: Specs = {"p0": ("bool", ("N",)), "p1": ("bool", ("N", 1)), "dY": ("float32", ("K",))}
    model = export(operator("MergeSingleScalarFeatureTensorsGradient", list(inputs), ["d0", "d1"]), inputs)
    assert [dims(model, 0), dims(model, 1)] == [["N"], ["N", 1]]
    presence = {"p0": np.array([True, False, True]), "p1": np.array([[False], [False], [True]])}
    first, second = run(model, {**presence, "dY": np.array([1, 2, 3], np.float32)})
    np.testing.assert_array_equal(first, [1, 0, 2])
    np.testing.assert_array_equal(second, [[0], [0], [3]])


def test_blocks_go_back_to_their_feature() -> None:
    inputs: Specs = {
        "l0": ("int32", (None,)),
        "v0": ("int32", (None,)),
        "l1": ("int32", (None,)),
        "v1": ("int32", (None,)),
        "dY": ("float64", (None,)),
    }
    model = export(operator("MergeMultiListFeatureTensorsGradient", list(inputs), ["d0", "d1"]), inputs)
    lengths = {"l0": [1, 2], "v0": [1, 0, 2], "l1": [1, 1], "v1": [3, 1]}
    feeds = {name: np.array(values, np.int32) for name, values in lengths.items()}
    first, second = run(model, {**feeds, "dY": np.arange(7.0)})
    np.testing.assert_array_equal(first, [0, 4, 5])
    np.testing.assert_array_equal(second, [1, 2, 3, 6])


@pytest.mark.parametrize(
    ("names", "dtype", "message"),
    [
        (["l0", "dY"], "float32", "does not accept 2 inputs with 1 outputs"),
        (["l0", "l1", "dY"], "float16", "the gradient must be .* not FLOAT16"),
    ],
)
def test_refusals(names: list[str], dtype: str, message: str) -> None:
    inputs: Specs = {name: ("int32" if name != "dY" else dtype, (3,)) for name in names}
    with pytest.raises(ConversionError, match=message):
        export(operator("MergeMultiListFeatureTensorsGradient", names, ["d0"]), inputs)


def test_an_output_without_a_feature_is_refused() -> None:
    inputs: Specs = {"l0": ("int32", (3,)), "p0": ("bool", (3,)), "dY": ("float32", (None,))}
    with pytest.raises(ConversionError, match="lists 2 outputs, but it has 1"):
        export(operator("MergeSingleListFeatureTensorsGradient", list(inputs), ["d0", "d1"]), inputs)


def test_cores_of_an_embedding_with_any_number_of_indices() -> None:
    inputs: Specs = {
        **{f"core{i}": ("float32", (3, 1, 2, 1)) for i in range(3)},
        "lengths": ("int32", ("S",)),
        "first": ("float32", ("N", 2, 1)),
        "both": ("float32", ("N", 4, 1)),
        "digits": ("int64", ("N", 3)),
        "dY": ("float32", ("S", 8)),
    }
    model = export(operator("TTSparseLengthsSumGradient", list(inputs), ["d0", "d1", "d2"]), inputs)
    assert [dims(model, i) for i in range(3)] == [[3, 1, 2, 1]] * 3
