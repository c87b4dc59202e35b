"""Gradients of convolutions and poolings: sizes known at run time alone, legacy pads, and refusals.

Expected values are those of real Caffe2, unless a test compares two ways to the same result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from numpy.testing import assert_allclose
from support.exports import Specs, dims, export, run

from caffe2_bridge.diagnostics import ConversionError

IMAGE = ("N", "C", "H", "W")


def counting(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


def specs(operands: dict[str, np.ndarray[Any, Any]], *, known: bool) -> Specs:
    """Return the operands' shapes, known or with a name of its own for each dim but those of the weight."""
    return {
        name: ("float32", v.shape if known or name == "W" else tuple(f"{name}{axis}" for axis in range(v.ndim)))
        for name, v in operands.items()
    }


def gradients(
    op_type: str, operands: dict[str, np.ndarray[Any, Any]], count: int, *, known: bool, **args: Any
) -> list[Any]:
    names = [f"g{index}" for index in range(count)]
    model = export(operator(op_type, list(operands), names, **args), specs(operands, known=known))
    return run(model, operands)


CONVOLUTIONS: list[tuple[dict[str, Any], int, int, int, list[float], list[float]]] = [
    # arguments, sizes of X, W and dY along W, dW, dX
    ({"kernel_w": 2, "stride_w": 2, "legacy_pad": 2}, 5, 2, 3, [22, 10], [1, 2, 2, 4, 3]),
    ({"kernel_w": 2, "stride_w": 4, "legacy_pad": 2}, 5, 2, 2, [11, 2], [1, 2, 0, 0, 2]),
    ({"kernel_w": 2, "stride_w": 2, "legacy_pad": 1}, 5, 2, 2, [7, 10], [1, 2, 2, 4, 0]),
    ({"kernel_w": 3, "stride_w": 2, "legacy_pad": 3}, 6, 3, 3, [22, 28, 13], [1, 2, 5, 4, 9, 6]),
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("args", "image", "kernel", "count", "dw", "dx"), CONVOLUTIONS)
def test_convolution_with_legacy_pads(
    args: dict[str, Any], image: int, kernel: int, count: int, dw: list[float], dx: list[float], *, known: bool
) -> None:
    operands = {"X": counting(1, 1, 1, image), "W": counting(1, 1, 1, kernel), "dY": counting(1, 1, 1, count)}
    results = gradients("ConvGradient", operands, 3, known=known, kernel_h=1, stride_h=1, **args)
    assert_allclose(results[0].ravel(), dw)
    assert_allclose(results[1], [np.sum(operands["dY"])])
    assert_allclose(results[2].ravel(), dx)


@pytest.mark.parametrize("known", [True, False])
def test_negative_pads_crop_the_image(*, known: bool) -> None:
    operands = {"X": counting(1, 1, 1, 5), "W": counting(1, 1, 1, 2), "dY": counting(1, 1, 1, 3)}
    dw, _, dx = gradients("ConvGradient", operands, 3, known=known, kernel_h=1, kernel_w=2, pads=[0, -1, 0, 0])
    assert_allclose(dw.ravel(), [20, 26])
    assert_allclose(dx.ravel(), [0, 1, 4, 7, 6])


@pytest.mark.parametrize("known", [True, False])
def test_windows_that_lie_in_the_padding_alone(*, known: bool) -> None:
    """Pool an image smaller than the stride, after pads larger than the kernel."""
    operands = {"X": counting(1, 1, 1, 1), "W": counting(1, 1, 1, 1), "dY": counting(1, 1, 1, 1)}
    args = {"kernel": 1, "stride": 5, "pads": [0, 3, 0, 0]}
    dw, _, dx = gradients("ConvGradient", operands, 3, known=known, **args)
    assert_allclose(dw.ravel(), [0])
    assert_allclose(dx.ravel(), [0])


def test_kernel_of_global_pooling_is_the_weight() -> None:
    operands = {"X": counting(1, 1, 1, 5), "W": counting(1, 1, 1, 5), "dY": counting(1, 1, 1, 1)}
    dw, _, dx = gradients("ConvGradient", operands, 3, known=False, global_pooling=1)
    assert_allclose(dw, operands["X"])
    assert_allclose(dx, operands["W"])


@pytest.mark.parametrize(("no_bias", "count"), [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)])
def test_outputs_that_are_not_listed_are_not_computed(no_bias: int, count: int) -> None:
    operands = {"X": counting(1, 1, 1, 5), "W": counting(1, 1, 1, 2), "dY": counting(1, 1, 1, 4)}
    results = gradients("ConvGradient", operands, count, known=True, kernel_h=1, kernel_w=2, no_bias=no_bias)
    expected = [[30, 40], [10], [1, 4, 7, 10, 8]]
    for result, value in zip(results, [v for i, v in enumerate(expected) if i != 1 or not no_bias], strict=False):
        assert_allclose(result.ravel(), value)


def test_too_many_outputs_are_refused() -> None:
    operands = {"X": counting(1, 1, 1, 5), "W": counting(1, 1, 1, 2), "dY": counting(1, 1, 1, 4)}
    with pytest.raises(ConversionError, match="at most 2 outputs, not 3"):
        gradients("ConvGradient", operands, 3, known=True, kernel_h=1, kernel_w=2, no_bias=1)


def test_weights_of_other_ranks_are_refused() -> None:
    operands = {"X": counting(1, 1, 1), "W": counting(1, 1, 1, 1), "dY": counting(1, 1, 1, 1)}
    with pytest.raises(ConversionError, match="the weight must have rank 3, not 4"):
        gradients("ConvGradient", operands, 3, known=True, global_pooling=1)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("depth", [3, 20])
def test_products_by_kernel_and_by_row_of_the_kernel_agree_with_the_definition(group: int, depth: int) -> None:
    """Whether the columns of the weight's gradient are few decides on the product."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, depth * group, 7, 9)).astype(np.float32)
    w = rng.standard_normal((2 * group, depth, 3, 2)).astype(np.float32)
    dy = rng.standard_normal((2, 2 * group, 3, 8)).astype(np.float32)
    args = {"kernel_h": 3, "kernel_w": 2, "stride_h": 2, "stride_w": 1, "group": group, "no_bias": 1}
    (dw,) = gradients("ConvGradient", {"X": x, "W": w, "dY": dy}, 1, known=False, **args)
    for m in range(2 * group):
        channels = x[:, m // 2 * depth : (m // 2 + 1) * depth]
        for i in range(3):
            for j in range(2):
                seen = channels[:, :, i : i + 5 : 2, j : j + 8]
                assert_allclose(dw[m, :, i, j], np.einsum("nchw,nhw->c", seen, dy[:, m]), rtol=1e-4, atol=1e-4)


def test_gradient_of_the_image_has_its_named_dims() -> None:
    shapes: Specs = {"X": ("float32", IMAGE), "W": ("float32", (4, 3, 3, 3)), "dY": ("float32", ("N", 4, "h", "w"))}
    model = export(operator("ConvGradient", ["X", "W", "dY"], ["dW", "db", "dX"], kernel=3, stride=2, pad=1), shapes)
    assert dims(model, 2)[2:] == ["H", "W"]


AVERAGES: list[tuple[dict[str, Any], int, list[float], list[float]]] = [
    # arguments, number of windows, 6 dX and, with count_include_pad, 6 dX for dY = 1, 2, 3...
    ({"kernel_w": 2, "stride_w": 2, "legacy_pad": 2}, 3, [3, 3, 6, 6, 18], [3, 3, 6, 6, 9]),
    ({"kernel_w": 3, "stride_w": 2, "legacy_pad": 3}, 3, [2, 2, 6, 4, 13, 9], [2, 2, 6, 4, 10, 6]),
    ({"kernel_w": 3, "stride_w": 2, "pads": [0, 1, 0, 1]}, 2, [3, 9, 6], [2, 6, 4]),
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("args", "windows", "dx", "counted"), AVERAGES)
def test_pads_in_averages(
    args: dict[str, Any], windows: int, dx: list[float], counted: list[float], *, known: bool
) -> None:
    images = {"X": counting(1, 1, 1, len(dx)), "Y": counting(1, 1, 1, windows), "dY": counting(1, 1, 1, windows)}
    for count_pads, expected in ((0, dx), (1, counted)):
        arguments = {"kernel_h": 1, "stride_h": 1, "count_include_pad": count_pads, **args}
        (result,) = gradients("AveragePoolGradient", images, 1, known=known, **arguments)
        assert_allclose(6 * result.ravel(), expected, rtol=1e-6)


POOLINGS: list[tuple[str, dict[str, Any], list[float], list[float], list[float]]] = [
    # operator, arguments, X, Y, dX, for dY = 1, 2, 3...
    ("MaxPool", {"kernel_w": 3, "stride_w": 2, "legacy_pad": 3}, [1, 2, 3, 4, 5, 6], [3, 5, 6], [0, 0, 1, 0, 2, 3]),
    ("MaxPool", {"kernel_w": 2, "stride_w": 2, "legacy_pad": 2}, [1, 2, 3, 4, 5], [2, 4, 5], [0, 1, 0, 2, 3]),
    ("LpPool", {"kernel_w": 2, "stride_w": 2}, [1, 2, 3, 4, 5], [1, 1], [1, 2, 6, 8, 0]),
    ("LpPool", {"kernel_w": 2, "p": 1.5}, [1, 4], [4], [0.5, 1]),
]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("pool", "args", "x", "y", "dx"), POOLINGS)
def test_pooling(
    pool: str, args: dict[str, Any], x: list[float], y: list[float], dx: list[float], *, known: bool
) -> None:
    images = {"X": np.array([[[x]]], np.float32), "Y": np.array([[[y]]], np.float32), "dY": counting(1, 1, 1, len(y))}
    (result,) = gradients(f"{pool}Gradient", images, 1, known=known, kernel_h=1, stride_h=1, **args)
    assert_allclose(result.ravel(), dx, rtol=1e-6)


def test_gradient_of_a_maximum_goes_to_all_pixels_that_reach_it() -> None:
    x = np.array([[[[1, 1, 1, 2, 5], [1, 1, 1, 2, 5], [1, 1, 0, 2, 5]]]], np.float32)
    images = {"X": x, "Y": np.array([[[[1, 2]]]], np.float32), "dY": np.array([[[[10, 7]]]], np.float32)}
    (result,) = gradients("MaxPoolGradient", images, 1, known=False, kernel=2, stride=2)
    assert_allclose(result[0, 0], [[10, 10, 0, 7, 0], [10, 10, 0, 7, 0], [0, 0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("kernel", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (5, 2, 1), (5, 1, 2), (2, 3, 0), (7, 3, 2)]
)
@pytest.mark.parametrize("known", [True, False])
def test_overlapping_maxima(kernel: int, stride: int, pad: int, *, known: bool) -> None:
    """Check few windows over a pixel, which are compared one by one, and many, which are in a Loop."""
    rng = np.random.default_rng(kernel * stride)
    x = rng.integers(0, 4, (2, 3, 9, 11)).astype(np.float32)
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=-1)
    rows, columns = ((size + 2 * pad - kernel) // stride + 1 for size in x.shape[2:])
    y, dx = np.zeros((2, 3, rows, columns), np.float32), np.zeros_like(padded)
    dy = rng.standard_normal(y.shape).astype(np.float32)
    for i in range(rows):
        for j in range(columns):
            seen = np.s_[:, :, i * stride : i * stride + kernel, j * stride : j * stride + kernel]
            y[:, :, i, j] = padded[seen].max((2, 3))
            dx[seen] += (padded[seen] == y[:, :, i : i + 1, j : j + 1]) * dy[:, :, i : i + 1, j : j + 1]
    images = {"X": x, "Y": y, "dY": dy}
    (result,) = gradients("MaxPoolGradient", images, 1, known=known, kernel=kernel, stride=stride, pad=pad)
    assert_allclose(result, dx[:, :, pad : pad + 9, pad : pad + 11], rtol=1e-5, atol=1e-5)


def test_p_norms_of_other_ranks_are_refused() -> None:
    """Real Caffe2 leaves the gradient unset."""
    images = {"X": counting(1, 1, 5), "Y": counting(1, 1, 4), "dY": counting(1, 1, 4)}
    with pytest.raises(ConversionError, match="must have rank 4, not 3"):
        gradients("LpPoolGradient", images, 1, known=True, kernels=[2])
