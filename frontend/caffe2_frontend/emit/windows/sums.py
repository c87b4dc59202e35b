"""Sums over the windows that cover each pixel: what poolings of images become in their gradients."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from caffe2_frontend.emit.arithmetic import mul, reshape_like
from caffe2_frontend.emit.shapes import product, reshape, sizes
from caffe2_frontend.emit.windows.convolution_gradients import image_gradient
from caffe2_frontend.emit.windows.pads import resolve_pads, unpad_image
from caffe2_frontend.emit.windows.window import LegacyPad, Window
from caffe2_frontend.lowering.op import Op, Value


def sum_windows(op: Op, values: Value, window: Window, x: Value, factor: float = 1.0) -> Value:
    """Return the sum over the windows that cover each pixel of ``x``, of one value per window, times ``factor``; [x].

    Where the kernel is a multiple of the stride, as many windows cover each block of stride pixels: their sum is a mean
    with stride 1, repeated over the block.

    Args:
        op: the operator under conversion.
        values: a value for each window, [N, C, *out].
        window: the window, without dilations.
        x: the image, [N, C, ...], of which only the sizes matter.
        factor: what the sums are multiplied by.
    """
    window = resolve_pads(op, window, x)
    counts = [k // s for k, s in zip(window.kernel, window.stride, strict=True)]
    if any(k % s for k, s in zip(window.kernel, window.stride, strict=True)):
        return _by_transposed_convolution(op, scaled(op, values, factor), window, x)
    pads = [(q - 1, q - 1) for q in counts]
    inside = set(window.stride) == {1} and window.legacy is LegacyPad.NOTSET
    if inside and all(0 <= p < k for p, k in zip((*window.head, *window.tail), window.kernel * 2, strict=True)):
        # The pads cut off what lies beyond the image.
        pads = [(k - 1 - h, k - 1 - t) for k, h, t in zip(window.kernel, window.head, window.tail, strict=True)]
        shape = [*op.shape(values)[:2], *op.shape(x)[2:]]
        return scaled(op, _mean(op, values, counts, pads, shape), factor * prod(counts))
    means = scaled(op, values, factor * prod(counts))
    if set(counts) != {1}:
        means = _mean(op, means, counts, pads)
    return unpad_image(op, window, repeat_pixels(op, means, window.stride), x)


def scaled(op: Op, x: Value, factor: float) -> Value:
    """Return ``x * factor``, without a node for 1."""
    return x if factor == 1.0 else mul(op, x, factor)


def _mean(op: Op, x: Value, kernel: list[int], pads: list[tuple[int, int]], shape: Any = None) -> Value:
    flat = [pair[end] for end in (0, 1) for pair in pads]
    y: Value = op.emit("AveragePool", x, kernel_shape=kernel, pads=flat, count_include_pad=1, shape=shape)
    return y


def repeat_pixels(op: Op, x: Value, factors: tuple[int, ...]) -> Value:
    """Repeat each pixel of images [N, C, ...], ``factors`` times along each spatial dim."""
    if set(factors) == {1}:
        return x
    dims = [dim * f if isinstance(dim, int) else None for dim, f in zip(op.shape(x)[2:], factors, strict=True)]
    return op.emit(
        "Resize",
        x,
        None,
        op.const([1, 1, *factors], np.float32),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
        shape=[*op.shape(x)[:2], *dims],
    )


def _by_transposed_convolution(op: Op, values: Value, window: Window, x: Value) -> Value:
    """Add each value to all pixels of its window, for each plane of the images apart."""
    planes = [product(op, sizes(op, values, 0, 2)), 1]
    flat, image = reshape(op, values, [*planes, *sizes(op, values, 2)]), reshape(op, x, [*planes, *sizes(op, x, 2)])
    op.bounded(*window.kernel)
    ones = op.const(np.ones((1, 1, *window.kernel)), values)
    return reshape_like(op, image_gradient(op, flat, ones, window, image), x)
