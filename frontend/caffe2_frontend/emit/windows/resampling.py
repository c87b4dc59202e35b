"""Resizing along single axes: by indices of pixels, and in gradients by products with matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.emit.arithmetic import binary, div, mul, sub
from caffe2_frontend.emit.shapes import (
    Size,
    cast,
    indices,
    product,
    reshape,
    size,
    size_vector,
    sizes,
    slice_axis,
    unsqueeze,
)
from caffe2_frontend.lowering.op import Op, Value


def apply_along(op: Op, matrix: Value, x: Value, axis: int) -> Value:
    """Multiply the vectors along ``axis`` (at least 1) of ``x`` with a matrix [new size, size of the axis]."""
    rank = op.rank(x)
    if axis == rank - 1:
        y: Value = op.emit("MatMul", x, op.emit("Transpose", matrix, perm=[1, 0]))
        return y
    if axis == rank - 2:
        return op.emit("MatMul", matrix, x)
    after = sizes(op, x, axis + 1)
    flat = reshape(op, x, [*sizes(op, x, 0, axis + 1), product(op, after)])
    return reshape(op, op.emit("MatMul", matrix, flat), [*sizes(op, x, 0, axis), size(op, matrix, 0), *after])


def nearest_weights(op: Op, x: Value, y: Value, axis: int, scale: Value) -> Value:
    """Return the matrix [size of x, size of y] of 1 where a pixel of ``y`` along ``axis`` copies that of ``x``, else 0.

    Pixel i of ``y`` copies pixel ``min(i / scale, size - 1)``, rounded down. ``scale`` is a scalar.
    """
    rows, columns = op.static_dim(x, axis), op.static_dim(y, axis)
    if rows is not None and columns is not None and op.known(scale) is not None:
        op.bounded(rows, columns)
    source = _copied_pixels(op, size(op, x, axis), size(op, y, axis), scale)
    known = op.known(source)
    if known is not None and rows is not None:
        return op.const(np.arange(rows)[:, None] == known, x)
    pixels = unsqueeze(op, indices(op, size(op, x, axis)), [1])
    return cast(op, op.emit("Equal", pixels, source), op.dtype(x))


def bilinear_weights(op: Op, x: Value, y: Value, axis: int) -> Value:
    """Return the matrix [size of x, size of y] of weights of linear interpolation along ``axis`` from ``x`` to ``y``.

    The corners of both coincide. Pixel i of ``y`` lies at ``i * (size of x - 1) / (size of y - 1)``, and at 0 if it is
    the only one; the weight of a pixel is 1 less its distance, or 0 from a distance of 1 on.
    """
    rows, columns = op.static_dim(x, axis), op.static_dim(y, axis)
    if rows is not None and columns is not None:
        op.bounded(rows, columns)
        ratio = np.float32((rows - 1) / (columns - 1)) if columns > 1 else np.float32(0)
        positions = np.arange(columns, dtype=np.float32) * ratio
        return op.const(np.maximum(1 - np.abs(np.arange(rows, dtype=np.float32)[:, None] - positions), 0), x)
    single = ir.DataType.FLOAT
    steps_x, steps_y = (cast(op, sub(op, size_vector(op, value, axis), 1), single) for value in (x, y))
    # One pixel lies at 0, whatever the ratio is.
    run_time_ratio = div(op, steps_x, binary(op, "Max", steps_y, 1.0))
    position = mul(op, cast(op, indices(op, size(op, y, axis)), single), run_time_ratio)
    pixels = unsqueeze(op, cast(op, indices(op, size(op, x, axis)), single), [1])
    weights = op.emit("Relu", sub(op, 1.0, op.emit("Abs", sub(op, pixels, position))))
    return cast(op, weights, op.dtype(x))


def reflected_pixels(op: Op, count: int, pads: tuple[int, int]) -> Array:
    """Return the indices of the pixels that padding ``count`` pixels by reflection copies, int64 [count + both pads].

    Caffe2 reflects at the start, then at the end, once each; pads that need more are refused.
    """
    op.bounded(max(count, 0) + sum(map(abs, pads)))
    source: Array = np.abs(np.arange(-pads[0], count + pads[1]))
    source = np.minimum(source, 2 * count - 2 - source)
    if source.min(initial=0) < 0:
        op.unsupported(
            f"pads {pads} of mode reflect must not exceed one reflection of {count} pixels", code="invalid-operands"
        )
    return source


def resize_nearest_by(op: Op, x: Value, scales: Value, axes: Sequence[int]) -> Value:
    """Resize ``x`` to the pixel at ``floor(position / scale)``, at most the last, along each axis.

    Args:
        op: the operator.
        x: the image.
        scales: float32, the scale of every axis of ``x``.
        axes: those that may have a scale other than 1.
    """
    if _may_keep_sizes(op, x, scales):
        return _gather_nearest(op, x, scales, axes)
    how: dict[str, Any] = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    y: Value = op.emit("Resize", x, None, scales, **how)
    return y


def _may_keep_sizes(op: Op, x: Value, scales: Value) -> bool:
    """Whether an image may have the same sizes after it is scaled, as 2 rows have by 1.2.

    onnxruntime's Resize then copies it, whatever the scales.
    """
    known = op.known(scales)
    if known is None:
        return True
    scaled = False
    for dim, scale in zip(op.shape(x), known.astype(np.float32), strict=True):
        if scale == 1:
            continue
        if not 1 < scale < 2 or (isinstance(dim, int) and int(np.float32(dim) * scale) != dim):
            return False
        scaled = True
    return scaled


def _gather_nearest(op: Op, x: Value, scales: Value, axes: Sequence[int]) -> Value:
    """Scale ``x`` by the pixel at ``floor(position / scale)`` along ``axes``, in float32 as Caffe2 does."""
    known = op.known(scales)
    for axis in axes:
        if known is not None and known[axis] == 1:
            continue
        scale = slice_axis(op, scales, 0, axis, axis + 1) if known is None else op.const(known[axis : axis + 1])
        x = op.emit("Gather", x, _nearest_pixels(op, size(op, x, axis), scale), axis=axis)
    return x


def _nearest_pixels(op: Op, length: Size, scale: Value) -> Value:
    """Return the indices, int64, that the pixels of an axis are copied from. ``scale`` is float32 [1]."""
    known = op.known(scale)
    if known is not None and isinstance(length, int):
        return _copied_pixels(op, length, int(np.float32(length) * known[0]), scale)
    number = op.const([length], np.int64) if isinstance(length, int) else length
    scaled = cast(op, mul(op, cast(op, number, ir.DataType.FLOAT), scale), ir.DataType.INT64)
    return _copied_pixels(op, length, scaled, scale)


def _copied_pixels(op: Op, length: Size, count: Size, scale: Value) -> Value:
    """Return the pixels, int64 [count], copied of ``length``: ``min(i / scale, length - 1)``, rounded down, in float32.

    ``scale`` has one element.
    """
    known = op.known(scale)
    if known is not None and isinstance(length, int) and isinstance(count, int):
        positions = np.arange(op.bounded(count), dtype=np.float32) / known.reshape(())
        return op.const(np.minimum(positions.astype(np.int64), length - 1))
    position = div(op, cast(op, indices(op, count), ir.DataType.FLOAT), scale)
    last: int | Value = length - 1 if isinstance(length, int) else sub(op, length, 1)
    return binary(op, "Min", cast(op, position, ir.DataType.INT64), last)
