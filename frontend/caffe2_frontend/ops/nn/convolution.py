"""Convolutions: ordinary, transposed, deformable and locally connected; and the conversion of images to columns.

<window> in a signature stands for the arguments that emit.windows reads: kernel | kernel_h, kernel_w | kernels, and
likewise stride=1, dilation=1, pad=0 (pad_t, pad_l, pad_b, pad_r | pads) and legacy_pad=0.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.window import window_argument
from caffe2_frontend.emit.layout import channels_last, move_first, move_last
from caffe2_frontend.emit.operand_checks import require_equal, require_groups, require_rank
from caffe2_frontend.emit.shapes import product, reshape, size, sizes, slice_axis, vector
from caffe2_frontend.emit.windows.convolution_checks import check_kernel, check_local_weight, check_weight
from caffe2_frontend.emit.windows.convolution_gradients import window_columns
from caffe2_frontend.emit.windows.window import (
    LegacyPad,
    Window,
    caffe_pads,
    check_fits,
    crop_gaps,
    read_window,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("convolution")

_FLOATS = dict.fromkeys(range(4), TensorInfo(ir.DataType.FLOAT))


@family.converts("Conv", "Conv1D", "Conv2D", "Conv3D", "ConvRelu", expects=_FLOATS, uniform=True)
def convolution(op: Op) -> Value:
    """Conv | Conv1D | Conv2D | Conv3D | ConvRelu(X, W[, b]; <window>, group=1, order="NCHW") -> Y.

    The weight is [M, C / group, *kernel], or [M, *kernel, C / group] with order="NHWC".
    """
    op.args.ignore("force_algo_fwd", "force_algo_dgrad", "force_algo_wgrad", "freeze_bias")
    x, w = op.input(0), op.input(1)
    group = op.args.integer("group", default=1)
    window = read_window(op, op.rank(x), exact=True)
    x, w = (move_first(op, v, when=window.channels_last) for v in (x, w))
    check_weight(op, window, w, x, group, op.optional(2))
    _require_undilated_legacy(op, window)
    image, attributes = _padded(op, window, x)
    y = op.emit("Conv", image, w, op.optional(2), group=group if group != 1 else None, **attributes)
    if op.type == "ConvRelu":
        y = op.emit("Relu", y)
    return move_last(op, y, when=window.channels_last)


@family.converts("DeformConv", expects=_FLOATS)
def deformable_convolution(op: Op) -> Value:
    """DeformConv(X, offset, W[, b]; <window>, group=1, deformable_group=1, order="NCHW") -> Y.

    The offset stands before the weight; in ONNX after it.
    """
    x, offset, w = op.input(0), op.input(1), op.input(2)
    group = op.args.integer("group", default=1)
    offset_group = op.args.integer("deformable_group", default=1)
    window = read_window(op, op.rank(x), exact=True)
    if window.channels_last or window.legacy is not LegacyPad.NOTSET:
        op.unsupported(
            "order must be NCHW and legacy_pad must be 0",
            hint="convert X with NHWC2NCHW and set pads",
            code="invalid-argument",
        )
    check_weight(op, window, w, x, group, op.optional(3))
    attributes = window.attributes | {"group": group, "offset_group": offset_group}
    y: Value = op.emit("DeformConv", x, w, offset, op.optional(3), **attributes)
    return y


@family.converts("ConvTranspose", expects=_FLOATS)
def transposed_convolution(op: Op) -> Value:
    """ConvTranspose(X, W[, b]; <window>, adj=0, group=1, order="NCHW") -> Y.

    Pads crop the resulting image, and ``adj`` (adj_h, adj_w | adjs) adds to its end: ONNX's output_padding. Caffe2 adds
    no padding for legacy_pad VALID and SAME, so auto_pad is not set.
    """
    op.args.ignore("no_gradient_to_input")
    x, w = op.input(0), op.input(1)
    group = op.args.integer("group", default=1)
    adj = window_argument(op.args, "adj", 2) or [0, 0]
    require_rank(op, x, 4, "the image")
    window = read_window(op, 4, dilated=False, exact=True)
    if len(adj) != 2 or any(not 0 <= a < s for a, s in zip(adj, window.stride, strict=False)):
        op.unsupported(
            f"adj must be at least 0 and less than the stride {list(window.stride)}, not {adj}",
            code="invalid-argument",
        )
    if window.legacy is LegacyPad.CAFFE_LEGACY_POOLING or min(*window.head, *window.tail) < 0:
        op.unsupported(
            "pads must not be negative, and legacy_pad must not be 3 (CAFFE_LEGACY_POOLING)", code="invalid-argument"
        )
    x, w = (move_first(op, v, when=window.channels_last) for v in (x, w))
    check_kernel(op, window, w)
    channels, filters, bias = op.static_dim(w, 0), op.static_dim(w, 1), op.optional(2)
    require_equal(op, op.static_dim(x, 1), channels, "channels of the image and of the weight")
    require_groups(op, channels, group, "channels")
    if bias is not None:
        require_rank(op, bias, 1, "the bias")
        require_equal(op, filters and filters * group, op.static_dim(bias, 0), "filters and biases")
    attributes = window.attributes | {"auto_pad": None, "output_padding": adj if any(adj) else None}
    y = op.emit("ConvTranspose", x, w, bias, group=group if group != 1 else None, **attributes)
    return move_last(op, y, when=window.channels_last)


@family.converts("LC", "LC1D", "LC2D", "LC3D", expects=_FLOATS)
def locally_connected(op: Op) -> Value:
    """LC | LC1D | LC2D | LC3D(X, W[, b]; <window>, group=1, order="NCHW") -> Y.

    A convolution with weights of its own at each output position: W is [*out, M, C, *kernel], b is [*out, M]. Computed
    as one matrix product per position, of its weight and the column of pixels that the window covers there.
    """
    x, w, bias = op.input(0), op.input(1), op.optional(2)
    rank = op.rank(x)
    window = read_window(op, rank, exact=True)
    dims = rank - 2
    check_local_weight(op, window, w, rank)
    if window.channels_last:
        x, w = move_first(op, x), op.emit("Transpose", w, perm=[0, 1, 2, 5, 3, 4])
    n, m = size(op, x, 0), size(op, w, dims)
    positions = sizes(op, w, 0, dims)
    depth = product(op, [size(op, w, dims + 1), *window.kernel])
    # With P output positions and K pixels under the window: [P, M, K] @ [P, K, N] -> [P, M, N].
    area = product(op, positions)
    columns = _columns(op, window, x)
    require_equal(op, op.static_dim(x, 1), op.static_dim(w, dims + 1), "channels of the image and of the weight")
    for dim in range(dims):
        require_equal(op, op.static_dim(columns, dim - dims), op.static_dim(w, dim), "output positions and weights")
    columns = reshape(op, columns, [depth, n, area])
    y = op.emit("MatMul", reshape(op, w, [area, m, depth]), op.emit("Transpose", columns, perm=[2, 0, 1]))
    y = op.emit("Transpose", reshape(op, y, [*positions, m, n]), perm=[dims + 1, *range(dims + 1)])
    y = y if bias is None else op.emit("Add", y, bias)
    return y if window.channels_last else move_first(op, y)


@family.converts("Im2Col", expects={0: TensorInfo(ir.DataType.FLOAT, (None,) * 4)})
def image_to_columns(op: Op) -> Value:
    """Im2Col(X; kernel, dilation=1, stride=1, pad=0, order="NCHW") -> columns.

    Sizes are also spelled per dim: kernel_h, kernel_w, and likewise dilation and stride. The columns are
    [N, C * kernel_h * kernel_w, ...] for NCHW, [N, ..., kernel_h * kernel_w * C] for NHWC: a convolution of each
    channel with one-hot kernels, each of which picks one pixel.
    """
    x = op.input(0)
    require_rank(op, x, 4, "the image")
    window = _square_window(op)
    x = move_first(op, x, when=window.channels_last)
    check_fits(op, replace(window, head=(0, 0), tail=(0, 0)), x)
    area, channels = math.prod(window.kernel), op.static_dim(x, 1)
    op.bounded(area, area, channels or 1)
    picks = np.eye(area).reshape(area, 1, *window.kernel)
    if channels and not window.channels_last:
        picks = np.tile(picks, (channels, 1, 1, 1))
        columns: Value = op.emit("Conv", x, op.const(picks, x), group=channels, **window.attributes)
        return columns
    planes = reshape(op, x, [-1, 1, *sizes(op, x, 2)])
    columns = op.emit("Conv", planes, op.const(picks, x), **window.attributes)
    n, c = sizes(op, x, 0, 2)
    out, depth = sizes(op, columns, 2), product(op, [c, area])
    if not window.channels_last:
        return reshape(op, columns, [n, depth, *out])
    columns = op.emit("Transpose", reshape(op, columns, [n, c, area, *out]), perm=[0, 3, 4, 2, 1])
    return reshape(op, columns, [n, *out, depth])


@family.converts(
    "Col2Im", expects={0: TensorInfo(ir.DataType.FLOAT, (None,) * 4), 1: TensorInfo(ir.DataType.FLOAT, (None,) * 4)}
)
def columns_to_image(op: Op) -> Value:
    """Col2Im(columns, X; kernel, dilation=1, stride=1, pad=0, order="NCHW") -> Y.

    The window is spelled as that of Im2Col. Of the second operand only the spatial sizes are used.
    """
    columns, like = op.input(0), op.input(1)
    for value, what in ((columns, "the columns"), (like, "the image")):
        require_rank(op, value, 4, what)
    window = _square_window(op)
    area = math.prod(window.kernel)
    if window.channels_last:
        columns = _channels_outside(op, columns, area)
    height = 1 if window.channels_last else 2
    n, depth = size(op, columns, 0), size(op, columns, 1)
    flat = reshape(op, columns, [n, depth, product(op, sizes(op, columns, 2))])
    y = op.emit(
        "Col2Im",
        flat,
        vector(op, sizes(op, like, height, height + 2)),
        op.const(window.kernel, np.int64),
        pads=[*window.head, *window.tail],
        strides=list(window.stride),
        dilations=list(window.dilation),
        shape=[op.shape(columns)[0], None, None, None],
    )
    return move_last(op, y, when=window.channels_last)


def _channels_outside(op: Op, columns: Value, area: int) -> Value:
    """Transpose columns [N, H, W, area * C] to [N, C * area, H, W]."""
    n, h, w = sizes(op, columns, 0, 3)
    split = op.emit("Transpose", reshape(op, columns, [n, h, w, area, -1]), perm=[0, 4, 3, 1, 2])
    return reshape(op, split, [n, product(op, [size(op, split, 1), area]), h, w])


def _square_window(op: Op) -> Window:
    """Read the window of Im2Col and Col2Im: one pad for all sides, other sizes shared or per dim."""
    names = ("kernel", "dilation", "stride")
    pairs = []
    for name in names:
        both = op.args.integer(name, default=0 if name == "kernel" else 1)
        pairs.append(tuple(op.args.integer(f"{name}_{side}", default=both) for side in "hw"))
    pad = op.args.integer("pad", default=0)
    if min(map(min, pairs)) < 1 or pad < 0:
        op.unsupported(
            "kernel, dilation and stride must be positive, and pad must not be negative", code="invalid-argument"
        )
    kernel, dilation, stride = pairs
    return Window(kernel, stride, dilation, (pad, pad), (pad, pad), LegacyPad.NOTSET, channels_last(op))


def _columns(op: Op, window: Window, x: Value) -> Value:
    """Check that the window fits into ``x`` [N, C, ...]; return the pixels under it, [C, *kernel, N, *out].

    Dims of 1 of the kernel are left out. The pixels are copied, so that one that is not finite stays where it is.
    """
    _require_undilated_legacy(op, window)
    check_fits(op, window, x)
    return window_columns(op, x, window)


def _require_undilated_legacy(op: Op, window: Window) -> None:
    """Refuse dilations with Caffe's legacy pooling."""
    if window.legacy is LegacyPad.CAFFE_LEGACY_POOLING and set(window.dilation) != {1}:
        op.unsupported(
            "dilation must be 1 with legacy_pad 3 (CAFFE_LEGACY_POOLING)",
            hint="give the pads as pads, and remove legacy_pad",
            code="invalid-argument",
        )


def _padded(op: Op, window: Window, x: Value) -> tuple[Value, dict[str, Any]]:
    """Apply those pads to the image that ONNX cannot express; return it with the attributes for the others."""
    check_fits(op, window, x)
    if window.legacy is LegacyPad.CAFFE_LEGACY_POOLING:
        return caffe_pads(op, window, x, 0.0), window.attributes | {"pads": None}
    if min(*window.head, *window.tail) >= 0:
        return crop_gaps(op, window, x), window.attributes
    # Negative pads crop the image.
    for axis, (head, tail) in enumerate(zip(window.head, window.tail, strict=True), 2):
        if min(head, tail) < 0:
            x = slice_axis(op, x, axis, max(-head, 0), min(tail, 0) or np.iinfo(np.int64).max)
    pads = [max(p, 0) for p in (*window.head, *window.tail)]
    return x, window.attributes | {"pads": pads if any(pads) else None}
