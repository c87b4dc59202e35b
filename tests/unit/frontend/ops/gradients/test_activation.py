"""Gradients of activations: borders, as real Caffe2 computes them, and operands of unequal shapes."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.diagnostics import ConversionError

BORDER = np.array([-2, -1, 0, 1, 2, 6], np.float32)
# What real Caffe2 computes at BORDER for a gradient of ones.
AT_BORDER = {
    "ReluGradient": ({}, [0, 0, 0, 1, 1, 1]),
    "ReluNGradient": ({}, [0, 0, 0, 1, 1, 0]),
    "LeakyReluGradient": ({}, [0.01, 0.01, 1, 1, 1, 1]),
    "ThresholdedReluGradient": ({}, [-1, -1, 0, 1, 1, 1]),
    "EluGradient": ({}, [-1, 0, 1, 1, 1, 1]),
    "ClipGradient": ({"min": -1.0, "max": 2.0}, [0, 0, 1, 1, 0, 0]),
    "HardSigmoidGradient": ({}, [0, 0, 0, 0, 0, 0]),
}


@pytest.mark.parametrize("op_type", sorted(AT_BORDER))
def test_borders(op_type: str) -> None:
    args, expected = AT_BORDER[op_type]
    specs: Specs = {"Y": ("float32", ("N",)), "dY": ("float32", ("N",))}
    model = export(operator(op_type, ["Y", "dY"], ["dX"], **args), specs)
    assert dims(model) == ["N"]
    np.testing.assert_allclose(run(model, {"Y": BORDER, "dY": np.ones_like(BORDER)})[0], expected, rtol=1e-6)


def test_operands_of_different_rank_pair_element_by_element() -> None:
    """Real Caffe2's SeluGradient takes both operands as flat arrays."""
    specs: Specs = {"Y": ("float32", (1, 2, 2)), "dY": ("float32", (2, 2))}
    model = export(operator("SeluGradient", ["Y", "dY"], ["dX"]), specs)
    assert dims(model) == [1, 2, 2]


def test_arguments_of_broadcasting_change_nothing() -> None:
    """Caffe2's brew writes an order on every ReluGradient."""
    specs: Specs = {"Y": ("float32", (2,)), "dY": ("float32", (2,))}
    model = export(operator("ReluGradient", ["Y", "dY"], ["dX"], order="NCHW", axis=1), specs)
    np.testing.assert_array_equal(run(model, {"Y": np.ones(2, np.float32), "dY": np.ones(2, np.float32)})[0], [1, 1])


def test_operands_of_different_sizes_are_refused() -> None:
    specs: Specs = {"Y": ("float32", (2, 3)), "dY": ("float32", (3,))}
    with pytest.raises(ConversionError, match="numbers of elements must agree: 6 and 3"):
        export(operator("ReluGradient", ["Y", "dY"], ["dX"]), specs)


@pytest.mark.parametrize("slopes", [1, 3])
def test_gradient_of_slopes_has_the_shape_of_the_slopes(slopes: int) -> None:
    """Whether one slope is shared is known at run time alone: the export knows the rank."""
    operands = ["Y", "dY", "X", "slope"]
    specs: Specs = dict.fromkeys(operands[:3], ("float32", ("N", "C"))) | {"slope": ("float32", ("S",))}
    model = export(operator("PReluGradient", operands, ["dX", "dslope"]), specs)
    x = np.array([[0, 1, -1], [2, -2, 0]], np.float32)
    slope = np.array([0.1, 0.2, 0.3], np.float32)[:slopes]
    dx, dslope = run(model, {"Y": x, "dY": np.ones_like(x), "X": x, "slope": slope})
    np.testing.assert_allclose(dx, np.where(x > 0, 1, slope), rtol=1e-6)
    np.testing.assert_allclose(dslope, [-3] if slopes == 1 else [0, -2, -1])
