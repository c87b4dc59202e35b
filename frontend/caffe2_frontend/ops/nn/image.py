"""Images: resizing, padding, blocks of pixels to batches, channel order, storage order, conversion of colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, mul, of_shape
from caffe2_frontend.emit.layout import channels_last, move_first, move_last
from caffe2_frontend.emit.operand_checks import FLOATS, require_dtype, require_rank, require_rank_from
from caffe2_frontend.emit.shapes import Size, cast, product, quotient, reshape, size, sizes, slice_axis, unsqueeze
from caffe2_frontend.emit.window import spelled
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("image")

_IMAGE: Final = TensorInfo(ir.DataType.FLOAT, (None,) * 4)


@family.converts("ResizeNearest", expects={0: _IMAGE, 1: TensorInfo(ir.DataType.FLOAT, (2,))})
def resize_nearest(op: Op) -> Value:
    """The scales of height and width are arguments, or a second operand that has both."""
    return _resize_nearest(op, ("height_scale", "width_scale"), last=channels_last(op))


@family.converts("ResizeNearest3D", expects={0: TensorInfo(ir.DataType.FLOAT, (None,) * 5)})
def resize_nearest_3d(op: Op) -> Value:
    if channels_last(op):
        op.unsupported("only the order NCHW is defined", code="invalid-argument")
    return _resize_nearest(op, ("temporal_scale", "height_scale", "width_scale"))


@family.converts("UpsampleBilinear", expects={0: _IMAGE, 1: TensorInfo(ir.DataType.FLOAT, (2,))})
def upsample_bilinear(op: Op) -> Value:
    """The corners stay where they are. The scales are arguments, or a second operand that has both.

    Where a scaled size may have to be rounded down, the size is given: scales alone leave open where the corners are.
    """
    x = op.input(0)
    require_rank(op, x, 4, "the image")
    scales = _scales(op, ("height_scale", "width_scale"))
    known = op.known(scales)
    by: tuple[Value | None, Value | None] = (scales, None)
    if known is None or (known % 1).any():
        scaled = mul(op, cast(op, op.emit("Shape", x), ir.DataType.FLOAT), scales)
        by = (None, cast(op, scaled, ir.DataType.INT64))
    return op.emit("Resize", x, None, *by, mode="linear", coordinate_transformation_mode="align_corners")


def _resize_nearest(op: Op, names: Sequence[str], *, last: bool = False) -> Value:
    x = op.input(0)
    require_rank(op, x, len(names) + 2, "the image")
    return op.emit(
        "Resize",
        x,
        None,
        _scales(op, names, last=last),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def _scales(op: Op, names: Sequence[str], *, last: bool = False) -> Value:
    """The scale of each dim of the image."""
    numbers = [op.args.number(name, default=1.0) for name in names]
    if min(numbers) <= 0:
        op.unsupported("scales must be positive", code="invalid-argument")
    before, after = ([1.0], [1.0]) if last else ([1.0, 1.0], [])
    if not op.has_input(1):
        return op.const([*before, *numbers, *after], np.float32)
    parts = [op.const(before, np.float32), op.input(1), *([op.const(after, np.float32)] if after else [])]
    return op.emit("Concat", *parts, axis=0, shape=[len(names) + 2])


@family.converts("PadImage", expects={0: _IMAGE})
def pad_image(op: Op) -> Value:
    op.args.ignore("kernel", "kernel_h", "kernel_w", "kernels", "group", "shared_buffer", "global_pooling")
    x = op.input(0)
    require_rank(op, x, 4, "the image")
    mode = op.args.text("mode", default="constant")
    value = op.args.number("value", default=0.0)
    last = channels_last(op)
    pads = spelled(op, "pads", "pad", ("pad_t", "pad_l", "pad_b", "pad_r"), 4) or [0] * 4
    stride = spelled(op, "strides", "stride", ("stride_h", "stride_w"), 2)
    dilation = spelled(op, "dilations", "dilation", ("dilation_h", "dilation_w"), 2)
    if mode not in ("constant", "reflect", "edge"):
        op.unsupported(f"mode {mode!r} is neither constant, reflect nor edge", code="invalid-argument")
    if len(pads) != 4 or {*stride, *dilation} - {1} or op.args.integer("legacy_pad", default=0):
        op.unsupported("four pads are expected, and neither stride, dilation nor legacy_pad", code="invalid-argument")
    top, left, bottom, right = pads
    first = 1 if last else 2
    around = [(0, 0)] * 4
    for axis, both in ((first, (top, bottom)), (first + 1, (left, right))):
        dim = op.static_dim(x, axis)
        if mode == "reflect" and dim is not None and max(both) >= dim:
            x = _bounced(op, x, axis, dim, both)
        else:
            around[axis] = both
    ends = op.const([both[end] for end in (0, 1) for both in around], np.int64)
    fill = op.const(value, x) if mode == "constant" and value else None
    return op.emit("Pad", x, ends, fill, mode=None if mode == "constant" else mode)


def _bounced(op: Op, x: Value, axis: int, dim: int, pads: tuple[int, int]) -> Value:
    """Reflection by pads that are as large as the dim or larger, which ONNX does not define."""
    places = np.abs(np.arange(-pads[0], dim + pads[1]))
    places = np.minimum(places, 2 * dim - 2 - places)
    if places.min(initial=0) < 0:
        op.unsupported(f"pads {pads} reach beyond the reflection of {dim} pixels", code="invalid-operands")
    return op.emit("Gather", x, op.const(places, np.int64), axis=axis)


@family.converts("SpaceToBatch", expects={0: _IMAGE})
def space_to_batch(op: Op) -> Value:
    """Each of the pixels of a block goes to another batch: first by row, then by column, then by image."""
    x, block, pads = _blocks(op)
    padded = op.emit("Pad", x, op.const([0, 0, *pads[:2], 0, 0, *pads[2:]], np.int64)) if any(pads) else x
    n, c, *image = sizes(op, padded)
    for dim in image:
        if isinstance(dim, int) and dim % block:
            op.unsupported(f"{dim} pixels do not divide into blocks of {block}", code="invalid-operands")
    h, w = (quotient(op, dim, block) for dim in image)
    y = op.emit("Transpose", reshape(op, padded, [n, c, h, block, w, block]), perm=[3, 5, 0, 1, 2, 4])
    return reshape(op, y, [product(op, [n, block * block]), c, h, w])


@family.converts("BatchToSpace", expects={0: _IMAGE})
def batch_to_space(op: Op) -> Value:
    """The inverse of SpaceToBatch: pads are cut off."""
    x, block, pads = _blocks(op)
    batch, c, h, w = sizes(op, x)
    if (isinstance(batch, int) and batch % (block * block)) or min(pads) < 0:
        op.unsupported(f"batch {batch} of blocks of {block}, pads {pads}: nothing is defined", code="invalid-operands")
    n = quotient(op, batch, block * block)
    y = op.emit("Transpose", reshape(op, x, [block, block, n, c, h, w]), perm=[2, 3, 4, 0, 5, 1])
    y = reshape(op, y, [n, c, product(op, [h, block]), product(op, [w, block])])
    for axis, head, tail in ((2, pads[0], pads[2]), (3, pads[1], pads[3])):
        if head or tail:
            y = slice_axis(op, y, axis, head, -tail if tail else np.iinfo(np.int64).max)
    return y


def _blocks(op: Op) -> tuple[Value, int, list[int]]:
    """The image, the size of a block, and the pads: top, left, bottom, right. Only the top may differ."""
    op.args.ignore("pad_l", "pad_b", "pad_r")
    x = op.input(0)
    require_rank(op, x, 4, "the image")
    pad = op.args.integer("pad", default=0)
    top = op.args.integer("pad_t", default=pad)
    block = op.args.integer("block_size", default=2)
    if channels_last(op) or block < 1:
        op.unsupported("blocks must be positive and the order NCHW", code="invalid-argument")
    return x, block, [top, pad, pad, pad]


@family.converts("ChannelShuffle")
def channel_shuffle(op: Op) -> Value:
    """The first channels of all groups, then the second ones, and so on."""
    op.args.ignore("kernel")
    x = op.input(0)
    group = op.args.integer("group", default=1)
    axis = op.rank(x) - 1 if channels_last(op) else 1
    channels = size(op, x, axis)
    if group < 1 or (isinstance(channels, int) and channels % group):
        op.unsupported(f"{channels} channels do not divide into {group} groups", code="invalid-operands")
    if group == 1:
        return x
    dims: list[Size] = sizes(op, x)
    groups = reshape(op, x, [*dims[:axis], group, quotient(op, channels, group), *dims[axis + 1 :]])
    perm = [*range(axis), axis + 1, axis, *range(axis + 2, len(dims) + 1)]
    return of_shape(op, op.emit("Transpose", groups, perm=perm), x)


@family.converts("NCHW2NHWC", "NHWC2NCHW")
def switch_order(op: Op) -> Value:
    x = op.input(0)
    require_rank_from(op, x, 3, "the image")
    return move_last(op, x) if op.type == "NCHW2NHWC" else move_first(op, x)


@family.converts("IntegralImage", expects={0: _IMAGE})
def integral_image(op: Op) -> Value:
    """The sum of all pixels above and to the left, with a row and a column of zeros before the first ones."""
    x = op.input(0)
    require_rank(op, x, 4, "the image")
    y = op.emit("Pad", x, op.const([0, 0, 1, 1, 0, 0, 0, 0], np.int64))
    for axis in (2, 3):
        y = op.emit("CumSum", y, op.const(axis, np.int64))
    return y


@family.converts("Scale")
def scale(op: Op) -> Value:
    x = op.input(0)
    require_dtype(op, x, FLOATS, "the input")
    return mul(op, x, op.args.number("scale", default=1.0))


_STATISTICS: Final = TensorInfo(ir.DataType.FLOAT, (None, None))


@family.converts("NormalizePlanarYUV", expects={0: _IMAGE, 1: _STATISTICS, 2: _STATISTICS})
def normalize_planar_yuv(op: Op) -> Value:
    """Means and deviations are matrices whose first row counts, one value a channel."""
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
    """Bytes [1, H, W, 4] as [1, 3, H, W], less the mean, plus noise: other numbers than Caffe2's."""
    op.args.ignore("noise_size")
    deviation = op.args.number("noise_std", default=10.0)
    colours = op.emit("Cast", slice_axis(op, op.input(0), 3, 0, 3), to=int(ir.DataType.FLOAT))
    y = op.emit("Sub", move_first(op, colours), unsqueeze(op, op.input(1), [1, 2]))
    return op.emit("Add", y, op.emit("RandomNormalLike", y, scale=deviation)) if deviation else y


@family.converts("BRGNCHWCToPackedInt8BGRAStylizerDeprocess", expects={0: _IMAGE, 1: _MEANS})
def pack_pixels(op: Op) -> Value:
    """Images [N, 3, H, W] plus the mean as bytes [N, H, W, 4]; the fourth is 255."""
    x = add(op, op.input(0), unsqueeze(op, op.input(1), [1, 2]))
    x = op.emit("Clip", x, op.const(0.0, x), op.const(255.0, x))
    pads = op.const([0, 0, 0, 0, 0, 1, 0, 0], np.int64)
    return op.emit("Cast", move_last(op, op.emit("Pad", x, pads, op.const(255.0, x))), to=int(ir.DataType.UINT8))
