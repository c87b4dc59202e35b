"""Gradients of deformable convolutions (Dai et al., 2017): with respect to offsets, weight, bias and image."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add, binary, mul, reshape_like, sub
from caffe2_frontend.emit.operand_checks import SINGLE, require_rank, takes
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.shapes import Size, cast, indices, product, quotient, reshape, size, sizes, unsqueeze, vector
from caffe2_frontend.emit.windows.convolution_checks import check_weight
from caffe2_frontend.emit.windows.window import LegacyPad, Window, image_rank, read_window
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("deformable_gradient")


def _operand(op: OpView, _: int) -> TensorInfo:
    rank = image_rank(op)
    return TensorInfo(ir.DataType.FLOAT, None if rank is None else (None,) * rank)


@dataclass(frozen=True)
class _Corner:
    """One of the four pixels around each sample, as values [N, G, 1, L] for L samples of each group of offsets.

    Attributes:
        pixel: the index in the flat image.
        inside: 1 where the pixel lies in the image and the sample counts, else 0.
        by_row: the weight by row.
        by_column: the weight by column.
        signs: of the weights by row and by column, 1 where they grow with the position, else -1.
    """

    pixel: Value
    inside: Value
    by_row: Value
    by_column: Value
    signs: tuple[float, float]


@family.converts("DeformConvGradient", expects=_operand)
@takes(SINGLE, 0, 1, 2, 3)
def deformable_convolution_gradient(op: Op) -> tuple[Value, ...]:
    """DeformConvGradient(X, offset, W, dY; <window>, group=1, deformable_group=1, no_bias=0) -> doffset, dW, db[, dX].

    With no_bias=1 the outputs are doffset, dW[, dX]. The window's arguments are those of DeformConv.
    """
    x, offset, w, dy = (op.input(index) for index in range(4))
    for value, what in ((x, "X"), (offset, "the offsets"), (w, "the weight"), (dy, "the gradient of the result")):
        require_rank(op, value, 4, what)
    group = op.args.integer("group", default=1)
    groups = op.args.integer("deformable_group", default=1)
    window = read_window(op, 4, exact=True)
    if window.channels_last or window.legacy is not LegacyPad.NOTSET or groups < 1:
        op.unsupported(
            "order must be NCHW, legacy_pad must be 0 and deformable_group must be positive",
            hint="convert X with NHWC2NCHW and set pads",
            code="invalid-argument",
        )
    check_weight(op, window, w, x, group, None)
    n, channels, taps = size(op, x, 0), size(op, x, 1), math.prod(window.kernel)
    positions = product(op, sizes(op, dy, 2))
    samples = product(op, [positions, taps])
    corners = _corners(op, x, offset, window, groups)
    # Pixels of images as [N, G, C / G, H * W], and of corners as [N, G, C / G, L].
    per_group = quotient(op, channels, groups)
    flat = reshape(op, x, [n, groups, per_group, product(op, sizes(op, x, 2))])
    like = vector(op, [n, groups, per_group, samples])
    places = [op.emit("Expand", corner.pixel, like) for corner in corners]
    values = [
        mul(op, op.emit("GatherElements", flat, place, axis=3), corner.inside)
        for place, corner in zip(places, corners, strict=True)
    ]
    weights = [mul(op, corner.by_row, corner.by_column) for corner in corners]
    columns = add(op, *(mul(op, value, weight) for value, weight in zip(values, weights, strict=True)))
    # The products of a convolution per group: [M / g, P] and [C / g * taps, P] for dW, with its transpose for columns.
    rows = reshape(op, dy, [n, group, quotient(op, size(op, dy, 1), group), positions])
    depth = product(op, [quotient(op, channels, group), taps])
    by_group = op.emit("Transpose", reshape(op, columns, [n, group, depth, positions]), perm=[0, 1, 3, 2])
    dw = reshape_like(op, reduce_axes(op, "ReduceSum", op.emit("MatMul", rows, by_group), [0]), w)
    kernels = reshape(op, w, [1, group, quotient(op, size(op, w, 0), group), depth])
    of_columns = op.emit("MatMul", op.emit("Transpose", kernels, perm=[0, 1, 3, 2]), rows)
    of_columns = reshape(op, of_columns, [n, groups, per_group, samples])
    results = [_of_offset(op, of_columns, values, corners, offset, [n, groups, taps, 1, positions]), dw]
    if not op.args.flag("no_bias", default=False):
        results.append(reduce_axes(op, "ReduceSum", dy, [0, 2, 3]))
    if op.wants(len(results)):
        parts = [
            mul(op, of_columns, mul(op, weight, corner.inside)) for weight, corner in zip(weights, corners, strict=True)
        ]
        zeros = mul(op, flat, 0.0)
        at, updates = (op.emit("Concat", *several, axis=3) for several in (places, parts))
        results.append(reshape_like(op, op.emit("ScatterElements", zeros, at, updates, axis=3, reduction="add"), x))
    return tuple(results[: op.output_count])


def _corners(op: Op, x: Value, offset: Value, window: Window, groups: int) -> list[_Corner]:
    """Return the pixels around all samples. A sample counts if it is less than one pixel outside of the image."""
    taps = math.prod(window.kernel)
    n, (rows, columns) = size(op, offset, 0), sizes(op, offset, 2)
    parts = reshape(op, offset, [n, groups, taps, 2, rows, columns])
    height, width = (vector(op, [length]) for length in sizes(op, x, 2))
    axes, counts = [], []
    for axis, (count, limit) in enumerate(((rows, height), (columns, width))):
        moved = op.emit("Gather", parts, op.const(axis, np.int64), axis=3)
        position = add(op, moved, _regular(op, window, axis, count, moved))
        position = reshape(op, position, [n, groups, 1, product(op, [taps, rows, columns])])
        length = cast(op, limit, op.dtype(x))
        counts += [binary(op, "Greater", position, -1.0), op.emit("Less", position, length)]
        low = op.emit("Floor", position)
        fraction = sub(op, position, low)
        first = cast(op, low, ir.DataType.INT64)
        axes.append([(first, sub(op, 1.0, fraction), -1.0), (add(op, first, 1), fraction, 1.0)])
    counted = counts[0]
    for mask in counts[1:]:
        counted = op.emit("And", counted, mask)
    corners = []
    for row, by_row, row_sign in axes[0]:
        for column, by_column, column_sign in axes[1]:
            inside = counted
            for index, limit in ((row, height), (column, width)):
                inside = op.emit("And", inside, binary(op, "GreaterOrEqual", index, 0))
                inside = op.emit("And", inside, op.emit("Less", index, limit))
            pixel = op.emit("Where", inside, add(op, mul(op, row, width), column), op.const(0, np.int64))
            corners.append(_Corner(pixel, cast(op, inside, op.dtype(x)), by_row, by_column, (row_sign, column_sign)))
    return corners


def _regular(op: Op, window: Window, axis: int, count: Size, like: Value) -> Value:
    """Return the positions along an axis without offsets, [taps, rows, 1] or [taps, 1, columns]."""
    op.bounded(len(window.kernel), *window.kernel)
    taps = np.indices(window.kernel)[axis].reshape(-1, 1, 1) * window.dilation[axis] - window.head[axis]
    starts = mul(op, indices(op, count), window.stride[axis])
    return cast(op, add(op, unsqueeze(op, starts, [1 - axis]), op.const(taps, np.int64)), op.dtype(like))


def _of_offset(
    op: Op, of_columns: Value, values: list[Value], corners: list[_Corner], offset: Value, dims: list[Size]
) -> Value:
    """Return the gradient of the offsets: of each sample's row and column, summed over the channels of its group."""
    sides = []
    for side in (0, 1):
        slopes = [
            mul(op, value, mul(op, corner.by_row if side else corner.by_column, corner.signs[side]))
            for value, corner in zip(values, corners, strict=True)
        ]
        sums = reduce_axes(op, "ReduceSum", mul(op, of_columns, add(op, *slopes)), [2], keep=True)
        sides.append(reshape(op, sums, dims))
    return reshape_like(op, op.emit("Concat", *sides, axis=3), offset)
