"""Convolutions: ordinary, transposed and locally connected; and the conversion of images to columns."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from caffe2_bridge.netdef.window import window_argument
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.layout import channels_last, move_first, move_last
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value
from caffe2_torch.evaluation.window import Window, actual_pads, check_fits, padded, read_window

family = Family("convolution")

_CONVOLVED = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


@family.converts("Conv", "Conv1D", "Conv2D", "Conv3D", "ConvRelu")
def convolution(op: Op) -> Value:
    op.args.ignore("force_algo_fwd", "force_algo_dgrad", "force_algo_wgrad", "freeze_bias")
    x, w = op.tensor(0), op.tensor(1)
    group = op.args.integer("group", default=1)
    window = read_window(op, x.dim())
    x, w = (move_first(v, when=window.channels_last) for v in (x, w))
    dims = x.dim() - 2
    if dims not in _CONVOLVED or tuple(w.shape[2:]) != window.kernel:
        op.refuse(f"the weight {tuple(w.shape)} does not fit the kernel {window.kernel}")
    image = padded(x, actual_pads(op, window, tuple(x.shape[2:])))
    check_fits(op, image, window)
    y = _CONVOLVED[dims](image, w, op.optional(2), window.stride, 0, window.dilation, group)
    return move_last(y.relu() if op.type == "ConvRelu" else y, when=window.channels_last)


@family.converts("ConvTranspose")
def transposed_convolution(op: Op) -> Value:
    """Crop the result by the pads, and add ``adj`` to its end."""
    op.args.ignore("no_gradient_to_input")
    x, w = op.tensor(0), op.tensor(1)
    group, adj = op.args.integer("group", default=1), window_argument(op.args, "adj", 2) or [0, 0]
    window = read_window(op, 4, dilated=False)
    x, w = (move_first(v, when=window.channels_last) for v in (x, w))
    if window.legacy == 3 or min(*window.head, *window.tail) < 0 or x.dim() != 4:
        op.refuse("pads must not be negative, legacy_pad must not be 3, and the image must have rank 4")
    if tuple(w.shape[2:]) != window.kernel or any(not 0 <= a < s for a, s in zip(adj, window.stride, strict=True)):
        op.refuse(f"the weight {tuple(w.shape)} does not fit the kernel {window.kernel}, or adj {adj} the stride")
    y = functional.conv_transpose2d(x, w, op.optional(2), window.stride, 0, tuple(adj), group)
    return move_last(
        padded(y, [(-a, -b) for a, b in zip(window.head, window.tail, strict=True)]), when=window.channels_last
    )


@family.converts("LC", "LC1D", "LC2D", "LC3D")
def locally_connected(op: Op) -> Value:
    """Convolve with other weights at each position: W is [*out, M, C, *kernel], b is [*out, M]."""
    x, w, bias = op.tensor(0), op.tensor(1), op.optional(2)
    op.args.ignore("group")
    if op.args.integer("group", default=1) != 1:
        op.refuse("group must be 1")
    window, dims = read_window(op, x.dim()), x.dim() - 2
    if window.channels_last:
        x, w = move_first(x), w.movedim(-1, dims + 1)
    columns = _columns(op, window, padded(x, actual_pads(op, window, tuple(x.shape[2:]))))
    if columns.shape[-dims:] != w.shape[:dims] or columns.shape[1] != w.shape[dims + 1]:
        op.refuse("there must be one weight for each output position")
    letters = "xyz"[:dims]
    y = torch.einsum(
        f"nck{letters},{letters}mck->nm{letters}", columns, w.reshape(*w.shape[: dims + 2], math.prod(window.kernel))
    )
    y = y if bias is None else y + bias.movedim(-1, 0)
    return move_last(y, when=window.channels_last)


def _columns(op: Op, window: Window, x: torch.Tensor) -> torch.Tensor:
    """Return the pixels under the window at each position: [N, C, kernel, *out]."""
    check_fits(op, x, window)
    dims = x.dim() - 2
    for axis, (k, s, d) in enumerate(zip(window.kernel, window.stride, window.dilation, strict=True), 2):
        reach = d * (k - 1) + 1
        x = x.unfold(axis, reach, s)[..., ::d]
    return x.movedim(list(range(2 + dims, 2 + 2 * dims)), list(range(2, 2 + dims))).flatten(2, 1 + dims)


def _square_window(op: Op) -> Window:
    """Return the window of Im2Col and Col2Im: one pad for all sides, other sizes shared or per dim."""
    pairs = []
    for name in ("kernel", "dilation", "stride"):
        both = op.args.integer(name, default=0 if name == "kernel" else 1)
        pairs.append(tuple(op.args.integer(f"{name}_{side}", default=both) for side in "hw"))
    pad = op.args.integer("pad", default=0)
    kernel, dilation, stride = pairs
    if min(map(min, pairs)) < 1 or pad < 0:
        op.refuse("kernel, dilation and stride must be positive, and pad must not be negative")
    return Window(kernel, stride, dilation, (pad, pad), (pad, pad), 0, channels_last(op))


@family.converts("Im2Col")
def image_to_columns(op: Op) -> Value:
    window = _square_window(op)
    x = move_first(op.tensor(0), when=window.channels_last)
    columns = _columns(op, window, padded(x, list(zip(window.head, window.tail, strict=True))))
    if not window.channels_last:
        return columns.flatten(1, 2)
    return columns.permute(0, 3, 4, 2, 1).flatten(3, 4)


@family.converts("Col2Im")
def columns_to_image(op: Op) -> Value:
    columns, like, window = op.tensor(0), op.tensor(1), _square_window(op)
    area = math.prod(window.kernel)
    if window.channels_last:
        n, h, w, depth = columns.shape
        columns = columns.reshape(n, h, w, area, depth // area).permute(0, 4, 3, 1, 2).flatten(1, 2)
    size = tuple(like.shape[1:3] if window.channels_last else like.shape[2:])
    y = functional.fold(columns.flatten(2), size, window.kernel, window.dilation, window.head[0], window.stride)
    return move_last(y, when=window.channels_last)
