"""Gradients of a convolution with respect to its image and its weight, as few large products."""

from __future__ import annotations

from itertools import product as cartesian
from typing import Any, Final

import numpy as np

from caffe2_frontend.emit.arithmetic import binary, reshape_like
from caffe2_frontend.emit.shapes import END, flatten, quotient, reshape, size, unsqueeze
from caffe2_frontend.emit.windows.pads import pad_image, resolve_pads, uncovered, unpad_image
from caffe2_frontend.emit.windows.window import LegacyPad, Window
from caffe2_frontend.lowering.op import Op, Value

# Up to this many columns per row of the kernel, one product over the columns of the whole kernel is fastest; beyond,
# one product per row of the kernel takes less memory and time.
_FEW_COLUMNS: Final = 32


def image_gradient(op: Op, dy: Value, w: Value, window: Window, x: Value, group: int = 1) -> Value:
    """Return the gradient of a convolution with respect to its image ``x`` [N, C, ...], a transposed convolution.

    Args:
        op: the operator under conversion.
        dy: the gradient of the result, [N, M, *out].
        w: the weight, [M, C / group, *kernel].
        window: the window of the convolution.
        x: the image, of which only the sizes matter.
        group: the number of groups.
    """
    window = resolve_pads(op, window, x)
    rest = uncovered(op, window, x)
    pads = [*window.head, *window.tail]
    explicit = window.legacy is LegacyPad.NOTSET and min(pads) >= 0 and None not in rest
    attributes: dict[str, Any] = window.attributes | {"auto_pad": None, "group": group if group != 1 else None}
    if explicit:
        attributes["output_padding"] = rest if any(rest) else None
        shape = [None, None, *op.shape(x)[2:]]
        dx: Value = op.emit("ConvTranspose", dy, w, **attributes, shape=shape)
        return dx
    return unpad_image(op, window, op.emit("ConvTranspose", dy, w, **attributes | {"pads": None}), x)


def weight_gradient(op: Op, x: Value, dy: Value, w: Value, window: Window, group: int = 1) -> Value:
    """Return the gradient of a convolution with respect to its weight, of the shape of ``w``.

    With the pixels that the window covers at each position as columns, this is the product of the gradient of the
    result and of the columns over all images and positions.

    Args:
        op: the operator under conversion.
        x: the image, [N, C, ...].
        dy: the gradient of the result, [N, M, *out].
        w: the weight, [M, C / group, *kernel], of which only the sizes matter.
        window: the window of the convolution.
        group: the number of groups.
    """
    window = resolve_pads(op, window, x)
    images = _channels_outside(op, pad_image(op, window, x, 0.0))
    rows = _by_group(op, flatten(op, _channels_outside(op, dy), 1), group)
    dims, depth = len(window.kernel), op.static_dim(w, 1)
    inner = dims if depth is not None and depth * window.kernel[-1] <= _FEW_COLUMNS else 1
    before = op.rank(images)
    for dim in reversed(range(dims - inner, dims)):
        images = _stack_offsets(op, images, window, dim)
    axis = 1 + op.rank(images) - before
    op.unrolled(*window.kernel[: dims - inner])
    parts = []
    for offsets in cartesian(*(range(k) for k in window.kernel[: dims - inner])):
        shifted = _shifted(op, images, window, dict(enumerate(offsets)))
        columns = _by_group(op, flatten(op, shifted, axis), group)
        parts.append(product_with_transposed(op, rows, columns))
    if len(parts) == 1:
        return reshape_like(op, parts[0], w)
    kernel = window.kernel[dims - inner :]
    stacked = op.emit("Concat", *parts, axis=0)
    stacked = reshape(op, stacked, [len(parts), size(op, w, 0), size(op, w, 1), *kernel])
    return reshape_like(op, op.emit("Transpose", stacked, perm=[1, 2, 0, *range(3, 3 + len(kernel))]), w)


def window_columns(op: Op, x: Value, window: Window) -> Value:
    """Return the pixels that the window covers at each position, [C, *kernel, N, *out] without kernel dims of 1."""
    op.bounded(*window.kernel * 2)  # of nodes, one for each offset along a dim
    images = _channels_outside(op, pad_image(op, resolve_pads(op, window, x), x, 0.0))
    for dim in reversed(range(len(window.kernel))):
        images = _stack_offsets(op, images, window, dim)
    return images


def product_with_transposed(op: Op, a: Value, b: Value) -> Value:
    """Return ``a @ b'`` of matrices [M, L] and [K, L], or of one pair of matrices per group."""
    if op.rank(a) == 2:
        return op.emit("Gemm", a, b, transB=1)
    return batched_product(op, a, op.emit("Transpose", b, perm=[0, 2, 1]))


def batched_product(op: Op, a: Value, b: Value) -> Value:
    """Return ``a @ b`` of pairs of matrices [..., M, L] and [..., L, K]; 0 over no elements.

    onnxruntime leaves such products undefined.
    """
    y: Value = op.emit("MatMul", a, b)
    length = size(op, a, -1)
    if isinstance(length, int) and length:
        return y
    empty = op.const(length == 0) if isinstance(length, int) else binary(op, "Equal", length, 0)
    return op.emit("Where", empty, op.const(0.0, y), y)


def _channels_outside(op: Op, x: Value) -> Value:
    """Transpose [N, C, ...] to [C, N, ...]."""
    return op.emit("Transpose", x, perm=[1, 0, *range(2, op.rank(x))])


def _by_group(op: Op, x: Value, group: int) -> Value:
    """Reshape rows [group * K, L] to [group, K, L], for more than one group."""
    if group == 1:
        return x
    return reshape(op, x, [group, quotient(op, size(op, x, 0), group), size(op, x, 1)])


def _stack_offsets(op: Op, images: Value, window: Window, dim: int) -> Value:
    """Stack the pixels under each offset of the kernel's dim ``dim`` along a new axis 1 of images [C, ..., N, ...]."""
    k = window.kernel[dim]
    if k == 1:
        return _shifted(op, images, window, {dim: 0})
    images = unsqueeze(op, images, [1])
    return op.emit("Concat", *(_shifted(op, images, window, {dim: offset}) for offset in range(op.unrolled(k))), axis=1)


def _shifted(op: Op, images: Value, window: Window, offsets: dict[int, int]) -> Value:
    """Return the pixels of images [..., *spatial] under the kernel's element ``offsets``, per dim, at every position.

    Ends are counted from the end of the image, so that its size need not be known: pixels after the last window are
    fewer than a stride, and are skipped.
    """
    starts, ends, axes, steps = [], [], [], []
    dims = len(window.kernel)
    for dim, offset in offsets.items():
        k, s, d = window.kernel[dim], window.stride[dim], window.dilation[dim]
        if k > 1 or s > 1:
            starts.append(offset * d)
            ends.append((offset - (k - 1)) * d or END)
            axes.append(op.rank(images) - dims + dim)
            steps.append(s)
    if not starts:
        return images
    given = [op.const(v, np.int64) for v in (starts, ends, axes)]
    return op.emit("Slice", images, *given, *([op.const(steps, np.int64)] if set(steps) != {1} else []))
