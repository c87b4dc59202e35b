"""Gradients of normalization: sizes of run time, empty batches, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.diagnostics import ConversionError

rng = np.random.default_rng(0)
OUTPUTS = ["dX", "dscale", "dbias"]


def floats(*shape: int) -> np.ndarray:  # type: ignore[type-arg] # of float32
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_batches_of_run_time(rows: int) -> None:
    """Check that the sums over several batches count, unless the batch is empty."""
    image, channel = ("float32", ("N", 3, "H")), ("float32", (3,))
    specs: Specs = {"X": image, **dict.fromkeys(("s",), channel), "dY": image, **dict.fromkeys("mrab", channel)}
    net = operator("SpatialBNGradient", list(specs), OUTPUTS, num_batches=2)
    model = export(net, specs)
    x, dy = floats(rows, 3, 4), floats(rows, 3, 4)
    s, m, r, a, b = (floats(3) for _ in range(5))
    dx, dscale, dbias = run(model, {"X": x, "s": s, "dY": dy, "m": m, "r": r, "a": a, "b": b})
    s, m, r, by_scale, by_bias = (v[:, None] for v in (s, m, r, a, b))
    count = max(rows * 4 * 2, 1)
    np.testing.assert_allclose(dx, s * r * (dy - (by_bias + (x - m) * r * by_scale) / count), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(dscale, a / 2 if rows else np.zeros(3))
    np.testing.assert_allclose(dbias, b / 2 if rows else np.zeros(3))


def test_images_with_the_channels_last_are_not_transposed() -> None:
    image, channel = ("float32", ("N", "H", "W", 3)), ("float32", (3,))
    specs: Specs = {"X": image, "s": channel, "dY": image, "m": channel, "r": channel}
    model = export(operator("SpatialBNGradient", list(specs), OUTPUTS, order="NHWC"), specs)
    assert "Transpose" not in {node.op_type for node in model.graph.node}
    assert dims(model) == ["N", "H", "W", 3]


@pytest.mark.parametrize("axis", [1, 2])
def test_layers_of_run_time(axis: int) -> None:
    rows = ("N", "T")[:axis]
    x, moment, tail = ("float32", ("N", "T", "C")), ("float32", (*rows, 1)), ("float32", ("N", "T", "C")[axis:])
    specs: Specs = {"dY": x, "Y": x, "m": moment, "std": moment, "X": x, "s": tail}
    net = operator("LayerNormGradient", list(specs), OUTPUTS, axis=axis, elementwise_affine=1)
    shape = (2, 3, 4)
    inputs = {"dY": floats(*shape), "X": floats(*shape), "s": floats(*shape[axis:])}
    axes = tuple(range(axis, 3))
    mean, std = (f(inputs["X"], axis=axes).reshape(*shape[:axis], *[1] * (3 - axis)) for f in (np.mean, np.std))
    normalized = (inputs["X"] - mean) / std
    g = inputs["dY"] * inputs["s"]
    expected = (g - g.mean(axes, keepdims=True) - normalized * (g * normalized).mean(axes, keepdims=True)) / std
    moments = {"m": mean.reshape(*shape[:axis], 1), "std": std.reshape(*shape[:axis], 1)}
    dx, dscale, dbias = run(export(net, specs), {**inputs, **moments, "Y": normalized})
    np.testing.assert_allclose(dx, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dscale, (inputs["dY"] * normalized).sum(tuple(range(axis))), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dbias, inputs["dY"].sum(tuple(range(axis))), rtol=1e-4, atol=1e-5)


def test_spatial_bn_needs_images() -> None:
    specs: Specs = {"X": ("float32", (2, 3)), "s": ("float32", (3,)), "dY": ("float32", (2, 3))}
    specs |= {"m": ("float32", (3,)), "r": ("float32", (3,))}
    with pytest.raises(ConversionError, match="X must have at least rank 3, not 2"):
        export(operator("SpatialBNGradient", list(specs), OUTPUTS), specs)


def test_groups_divide_the_channels() -> None:
    image, channel, moment = ("float32", (2, 4, 3)), ("float32", (4,)), ("float32", (2, 3))
    specs: Specs = {"dY": image, "X": image, "s": channel, "b": channel, "m": moment, "r": moment}
    with pytest.raises(ConversionError, match="multiple of group"):
        export(operator("GroupNormGradient", list(specs), OUTPUTS, group=3), specs)


@pytest.mark.parametrize("shape", [(2, 4, 0, 3), (2, 4, 2, 0), (0, 4, 2, 3)])
def test_groups_of_no_pixels(shape: tuple[int, ...]) -> None:
    """Real Caffe2 gives zeros for scale and bias."""
    image, channel, moment = ("float32", ("N", "C", "H", "W")), ("float32", ("C",)), ("float32", ("N", 2))
    specs: Specs = {"dY": image, "X": image, "s": channel, "b": channel, "m": moment, "r": moment}
    model = export(operator("GroupNormGradient", list(specs), OUTPUTS, group=2), specs)
    moments = floats(shape[0], 2)
    inputs = {"dY": floats(*shape), "X": floats(*shape), "s": floats(4), "b": floats(4), "m": moments, "r": moments}
    dx, dscale, dbias = run(model, inputs)
    assert dx.shape == shape
    np.testing.assert_array_equal(np.stack([dscale, dbias]), np.zeros((2, 4)))
