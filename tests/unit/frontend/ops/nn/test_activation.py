"""Activations: the nodes that they become, their dims, and the arguments and sizes that Caffe2 does not take."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import ArgumentValue, operator
from numpy.testing import assert_allclose, assert_array_equal
from support.caffe2_cases import assert_computes, assert_refused
from support.exports import Specs, dims, export, node_types, run

from caffe2_bridge.diagnostics import ConversionError

ROWS: Specs = {"X": ("float32", ("N", 4))}
X = np.array([[-2, -0.5, 0, 3]], np.float32)


@pytest.mark.parametrize(
    ("op_type", "args", "nodes"),
    [
        *((name, {}, [name]) for name in ("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Elu", "Selu", "Mish")),
        ("LeakyRelu", {"alpha": 0.1}, ["LeakyRelu"]),
        ("Gelu", {"fast_gelu": 1}, ["Gelu"]),
        ("Swish", {}, ["Sigmoid", "Mul"]),
        ("Clip", {"min": 0.0}, ["Clip"]),
        ("ReluN", {"n": 2.0}, ["Clip"]),
        ("Softmax", {}, ["Softmax"]),
        ("Glu", {}, ["Split", "Sigmoid", "Mul"]),
    ],
)
def test_nodes(op_type: str, args: dict[str, ArgumentValue], nodes: list[str]) -> None:
    model = export(operator(op_type, ["X"], ["Y"], **args), ROWS)
    assert list(node_types(model.graph)) == nodes
    assert dims(model) == ["N", 2 if op_type == "Glu" else 4]


def test_one_bound_of_a_clip_may_be_left_out() -> None:
    (y,) = run(export(operator("Clip", ["X"], ["Y"], max=1.0), ROWS), {"X": X})
    assert_array_equal(y, np.minimum(X, 1))


def test_a_fast_gelu_is_the_approximation_by_tanh() -> None:
    (y,) = run(export(operator("Gelu", ["X"], ["Y"], fast_gelu=1), ROWS), {"X": X})
    assert_allclose(y, X / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3))), rtol=1e-5)


def test_mish_of_doubles_which_onnxruntime_has_no_kernel_for() -> None:
    (y,) = run(export(operator("Mish", ["X"], ["Y"]), {"X": ("float64", ("N", 4))}), {"X": X.astype(np.float64)})
    assert y.dtype == np.float64
    assert_allclose(y, X * np.tanh(np.log1p(np.exp(X))), rtol=1e-6)


def test_softmax_from_an_axis_on() -> None:
    model = export(operator("Softmax", ["X"], ["Y"], axis=1), {"X": ("float32", ("N", 2, "W"))})
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    (y,) = run(model, {"X": x})
    assert_allclose(y.sum(axis=(1, 2)), [1, 1], rtol=1e-6)
    assert dims(model) == ["N", 2, "W"]


@pytest.mark.parametrize(("order", "channels"), [("NCHW", 3), ("NHWC", 5)])
def test_slopes_are_those_of_channels(order: str, channels: int) -> None:
    specs: Specs = {"X": ("float32", (2, 3, 4, 5)), "s": ("float32", (channels,))}
    x, slope = -np.ones((2, 3, 4, 5), np.float32), np.arange(channels, dtype=np.float32)
    (y,) = run(export(operator("PRelu", ["X", "s"], ["Y"], order=order), specs), {"X": x, "s": slope})
    assert_array_equal(y, x * (slope if order == "NHWC" else slope.reshape(-1, 1, 1)))
    specs = {**specs, "s": ("float32", (channels + 1,))}
    with pytest.raises(ConversionError):
        export(operator("PRelu", ["X", "s"], ["Y"], order=order), specs)


def test_an_axis_without_elements_is_gated() -> None:
    assert_computes("Glu", [np.zeros((2, 0), np.float32)], [np.zeros((2, 0), np.float32)])


def test_clipped_rows_are_those_that_indices_name() -> None:
    table, rows = np.array([[-5, 5], [-5, 5], [-5, 5]], np.float32), np.array([2, 0], np.int64)
    specs: Specs = {"w": ("float32", ("R", 2)), "i": ("int64", ("K",)), "g": ("float32", ("K", 2))}
    op = operator("EnsureClipped", ["w", "i", "g"], ["w"], min=-1.0, max=2.0)
    (y,) = run(export(op, specs), {"w": table, "i": rows, "g": table[:2]})
    assert_array_equal(y, [[-1, 2], [-5, 5], [-1, 2]])


@pytest.mark.parametrize(
    ("op_type", "args"),
    [
        ("Selu", {"scale": 1.0}),
        ("ReluN", {"n": 0.0}),
        ("Logit", {"eps": 0.5}),
        ("Glu", {"dim": 2}),
        ("Dropout", {"ratio": 1.0, "is_test": 1}),
        ("Softmax", {"axis": 3}),
    ],
)
def test_arguments_that_caffe2_does_not_take(op_type: str, args: dict[str, ArgumentValue]) -> None:
    assert_refused(op_type, [X], **args)


def test_what_is_gated_has_halves() -> None:
    with pytest.raises(ConversionError, match="must be even, not 3"):
        export(operator("Glu", ["X"], ["Y"]), {"X": ("float32", ("N", 3))})


def test_a_threshold_of_a_norm_is_positive() -> None:
    assert_refused("ClipTensorByScaling", [X, np.ones((), np.float32)], threshold=0.0)


def test_dropout_in_training_has_a_mask() -> None:
    with pytest.raises(ConversionError, match="two outputs in training"):
        export(operator("Dropout", ["X"], ["Y"], is_test=0), ROWS)
