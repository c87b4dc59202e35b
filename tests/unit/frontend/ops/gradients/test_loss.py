"""Gradients of losses: named dims, and class counts that are known at run time alone."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.diagnostics import ConversionError

FREE: Specs = {"X": ("float32", ("N", "C")), "T": ("float32", ("N", "C")), "dY": ("float32", ("N",))}


@pytest.mark.parametrize("op_type", ["CrossEntropyGradient", "SigmoidCrossEntropyWithLogitsGradient"])
def test_named_dims_stay(op_type: str) -> None:
    order = ["X", "T", "dY"] if op_type.startswith("Cross") else ["dY", "X", "T"]
    assert dims(export(operator(op_type, order, ["dX"]), FREE)) == ["N", "C"]


@pytest.mark.parametrize("shape", [(2, 3), (4, 1), (0, 3)])
def test_mean_over_a_dim_of_run_time(shape: tuple[int, int]) -> None:
    model = export(operator("SigmoidCrossEntropyWithLogitsGradient", ["dY", "X", "T"], ["dX"]), FREE)
    dy, x, t = np.ones(shape[0], np.float32), np.zeros(shape, np.float32), np.ones(shape, np.float32)
    np.testing.assert_allclose(run(model, {"dY": dy, "X": x, "T": t})[0], np.full(shape, -0.5 / shape[1]))


def test_labels_among_classes_of_run_time() -> None:
    specs: Specs = {"X": FREE["X"], "label": ("int32", ("N",)), "dY": FREE["dY"]}
    model = export(operator("LabelCrossEntropyGradient", ["X", "label", "dY"], ["dX"]), specs)
    x = np.full((2, 3), 0.5, np.float32)
    (dx,) = run(model, {"X": x, "label": np.array([2, 0], np.int32), "dY": np.array([1, 2], np.float32)})
    np.testing.assert_array_equal(dx, [[0, 0, -2], [-4, 0, 0]])


def test_two_classes() -> None:
    with pytest.raises(ConversionError, match="dim 1 of the gradient must be 2"):
        export(operator("MakeTwoClassGradient", ["dY"], ["dX"]), {"dY": ("float32", (2, 3))})


@pytest.mark.parametrize(("margin", "passed"), [(0.5, [0, 1, 1]), (float("nan"), [0, 0, 0])])
def test_similarities_that_are_at_least_the_margin_pass_gradients(margin: float, passed: list[int]) -> None:
    model = export(
        operator("CosineEmbeddingCriterionGradient", ["S", "Y", "dY"], ["dS"], margin=margin),
        {"S": ("float32", (3,)), "Y": ("int32", (3,)), "dY": ("float32", (3,))},
    )
    feeds = {"S": np.array([0.25, 0.5, 0.75], np.float32), "Y": np.zeros(3, np.int32), "dY": np.ones(3, np.float32)}
    np.testing.assert_array_equal(run(model, feeds)[0], passed)


@pytest.mark.parametrize(
    ("weights", "factor"),
    [((0.4, 1.0, 0.2), 0.7 / 1.6), ((-1.0, 0.2, 0.1), 0.7)],  # as real Caffe2 computed
    ids=["positive", "negative"],
)
def test_spatial_softmax_of_weights_with_a_negative_sum(weights: tuple[float, ...], factor: float) -> None:
    op = operator("SpatialSoftmaxWithLossGradient", ["X", "L", "W", "P", "dY"], ["dX"])
    probability = np.array([[0.2, 0.7, 0.5], [0.8, 0.3, 0.5]], np.float32).reshape(1, 2, 3, 1)
    w = np.array(weights, np.float32).reshape(1, 3, 1)
    feed = {"X": probability, "L": np.zeros((1, 3, 1), np.int32), "W": w, "P": probability, "dY": np.float32([0.7])}
    model = export(op, {name: (str(value.dtype), [None] * value.ndim) for name, value in feed.items()})
    target = np.array([1, 0], np.float32).reshape(1, 2, 1, 1)
    np.testing.assert_allclose(run(model, feed)[0], (probability - target) * w[:, None] * factor, rtol=1e-5)
