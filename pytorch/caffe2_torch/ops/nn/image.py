"""Images: resizing, padding, blocks and batches, channel and storage order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional

from caffe2_bridge.netdef.window import window_argument
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.layout import channels_last, move_first, move_last
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value
from caffe2_torch.evaluation.window import padded

family = Family("image")


def _scales(op: Op, names: Sequence[str]) -> list[float]:
    scales = [op.args.number(name, default=1.0) for name in names]
    return op.tensor(1).tolist() if op.has(1) else scales


def _scaled(size: int, scale: float) -> int:
    """Return a size times a scale, as Caffe2 computes it: in float32, rounded down."""
    return int(np.float32(size) * np.float32(scale))


def resize_nearest_by(op: Op, names: Sequence[str], x: torch.Tensor) -> torch.Tensor:
    """Take the pixel at ``floor(position / scale)``."""
    for axis, scale in enumerate(_scales(op, names), 2):
        size = x.shape[axis]
        target = np.arange(_scaled(size, scale), dtype=np.float32)
        index = np.minimum((target / np.float32(scale)).astype(np.int64), size - 1)
        x = x.index_select(axis, torch.from_numpy(index).to(x.device))
    return x


@family.converts("ResizeNearest")
def resize_nearest(op: Op) -> Value:
    last = channels_last(op)
    x = move_first(op.tensor(0), when=last)
    return move_last(resize_nearest_by(op, ("height_scale", "width_scale"), x), when=last)


@family.converts("ResizeNearest3D")
def resize_nearest_3d(op: Op) -> Value:
    op.args.ignore("order")
    return resize_nearest_by(op, ("temporal_scale", "height_scale", "width_scale"), op.tensor(0))


@family.converts("UpsampleBilinear")
def upsample_bilinear(op: Op) -> Value:
    x = op.tensor(0)
    sizes = [
        _scaled(size, s) for size, s in zip(x.shape[2:], _scales(op, ("height_scale", "width_scale")), strict=True)
    ]
    if min(sizes) < 1:
        return x.new_zeros((*x.shape[:2], *sizes))
    return functional.interpolate(x, sizes, mode="bilinear", align_corners=True)


@family.converts("PadImage")
def pad_image(op: Op) -> Value:
    op.args.ignore("kernel", "kernel_h", "kernel_w", "kernels", "group", "shared_buffer", "global_pooling")
    x, last = op.tensor(0), channels_last(op)
    mode, value = op.args.text("mode", default="constant"), op.args.number("value", default=0.0)
    top, left, bottom, right = window_argument(op.args, "pad", 4) or [0] * 4
    stride, dilation = window_argument(op.args, "stride", 2), window_argument(op.args, "dilation", 2)
    if {*stride, *dilation} - {1} or op.args.integer("legacy_pad", default=0) or x.dim() != 4:
        op.refuse("PadImage takes four pads and an image of rank 4, and no stride, dilation or legacy_pad")
    x = move_first(x, when=last)
    if mode == "constant":
        return move_last(padded(x, [(top, bottom), (left, right)], value), when=last)
    if mode not in ("reflect", "edge"):
        op.refuse(f"mode must be constant, reflect or edge, not {mode!r}")
    for axis, (head, tail) in ((2, (top, bottom)), (3, (left, right))):
        size = x.shape[axis]
        index = np.arange(-head, size + tail)
        if mode == "reflect":
            # As in Caffe2: once at the head, then once at the tail.
            index = np.maximum(index, -index)
            index = np.minimum(index, 2 * size - index - 2)
        else:
            index = index.clip(0, size - 1)
        if index.size and (index.min() < 0 or index.max() >= size):
            op.refuse("pads of a reflection must be less than the image's size")
        x = x.index_select(axis, torch.from_numpy(index).to(x.device))
    return move_last(x, when=last)


def _blocks(op: Op) -> tuple[torch.Tensor, int, list[tuple[int, int]]]:
    """Return the image, the block size, and the pads: Caffe2 reads ``pad`` for all sides and ``pad_t`` for the top."""
    op.args.ignore("pad_l", "pad_b", "pad_r")
    pad = op.args.integer("pad", default=0)
    top, block = op.args.integer("pad_t", default=pad), op.args.integer("block_size", default=2)
    if channels_last(op) or block < 1 or op.tensor(0).dim() != 4:
        op.refuse("block_size must be positive, order NCHW, and the image of rank 4")
    return op.tensor(0), block, [(top, pad), (pad, pad)]


@family.converts("SpaceToBatch")
def space_to_batch(op: Op) -> Value:
    x, block, pads = _blocks(op)
    x = padded(x, pads)
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // block, block, w // block, block).permute(3, 5, 0, 1, 2, 4)
    return y.reshape(n * block * block, c, h // block, w // block)


@family.converts("BatchToSpace")
def batch_to_space(op: Op) -> Value:
    x, block, pads = _blocks(op)
    batch, c, h, w = x.shape
    n = batch // (block * block)
    y = x.reshape(block, block, n, c, h, w).permute(2, 3, 4, 0, 5, 1).reshape(n, c, h * block, w * block)
    return padded(y, [(-head, -tail) for head, tail in pads])


@family.converts("ChannelShuffle")
def channel_shuffle(op: Op) -> Value:
    op.args.ignore("kernel")
    x, group, last = op.tensor(0), op.args.integer("group", default=1), channels_last(op)
    x = move_first(x, when=last)
    y = x.reshape(x.shape[0], group, x.shape[1] // group, *x.shape[2:]).transpose(1, 2).reshape(x.shape)
    return move_last(y, when=last)


@family.converts("NCHW2NHWC", "NHWC2NCHW")
def switch_order(op: Op) -> Value:
    return move_last(op.tensor(0)) if op.type == "NCHW2NHWC" else move_first(op.tensor(0))


@family.converts("IntegralImage")
def integral_image(op: Op) -> Value:
    return functional.pad(op.tensor(0), (1, 0, 1, 0)).cumsum(2).cumsum(3)


@family.converts("Scale")
def scale(op: Op) -> Value:
    return op.tensor(0) * op.args.number("scale", default=1.0)


@family.converts("NormalizePlanarYUV")
def normalize_planar_yuv(op: Op) -> Value:
    x, mean, deviation = op.tensors
    return (x - mean[0].reshape(-1, 1, 1)) / deviation[0].reshape(-1, 1, 1)


@family.converts("BRGNCHWCToPackedInt8BGRAStylizerDeprocess")
def pack_pixels(op: Op) -> Value:
    x = (op.tensor(0) + op.tensor(1).reshape(-1, 1, 1)).clamp(0, 255)
    return functional.pad(x, (0, 0, 0, 0, 0, 1), value=255.0).movedim(1, -1).to(torch.uint8)
