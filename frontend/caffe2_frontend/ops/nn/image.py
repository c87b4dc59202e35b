"""Images: resizing, padding, blocks and batches, channel and storage order, and pixel formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.window import window_argument
from caffe2_frontend.emit.arithmetic import add, mul
from caffe2_frontend.emit.constant_evaluation import known_values
from caffe2_frontend.emit.layout import channels_last, move_first, move_last, require_nchw, swap_factors
from caffe2_frontend.emit.operand_checks import (
    FLOATS,
    REALS,
    require_dtype,
    require_equal,
    require_groups,
    require_min_rank,
    require_rank,
    takes,
)
from caffe2_frontend.emit.shapes import cast, product, quotient, reshape, size, sizes, slice_axis, unsqueeze
from caffe2_frontend.emit.windows.resampling import reflected_pixels, resize_nearest_by
from caffe2_frontend.emit.windows.window import check_pads
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("image")

_IMAGE: Final = TensorInfo(ir.DataType.FLOAT, (None,) * 4)
_SMALLEST: Final = float(np.finfo(np.float32).tiny)


@family.converts("ResizeNearest", expects={0: _IMAGE, 1: TensorInfo(ir.DataType.FLOAT, (2,))})
def resize_nearest(op: Op) -> Value:
    """ResizeNearest(X[, scales]; width_scale=1.0, height_scale=1.0, order="NCHW") -> Y.

    The second operand holds the scales of height and width, and replaces the arguments.
    """
    return _resize_nearest(op, ("height_scale", "width_scale"), last=channels_last(op))


@family.converts("UpsampleNearest", expects={0: _IMAGE})
def upsample_nearest(op: Op) -> Value:
    """UpsampleNearest(X; scale=2) -> Y. Of Detectron's library: each pixel becomes ``scale`` by ``scale`` pixels."""
    x, scale = op.input(0), op.args.integer("scale", default=2)
    require_rank(op, x, 4, "the image")
    if scale < 1:
        op.unsupported(f"scale must be positive, not {scale}", code="invalid-argument")
    return x if scale == 1 else resize_nearest_by(op, x, op.const([1, 1, scale, scale], np.float32), (2, 3))


@family.converts("ResizeNearest3D", expects={0: TensorInfo(ir.DataType.FLOAT, (None,) * 5)})
def resize_nearest_3d(op: Op) -> Value:
    """ResizeNearest3D(X; temporal_scale=1.0, height_scale=1.0, width_scale=1.0, order="NCHW") -> Y."""
    require_nchw(op)
    return _resize_nearest(op, ("temporal_scale", "height_scale", "width_scale"))


@family.converts("UpsampleBilinear", expects={0: _IMAGE, 1: TensorInfo(ir.DataType.FLOAT, (2,))})
def upsample_bilinear(op: Op) -> Value:
    """UpsampleBilinear(X[, scales]; width_scale=1.0, height_scale=1.0) -> Y.

    The corners of both images coincide (align_corners). Where a scaled size may have to be rounded down, Resize is
    given the sizes: from scales, runtimes would compute the corners of the unrounded size.
    """
    x = op.input(0)
    require_rank(op, x, 4, "the image")
    scales = _scales(op, ("height_scale", "width_scale"))
    how: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    known = op.known(scales)
    if known is not None and not (known % 1).any():
        by_scales: Value = op.emit("Resize", x, None, scales, **how)
        return by_scales
    scaled = cast(op, mul(op, cast(op, op.emit("Shape", x), ir.DataType.FLOAT), scales), ir.DataType.INT64)
    if known is not None and known.min() >= 1:
        to_sizes: Value = op.emit("Resize", x, None, None, scaled, **how)
        return to_sizes
    # No pixel may be left, which Resize does not take as a size unless there was none.
    least = op.emit("Min", op.emit("Shape", x), op.const([0, 0, 1, 1], np.int64))
    y = op.emit("Resize", x, None, None, op.emit("Max", scaled, least), **how)
    return op.emit("Slice", y, op.const([0] * 4, np.int64), scaled, shape=[*op.shape(x)[:2], None, None])


def _resize_nearest(op: Op, names: Sequence[str], *, last: bool = False) -> Value:
    """Emit a Resize that takes the pixel at ``floor(position / scale)``, with the scales of the dims ``names``."""
    x = op.input(0)
    require_rank(op, x, len(names) + 2, "the image")
    first = 1 if last else 2
    return resize_nearest_by(op, x, _scales(op, names, last=last), range(first, first + len(names)))


def _scales(op: Op, names: Sequence[str], *, last: bool = False) -> Value:
    """Return the scale of each dim of the image, batch and channels included."""
    scales = [op.args.number(name, default=1.0) for name in names]
    if not all(0 < scale < np.inf for scale in scales):
        op.unsupported(f"{', '.join(names)} must be positive and finite, not {scales}", code="invalid-argument")
    before, after = ([1.0], [1.0]) if last else ([1.0, 1.0], [])
    if not op.has_input(1):
        return op.const([*before, *scales, *after], np.float32)
    given = op.input(1)
    require_rank(op, given, 1, "the scales")
    require_equal(op, op.static_dim(given, 0), len(names), "the numbers of scales and of the image's dims")
    known = known_values(op, given)
    if known is not None and known.min() > 0:
        return op.const([*before, *known, *after], np.float32)
    # A scale of 0 leaves no pixel, as the smallest number does, which Resize takes.
    given = op.emit("Max", given, op.const(_SMALLEST, np.float32))
    parts = [op.const(before, np.float32), given, *([op.const(after, np.float32)] if after else [])]
    return op.emit("Concat", *parts, axis=0, shape=[len(names) + 2])


@family.converts("PadImage", expects={0: _IMAGE})
def pad_image(op: Op) -> Value:
    """PadImage(X; mode="constant", value=0.0, pad=0, order="NCHW") -> Y.

    Pads are also spelled pad_t, pad_l, pad_b, pad_r or pads. The modes are constant, reflect and edge. The other
    arguments of a convolution's window have no effect, or must have their defaults.
    """
    op.args.ignore("kernel", "kernel_h", "kernel_w", "kernels", "group", "shared_buffer", "global_pooling")
    x = op.input(0)
    require_rank(op, x, 4, "the image")
    mode = op.args.text("mode", default="constant")
    value = op.args.number("value", default=0.0)
    last = channels_last(op)
    pads = window_argument(op.args, "pad", 4) or [0] * 4
    stride = window_argument(op.args, "stride", 2)
    dilation = window_argument(op.args, "dilation", 2)
    if mode not in ("constant", "reflect", "edge"):
        op.unsupported(f"mode must be constant, reflect or edge, not {mode!r}", code="invalid-argument")
    if len(pads) != 4 or {*stride, *dilation} - {1} or op.args.integer("legacy_pad", default=0):
        op.unsupported(
            "PadImage takes four pads, and no stride, dilation or legacy_pad other than the defaults",
            code="invalid-argument",
        )
    check_pads(op, pads)
    top, left, bottom, right = pads
    first = 1 if last else 2
    pads_of_axis = [(0, 0)] * 4
    for axis, both in ((first, (top, bottom)), (first + 1, (left, right))):
        dim = op.static_dim(x, axis)
        if mode == "reflect" and dim is not None and max(both) >= dim:
            x = _reflected(op, x, axis, dim, both)
        else:
            pads_of_axis[axis] = both
    fill = op.const(value, x) if mode == "constant" and value else None
    if min(pads) >= 0:
        return op.emit("Pad", x, _ends(op, pads_of_axis), fill, mode=None if mode == "constant" else mode)
    # ONNX crops before it pads, and would repeat or reflect pixels of the cropped image.
    added, cropped = ([(limit(head, 0), limit(tail, 0)) for head, tail in pads_of_axis] for limit in (max, min))
    if any(map(any, added)):
        x = op.emit("Pad", x, _ends(op, added), fill, mode=None if mode == "constant" else mode)
    return op.emit("Pad", x, _ends(op, cropped))


def _ends(op: Op, pads: Sequence[tuple[int, int]]) -> Value:
    """Return the pads before and after each axis as ONNX's Pad takes them: all heads, then all tails."""
    return op.const([both[end] for end in (0, 1) for both in pads], np.int64)


def _reflected(op: Op, x: Value, axis: int, dim: int, pads: tuple[int, int]) -> Value:
    """Pad ``axis`` of ``x`` by reflection, where the pads are as large as the dim or larger.

    ONNX leaves this undefined.
    """
    return op.emit("Gather", x, op.const(reflected_pixels(op, dim, pads), np.int64), axis=axis)


@family.converts("SpaceToBatch", expects={0: _IMAGE})
def space_to_batch(op: Op) -> Value:
    """SpaceToBatch(X; block_size=2, pad=0, pad_t=pad, order="NCHW") -> Y.

    [N, C, H, W] becomes [block * block * N, C, H / block, W / block]: the batch index of a pixel is its row in the
    block, then its column, then the image. In ONNX's SpaceToDepth these become channels.
    """
    x, block, pads = _blocks(op)
    padded = op.emit("Pad", x, op.const([0, 0, *pads[:2], 0, 0, *pads[2:]], np.int64)) if any(pads) else x
    n, c, *image = sizes(op, padded)
    for dim in image:
        if isinstance(dim, int) and dim % block:
            op.unsupported(
                f"the padded height and width must be multiples of block_size ({block}), not {dim}",
                code="invalid-operands",
            )
    h, w = (quotient(op, dim, block) for dim in image)
    batch = product(op, [n, block * block])
    y = op.emit("Transpose", reshape(op, padded, [n, c, h, block, w, block]), perm=[3, 5, 0, 1, 2, 4])
    return reshape(op, y, [batch, c, h, w])


@family.converts("BatchToSpace", expects={0: _IMAGE})
def batch_to_space(op: Op) -> Value:
    """BatchToSpace(X; block_size=2, pad=0, pad_t=pad, order="NCHW") -> Y.

    The inverse of SpaceToBatch: the pads are cropped.
    """
    x, block, pads = _blocks(op)
    batch, c, h, w = sizes(op, x)
    if (isinstance(batch, int) and batch % (block * block)) or min(pads) < 0:
        op.unsupported(
            f"the batch size ({batch}) must be a multiple of block_size squared ({block * block}), and pads must not "
            f"be negative ({pads})",
            code="invalid-operands",
        )
    n = quotient(op, batch, block * block)
    height, width = (product(op, [dim, block]) for dim in (h, w))
    y = op.emit("Transpose", reshape(op, x, [block, block, n, c, h, w]), perm=[2, 3, 4, 0, 5, 1])
    y = reshape(op, y, [n, c, height, width])
    for axis, head, tail in ((2, pads[0], pads[2]), (3, pads[1], pads[3])):
        if head or tail:
            y = slice_axis(op, y, axis, head, -tail if tail else np.iinfo(np.int64).max)
    return y


def _blocks(op: Op) -> tuple[Value, int, list[int]]:
    """Return the image, the block size, and the pads (top, left, bottom, right).

    Caffe2 reads ``pad`` for all sides and ``pad_t`` for the top; it ignores pad_l, pad_b and pad_r.
    """
    op.args.ignore("pad_l", "pad_b", "pad_r")
    x = op.input(0)
    require_rank(op, x, 4, "the image")
    pad = op.args.integer("pad", default=0)
    top = op.args.integer("pad_t", default=pad)
    block = op.args.integer("block_size", default=2)
    if channels_last(op) or block < 1:
        op.unsupported("block_size must be positive and order must be NCHW", code="invalid-argument")
    pads = [top, pad, pad, pad]
    check_pads(op, pads)
    return x, block, pads


@family.converts("ChannelShuffle")
def channel_shuffle(op: Op) -> Value:
    """ChannelShuffle(X; group=1, order="NCHW") -> Y.

    The first channels of all groups, then their second ones, and so on.
    """
    op.args.ignore("kernel")
    x = op.input(0)
    group = op.args.integer("group", default=1)
    axis = op.rank(x) - 1 if channels_last(op) else 1
    channels = size(op, x, axis)
    require_groups(op, op.static_dim(x, axis), group, "channels")
    if group == 1:
        return x
    return swap_factors(op, x, axis, group, quotient(op, channels, group))


@family.converts("NCHW2NHWC", "NHWC2NCHW")
@takes(REALS, 0)
def switch_order(op: Op) -> Value:
    """NCHW2NHWC | NHWC2NCHW(X) -> Y."""
    x = op.input(0)
    require_min_rank(op, x, 3, "the image")
    return move_last(op, x) if op.type == "NCHW2NHWC" else move_first(op, x)


@family.converts("IntegralImage", expects={0: _IMAGE})
def integral_image(op: Op) -> Value:
    """IntegralImage(X) -> Y.

    [N, C, H + 1, W + 1]: the sums of all pixels above and to the left, which are 0 in the first row and column.
    """
    x = op.input(0)
    require_rank(op, x, 4, "the image")
    y = op.emit("Pad", x, op.const([0, 0, 1, 1, 0, 0, 0, 0], np.int64))
    for axis in (2, 3):
        y = op.emit("CumSum", y, op.const(axis, np.int64))
    return y


@family.converts("Scale")
def scale(op: Op) -> Value:
    """Scale(X; scale=1.0) -> Y."""
    x = op.input(0)
    require_dtype(op, x, FLOATS, "the input")
    return mul(op, x, op.args.number("scale", default=1.0))


_STATISTICS: Final = TensorInfo(ir.DataType.FLOAT, (None, None))


@family.converts("NormalizePlanarYUV", expects={0: _IMAGE, 1: _STATISTICS, 2: _STATISTICS})
def normalize_planar_yuv(op: Op) -> Value:
    """NormalizePlanarYUV(X, mean, deviation) -> Y.

    Mean and deviation are matrices, of which the first row counts: one element per channel.
    """
    x = op.input(0)
    require_rank(op, x, 4, "the image")
    mean, deviation = (
        unsqueeze(op, op.emit("Gather", op.input(i), op.const(0, np.int64), axis=0), [1, 2]) for i in (1, 2)
    )
    return op.emit("Div", op.emit("Sub", x, mean), deviation)


_PACKED: Final = TensorInfo(ir.DataType.UINT8, (None, None, None, 4))
_MEANS: Final = TensorInfo(ir.DataType.FLOAT, (3,))


@family.converts("PackedInt8BGRANHWCToNCHWCStylizerPreprocess", expects={0: _PACKED, 1: _MEANS})
def unpack_pixels(op: Op) -> Value:
    """PackedInt8BGRANHWCToNCHWCStylizerPreprocess(X, mean; noise_std=10.0, noise_size) -> Y.

    Bytes [1, H, W, 4] become [1, 3, H, W], less the mean, plus noise that differs from Caffe2's: the random generators
    do.
    """
    op.args.ignore("noise_size")
    deviation = abs(op.args.number("noise_std", default=10.0))
    if np.isnan(deviation):
        op.unsupported("noise_std must be a number, not a NaN", code="invalid-argument")
    bgr = op.emit("Cast", slice_axis(op, op.input(0), 3, 0, 3), to=int(ir.DataType.FLOAT))
    y = op.emit("Sub", move_first(op, bgr), unsqueeze(op, op.input(1), [1, 2]))
    return op.emit("Add", y, op.emit("RandomNormalLike", y, scale=deviation)) if deviation else y


@family.converts("BRGNCHWCToPackedInt8BGRAStylizerDeprocess", expects={0: _IMAGE, 1: _MEANS})
def pack_pixels(op: Op) -> Value:
    """BRGNCHWCToPackedInt8BGRAStylizerDeprocess(X, mean) -> Y.

    Images [N, 3, H, W] plus the mean, as bytes [N, H, W, 4]. The fourth, alpha, is 255.
    """
    x = add(op, op.input(0), unsqueeze(op, op.input(1), [1, 2]))
    x = op.emit("Clip", x, op.const(0.0, x), op.const(255.0, x))
    pads = op.const([0, 0, 0, 0, 0, 1, 0, 0], np.int64)
    return op.emit("Cast", move_last(op, op.emit("Pad", x, pads, op.const(255.0, x))), to=int(ir.DataType.UINT8))
