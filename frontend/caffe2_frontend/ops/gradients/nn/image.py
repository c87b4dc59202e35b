"""Gradients of operators on images: resizing, padding, the order of channels, and integral images."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.window import window_argument
from caffe2_frontend.emit.arithmetic import add, aligned, mul, sub
from caffe2_frontend.emit.layout import channels_last, move_first, move_last, require_nchw, swap_factors
from caffe2_frontend.emit.operand_checks import (
    SINGLE,
    require_equal,
    require_groups,
    require_min_rank,
    require_rank,
    takes,
)
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.shapes import (
    END,
    broadcast_over_channels,
    quotient,
    reshape,
    size,
    size_vector,
    sizes,
    slice_axis,
    unsqueeze,
)
from caffe2_frontend.emit.windows.resampling import apply_along, bilinear_weights, nearest_weights, reflected_pixels
from caffe2_frontend.emit.windows.sums import scaled
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("image_gradient")

_IMAGE: Final = TensorInfo(ir.DataType.FLOAT, (None,) * 4)
_VOLUME: Final = TensorInfo(ir.DataType.FLOAT, (None,) * 5)
# The largest number of copies of a pixel that is a pooling's kernel.
_LARGEST_FACTOR: Final = 1 << 15
_SCALES: Final = TensorInfo(ir.DataType.FLOAT, (2,))


@family.converts("ResizeNearestGradient", expects={0: _IMAGE, 1: _IMAGE, 2: _SCALES})
@takes(SINGLE, 0, 1)
def resize_nearest_gradient(op: Op) -> Value:
    """ResizeNearestGradient(dY, X[, scales]; width_scale=1.0, height_scale=1.0, order="NCHW") -> dX.

    The second of the optional operand's elements is the scale of the width; they replace the arguments.
    """
    last = channels_last(op)
    dy, x = (move_first(op, op.input(index), when=last) for index in (0, 1))
    return move_last(op, _nearest(op, dy, x, ("height_scale", "width_scale")), when=last)


@family.converts("ResizeNearest3DGradient", expects={0: _VOLUME, 1: _VOLUME})
@takes(SINGLE, 0, 1)
def resize_nearest_3d_gradient(op: Op) -> Value:
    """ResizeNearest3DGradient(dY, X; temporal_scale=1.0, height_scale=1.0, width_scale=1.0, order="NCHW") -> dX."""
    require_nchw(op, "the operands")
    return _nearest(op, op.input(0), op.input(1), ("temporal_scale", "height_scale", "width_scale"))


@family.converts("UpsampleNearestGradient", expects={0: _IMAGE, 1: _IMAGE})
@takes(SINGLE, 0, 1)
def upsample_nearest_gradient(op: Op) -> Value:
    """UpsampleNearestGradient(X, dY; scale=2) -> dX: the sums of squares of ``scale`` by ``scale`` pixels."""
    x, dy, scale = op.input(0), op.input(1), op.args.integer("scale", default=2)
    for value, what in ((x, "the image"), (dy, "the gradient")):
        require_rank(op, value, 4, what)
    if scale < 1:
        op.unsupported(f"scale must be positive, not {scale}", code="invalid-argument")
    n, c, h, w = sizes(op, x)
    squares = reshape(op, dy, [n, c, h, scale, w, scale])
    return op.emit("ReduceSum", squares, op.const([3, 5], np.int64), keepdims=0, shape=op.shape(x))


@family.converts("UpsampleBilinearGradient", expects={0: _IMAGE, 1: _IMAGE, 2: _SCALES})
@takes(SINGLE, 0, 1)
def upsample_bilinear_gradient(op: Op) -> Value:
    """UpsampleBilinearGradient(dY, X[, scales]; width_scale=1.0, height_scale=1.0) -> dX.

    The weights follow from the sizes of both images; the scales have no effect.
    """
    op.args.ignore("width_scale", "height_scale", "order")
    dy, x = op.input(0), op.input(1)
    for value, what in ((dy, "the gradient"), (x, "the image")):
        require_rank(op, value, 4, what)
    for axis in (3, 2):
        length = op.static_dim(x, axis)
        if length is None or length != op.static_dim(dy, axis):
            dy = apply_along(op, bilinear_weights(op, x, dy, axis), dy, axis)
    return dy


def _nearest(op: Op, dy: Value, x: Value, names: Sequence[str]) -> Value:
    """Sum over the pixels of ``dy`` [N, C, ...] that copy each pixel of ``x`` [N, C, ...]."""
    count = len(names)
    for value, what in ((dy, "the gradient"), (x, "the image")):
        require_rank(op, value, count + 2, what)
    scales = [op.args.number(name, default=1.0) for name in names]
    given = op.optional(2)
    if given is not None:
        require_rank(op, given, 1, "the scales")
        require_equal(op, op.static_dim(given, 0), count, "the numbers of scales and of the image's dims")
    known = np.array(scales, np.float32) if given is None else op.known(given)
    if min(scales if known is None else known) <= 0:
        op.unsupported(f"{', '.join(names)} must be positive, not {scales}", code="invalid-argument")
    whole = known is not None and max(known) <= _LARGEST_FACTOR and not (known % 1).any()
    if known is not None and whole and _repeats(op, dy, x, known.tolist()):
        factors = [int(scale) for scale in known]
        if prod(factors) == 1:
            return dy
        means = op.emit("AveragePool", dy, kernel_shape=factors, strides=factors, shape=op.shape(x))
        return scaled(op, means, float(prod(factors)))
    for index in reversed(range(count)):
        if known is not None:
            scale = op.const(known[index], np.float32)
        elif given is not None:
            scale = op.emit("Gather", given, op.const(index, np.int64))
        dy = apply_along(op, nearest_weights(op, x, dy, index + 2, scale), dy, index + 2)
    return dy


def _repeats(op: Op, dy: Value, x: Value, scales: Sequence[float]) -> bool:
    """Whether, as far as sizes are known, each pixel of ``x`` was repeated as often as the scales say."""
    pairs = ((op.static_dim(dy, axis), op.static_dim(x, axis), s) for axis, s in enumerate(scales, 2))
    return all(big is None or small is None or big == small * s for big, small, s in pairs)


@family.converts("PadImageGradient", expects={0: _IMAGE})
@takes(SINGLE, 0)
def pad_image_gradient(op: Op) -> Value:
    """PadImageGradient(dY; mode="constant", pad=0, order="NCHW") -> dX.

    Pads are also spelled pad_t, pad_l, pad_b, pad_r or pads. With the modes edge and reflect the gradient of a pad is
    added to that of the pixel that it copies.
    """
    op.args.ignore("kernel", "kernel_h", "kernel_w", "kernels", "group", "shared_buffer", "global_pooling", "value")
    dy = op.input(0)
    require_rank(op, dy, 4, "the gradient")
    mode = op.args.text("mode", default="constant")
    first = 1 if channels_last(op) else 2
    pads = window_argument(op.args, "pad", 4) or [0] * 4
    strides = {*window_argument(op.args, "stride", 2), *window_argument(op.args, "dilation", 2)}
    if mode not in ("constant", "reflect", "edge"):
        op.unsupported(f"mode must be constant, reflect or edge, not {mode!r}", code="invalid-argument")
    if len(pads) != 4 or strides - {1} or op.args.integer("legacy_pad", default=0) or min(pads) < 0:
        op.unsupported(
            "PadImage takes four pads that are not negative, and no stride, dilation or legacy_pad other than the "
            "defaults",
            code="invalid-argument",
        )
    for axis, head, tail in ((first, pads[0], pads[2]), (first + 1, pads[1], pads[3])):
        if not head and not tail:
            continue
        if mode == "reflect":
            dy = _unreflect(op, dy, axis, head, tail)
        else:
            core = slice_axis(op, dy, axis, head, -tail or END)
            dy = _add_edges(op, dy, core, axis, head, tail) if mode == "edge" else core
    return dy


def _add_edges(op: Op, dy: Value, core: Value, axis: int, head: int, tail: int) -> Value:
    """Add the sums of the pads along ``axis`` to the first and to the last pixel of ``core``, dY without pads."""
    others = sub(op, size_vector(op, core, axis), 1)
    none = op.const([0], np.int64)
    if head:
        sums = reduce_axes(op, "ReduceSum", slice_axis(op, dy, axis, 0, head), [axis], keep=True)
        core = _add_padded(op, core, sums, axis, none, others)
    if tail:
        sums = reduce_axes(op, "ReduceSum", slice_axis(op, dy, axis, -tail, END), [axis], keep=True)
        core = _add_padded(op, core, sums, axis, others, none)
    return core


def _unreflect(op: Op, dy: Value, axis: int, head: int, tail: int) -> Value:
    """Add the pads along ``axis``, in reverse, to the pixels next to the first and the last one."""
    length = op.static_dim(dy, axis)
    if length is not None and max(head, tail) >= length - head - tail:
        pixels = length - head - tail
        source = reflected_pixels(op, pixels, (head, tail))
        op.bounded(pixels, source.size)
        return apply_along(op, op.const(np.arange(pixels)[:, None] == source, dy), dy, axis)
    core = slice_axis(op, dy, axis, head, -tail or END)
    sources, pads = [], []
    if head:
        sources.append(op.const(np.arange(op.bounded(head), 0, -1), np.int64))
        pads.append(slice_axis(op, dy, axis, 0, head))
    if tail:
        last = sub(op, size_vector(op, core, axis), 2)
        sources.append(sub(op, last, op.const(np.arange(op.bounded(tail)), np.int64)))
        pads.append(slice_axis(op, dy, axis, -tail, END))
    part = op.emit("Concat", *pads, axis=axis) if len(pads) > 1 else pads[0]
    places = op.emit("Concat", *sources, axis=0) if len(sources) > 1 else sources[0]
    places = unsqueeze(op, places, range(1, op.rank(dy) - axis))
    places = op.emit("Expand", places, op.emit("Shape", part), shape=op.shape(part))
    return op.emit("ScatterElements", core, places, part, axis=axis, reduction="add")


def _add_padded(op: Op, x: Value, part: Value, axis: int, head: Value, tail: Value) -> Value:
    """Return ``x`` plus ``part``, padded with zeros along ``axis`` to the size of ``x``; the pads are int64 [1]."""
    before, after = op.const([0] * axis, np.int64), op.const([0] * (op.rank(x) - 1 - axis), np.int64)
    pads = op.emit("Concat", before, head, after, before, tail, after, axis=0)
    return add(op, x, op.emit("Pad", part, pads, shape=op.shape(x)))


@family.converts("ChannelShuffleGradient", expects={0: TensorInfo(ir.DataType.FLOAT)})
@takes(SINGLE, 0)
def channel_shuffle_gradient(op: Op) -> Value:
    """ChannelShuffleGradient(dY; group=1, order="NCHW") -> dX: ChannelShuffle with the number of channels per group."""
    op.args.ignore("kernel")
    dy = op.input(0)
    group = op.args.integer("group", default=1)
    require_min_rank(op, dy, 1 if channels_last(op) else 2, "the gradient")
    axis = op.rank(dy) - 1 if channels_last(op) else 1
    require_groups(op, op.static_dim(dy, axis), group, "channels")
    return dy if group == 1 else swap_factors(op, dy, axis, quotient(op, size(op, dy, axis), group), group)


@family.converts("IntegralImageGradient", expects={0: _IMAGE, 1: _IMAGE})
@takes(SINGLE, 0, 1)
def integral_image_gradient(op: Op) -> Value:
    """IntegralImageGradient(X, dY) -> dX.

    Caffe2 computes the integral image of dY, without its last row and column, and not the gradient.
    """
    x, dy = op.input(0), op.input(1)
    for value, what in ((x, "the image"), (dy, "the gradient")):
        require_rank(op, value, 4, what)
    known = op.static_shape(x)
    ends = op.emit("Shape", x, start=2) if known is None else op.const(known[2:], np.int64)
    dims = [*op.shape(dy)[:2], *op.shape(x)[2:]]
    y = op.emit("Slice", dy, op.const([0, 0], np.int64), ends, op.const([2, 3], np.int64), shape=dims)
    for axis in (3, 2):
        y = op.emit("CumSum", y, op.const(axis, np.int64))
    return y


@family.converts("AffineChannelGradient")
@takes(SINGLE, 0, 1, 2)
def affine_channel_gradient(op: Op) -> tuple[Value, ...]:
    """AffineChannelGradient(dY, scale; order="NCHW") -> dX.

    With is_learnable=1 (default 0), AffineChannelGradient(dY, X, scale) -> dX, dscale, dbias.
    """
    learnable = op.args.flag("is_learnable", default=False)
    if op.output_count != (3 if learnable else 1):
        op.unsupported(
            f"the operator must have one output, and three with is_learnable=1, not {op.output_count}",
            code="invalid-operands",
        )
    dy, scale = op.input(0), op.input(2 if learnable else 1)
    last = channels_last(op)
    require_min_rank(op, dy, 1 if last else 2, "the gradient")
    require_rank(op, scale, 1, "the scale")
    channel = op.rank(dy) - 1 if last else 1
    require_equal(op, op.static_dim(dy, channel), op.static_dim(scale, 0), "channels and scales")
    dx = mul(op, dy, scale if last else broadcast_over_channels(op, scale, dy))
    if not learnable:
        return (dx,)
    axes = [axis for axis in range(op.rank(dy)) if axis != channel]
    products = mul(op, dy, aligned(op, op.input(1), dy))
    return dx, reduce_axes(op, "ReduceSum", products, axes), reduce_axes(op, "ReduceSum", dy, axes)
