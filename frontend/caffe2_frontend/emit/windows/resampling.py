"""Linear maps along one axis of an image, as products with matrices: what resizing becomes in gradients."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.emit.arithmetic import binary, div, mul, sub
from caffe2_frontend.emit.shapes import cast, indices, product, reshape, size, size_vector, sizes, squeeze, unsqueeze
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
    """The matrix [size of x, size of y] of 1 where the pixel of ``y`` along ``axis`` copies that of ``x``, else 0.

    Pixel i of ``y`` copies pixel ``min(i / scale, size - 1)``, rounded down. ``scale`` is a scalar.
    """
    rows, columns = op.static_dim(x, axis), op.static_dim(y, axis)
    known = op.known(scale)
    if rows is not None and columns is not None and known is not None:
        op.bounded(rows, columns)
        copied = np.minimum((np.arange(columns, dtype=np.float32) / known).astype(np.int64), rows - 1)
        return op.const(np.arange(rows)[:, None] == copied, x)
    position = div(op, cast(op, indices(op, size(op, y, axis)), ir.DataType.FLOAT), scale)
    last = sub(op, squeeze(op, size_vector(op, x, axis), [0]), 1)
    source = op.emit("Min", cast(op, position, ir.DataType.INT64), last)
    pixels = unsqueeze(op, indices(op, size(op, x, axis)), [1])
    return cast(op, op.emit("Equal", pixels, source), op.dtype(x))


def bilinear_weights(op: Op, x: Value, y: Value, axis: int) -> Value:
    """The matrix [size of x, size of y] of the weights of linear interpolation along ``axis`` from ``x`` to ``y``.

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
    """The indices of the pixels that padding ``count`` pixels by reflection copies, int64 [count + both pads].

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
