"""Gradients of operators that real Caffe2 has on GPUs only, against PyTorch's autograd or the forward operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from numpy.testing import assert_allclose
from support.exports import Specs, export, run

Array = np.ndarray[Any, Any]

ROIS = np.array(
    [[0, 3, 3, 4, 3, 30], [0, 1, 5, 6, 2, -75], [0, 6, 0, 0.5, 0.2, 0], [0, 2.5, 3.5, 9, 8, 180]], np.float32
)


def computed(op_type: str, operands: dict[str, Array], outputs: int, *, known: bool, **args: Any) -> list[Array]:
    """Return the results of an operator, with sizes known at conversion or at run time alone."""
    specs: Specs = {
        name: (str(v.dtype), v.shape if known or name == "W" else tuple(f"{name}{axis}" for axis in range(v.ndim)))
        for name, v in operands.items()
    }
    names = [f"out{index}" for index in range(outputs)]
    return run(export(operator(op_type, list(operands), names, **args), specs), operands)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("args", [{}, {"aligned": 1}, {"sampling_ratio": 2, "spatial_scale": 0.8}])
def test_rotated_regions(args: dict[str, Any], *, known: bool) -> None:
    """Use one channel per pixel, of which that pixel is 1: so RoIAlignRotated yields all derivatives."""
    rng = np.random.default_rng(0)
    height, width = 6, 7
    pooled = {"pooled_h": 2, "pooled_w": 3, **args}
    unit = np.eye(height * width, dtype=np.float32).reshape(1, -1, height, width)
    (derivatives,) = computed("RoIAlignRotated", {"X": unit, "R": ROIS}, 1, known=True, **pooled)
    dy = rng.standard_normal((len(ROIS), 2, 2, 3)).astype(np.float32)
    expected = np.einsum("rpij,rcij->cp", derivatives, dy).reshape(1, 2, height, width)
    operands = {"X": rng.standard_normal((1, 2, height, width)).astype(np.float32), "R": ROIS, "dY": dy}
    (dx,) = computed("RoIAlignRotatedGradient", operands, 1, known=known, **pooled)
    assert_allclose(dx, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("regions", [0, 3])
def test_rotated_regions_of_several_images(regions: int) -> None:
    rois = np.array([[1, 3, 3, 4, 3, 30], [0, 1, 5, 6, 2, -75], [1, 2, 2, 3, 3, 0]], np.float32)[:regions]
    x = np.zeros((2, 1, 6, 7), np.float32)
    dy = np.ones((regions, 1, 2, 2), np.float32)
    args = {"pooled_h": 2, "pooled_w": 2, "sampling_ratio": 2}
    (dx,) = computed("RoIAlignRotatedGradient", {"X": x, "R": rois, "dY": dy}, 1, known=False, **args)
    for image in range(2):
        mine = rois[rois[:, 0] == image] * np.array([0, 1, 1, 1, 1, 1], np.float32)
        operands = {"X": x[:1], "R": mine, "dY": np.ones((len(mine), 1, 2, 2), np.float32)}
        (alone,) = computed("RoIAlignRotatedGradient", operands, 1, known=False, **args)
        assert_allclose(dx[image], alone[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("known", [True, False])
def test_maxima_of_regions(*, known: bool) -> None:
    """Check that the gradient of a cell goes to the pixel of its maximum; an empty cell has none."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 5, 6)).astype(np.float32)
    rois = np.array([[1, 0, 0, 4, 3], [0, 2, 1, 3, 3], [1, 9, 9, 12, 12], [1, 1, 0, 4, 4]], np.float32)
    args = {"pooled_h": 2, "pooled_w": 2}
    _, pixels = computed("RoIPool", {"X": x, "R": rois}, 2, known=True, **args)
    dy = rng.standard_normal(pixels.shape).astype(np.float32)
    expected = np.zeros((2, 3, 30), np.float32)
    for (region, channel, *cell), pixel in np.ndenumerate(pixels):
        if pixel >= 0:
            expected[int(rois[region, 0]), channel, pixel] += dy[region, channel, *cell]
    assert (pixels < 0).any()
    operands = {"X": x, "R": rois, "A": pixels, "dY": dy}
    (dx,) = computed("RoIPoolGradient", operands, 1, known=known, **args)
    assert_allclose(dx, expected.reshape(x.shape), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("known", [True, False])
def test_maxima_with_indices(*, known: bool) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 3, 7, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    y, pixels = torch.nn.functional.max_pool2d(x, 3, stride=2, padding=1, return_indices=True)
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
    y.backward(dy)
    operands = {"X": x.detach().numpy(), "dY": dy.numpy(), "I": pixels.numpy().astype(np.int32)}
    (dx,) = computed("MaxPoolWithIndexGradient", operands, 1, known=known, kernel=3, stride=2, pad=1)
    assert_allclose(dx, x.grad.numpy(), rtol=1e-5, atol=1e-6)


def deformed(torch: Any, x: Any, offset: Any, w: Any, group: int, groups: int, stride: int, pad: int) -> Any:
    """Return a deformable convolution by its definition, in differentiable operations."""
    n, channels, height, width = x.shape
    rows, columns = offset.shape[2:]
    kernel = w.shape[2:]
    taps = [(i, j) for i in range(kernel[0]) for j in range(kernel[1])]
    moved = offset.reshape(n, groups, len(taps), 2, rows, columns)
    tap = torch.tensor(taps, dtype=x.dtype)
    y = moved[:, :, :, 0] + tap[:, 0, None, None] - pad + stride * torch.arange(rows)[:, None]
    across = moved[:, :, :, 1] + tap[:, 1, None, None] - pad + stride * torch.arange(columns)
    samples = 0
    images = x.reshape(n, groups, channels // groups, height * width)
    for down in (0, 1):
        for right in (0, 1):
            row, column = y.detach().floor() + down, across.detach().floor() + right
            weight = (1 - (y - row).abs()) * (1 - (across - column).abs())
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            pixel = torch.where(inside, row * width + column, 0).long().reshape(n, groups, 1, -1)
            value = images.gather(3, pixel.expand(-1, -1, channels // groups, -1))
            samples = samples + value * (weight * inside).reshape(n, groups, 1, -1)
    cells = samples.reshape(n, group, channels // group * len(taps), rows * columns)
    return (w.reshape(1, group, w.shape[0] // group, -1) @ cells).reshape(n, w.shape[0], rows, columns)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("group", "groups", "stride", "pad"), [(1, 1, 1, 0), (2, 1, 2, 1), (1, 2, 1, 1), (2, 4, 2, 2)])
def test_deformable_convolution(group: int, groups: int, stride: int, pad: int, *, known: bool) -> None:
    torch = pytest.importorskip("torch")
    random = torch.Generator().manual_seed(group * groups)
    out = [(size + 2 * pad - kernel) // stride + 1 for size, kernel in ((5, 2), (6, 3))]
    shapes = {"X": (2, 4, 5, 6), "offset": (2, 12 * groups, *out), "W": (4, 4 // group, 2, 3), "dY": (2, 4, *out)}
    operands = {
        name: torch.randn(shape, generator=random, dtype=torch.float64, requires_grad=True)
        for name, shape in shapes.items()
    }
    x, offset, w, dy = operands.values()
    deformed(torch, x, offset, w, group, groups, stride, pad).backward(dy)
    arrays = {name: value.detach().numpy().astype(np.float32) for name, value in operands.items()}
    args = {"kernel_h": 2, "kernel_w": 3, "stride": stride, "pad": pad, "group": group, "deformable_group": groups}
    results = computed("DeformConvGradient", arrays, 4, known=known, **args)
    expected = [offset.grad, w.grad, dy.detach().sum((0, 2, 3)), x.grad]
    for result, value in zip(results, expected, strict=True):
        assert_allclose(result, value.numpy(), rtol=1e-3, atol=1e-4)
    without = computed("DeformConvGradient", arrays, 3, known=known, no_bias=1, **args)
    assert_allclose(without[2], results[3])
