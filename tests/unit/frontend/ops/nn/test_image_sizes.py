"""Images that keep their sizes although they are scaled, which Resize of onnxruntime copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import export, run


def nearest(x: Any, scales: tuple[float, ...], first: int) -> Any:
    """Return pixel ``floor(i / scale)`` in float32, at most the last."""
    for axis, scale in enumerate(np.float32(scales), first):
        length = x.shape[axis]
        positions = np.arange(int(np.float32(length) * scale), dtype=np.float32) / scale
        x = np.take(x, np.minimum(positions.astype(int), max(length - 1, 0)), axis)
    return x


SCALES = [(1.2, 1.0), (1.2, 1.2), (1.1, 1.9), (1.0, 1.0), (0.7, 1.1), (2.0, 1.2), (1.3, 2.5)]


@pytest.mark.parametrize("sizes", [True, False])
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("scales", SCALES)
def test_scales_that_keep_sizes(scales: tuple[float, float], order: str, sizes: bool) -> None:
    op = operator("ResizeNearest", ["X"], ["Y"], height_scale=scales[0], width_scale=scales[1], order=order)
    first = 2 if order == "NCHW" else 1
    for height, width in ((2, 2), (3, 4), (1, 5), (9, 7)):
        shape = (2, 3, height, width) if first == 2 else (2, height, width, 3)
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        found = run(export(op, {"X": ("float32", shape if sizes else [None] * 4)}), {"X": x})[0]
        np.testing.assert_array_equal(found, nearest(x, scales, first))


@pytest.mark.parametrize("scales", SCALES)
def test_scales_from_an_operand(scales: tuple[float, float]) -> None:
    op = operator("ResizeNearest", ["X", "S"], ["Y"])
    model = export(op, {"X": ("float32", [None] * 4), "S": ("float32", [2])})
    for height, width in ((2, 2), (3, 4), (9, 7)):
        x = np.arange(6 * height * width, dtype=np.float32).reshape(2, 3, height, width)
        found = run(model, {"X": x, "S": np.array(scales, np.float32)})[0]
        np.testing.assert_array_equal(found, nearest(x, scales, 2))


def test_volumes() -> None:
    op = operator("ResizeNearest3D", ["X"], ["Y"], temporal_scale=1.2, height_scale=1.1, width_scale=1.0)
    x = np.arange(54, dtype=np.float32).reshape(1, 2, 3, 3, 3)
    found = run(export(op, {"X": ("float32", [None] * 5)}), {"X": x})[0]
    np.testing.assert_array_equal(found, nearest(x, (1.2, 1.1, 1.0), 2))


@pytest.mark.parametrize("scales", SCALES)
def test_quantized_images(scales: tuple[float, float]) -> None:
    how = {"Y_scale": 1.0, "Y_zero_point": 0}
    resize = operator("Int8ResizeNearest", ["Q"], ["R"], height_scale=scales[0], width_scale=scales[1], **how)
    net = [operator("Int8Quantize", ["X"], ["Q"], **how), resize, operator("Int8Dequantize", ["R"], ["Y"])]
    for height, width in ((2, 2), (3, 4), (9, 7)):
        x = np.arange(height * width * 3, dtype=np.float32).reshape(1, height, width, 3)
        found = run(export(net, {"X": ("float32", [None] * 4)}), {"X": x})[0]
        np.testing.assert_array_equal(found, nearest(x, scales, 1))
