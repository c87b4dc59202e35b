"""Convolutions: shared weights, transposed, deformed; weights of each place; and the columns that they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.layout import channels_last, move_first, move_last
from caffe2_frontend.emit.operand_checks import SINGLE, require_dtype, require_equal, require_rank
from caffe2_frontend.emit.shapes import product, reshape, size, sizes, slice_axis, vector
from caffe2_frontend.emit.window import (
    LegacyPad,
    Window,
    caffe_pads,
    check_fits,
    cut_gaps,
    image_rank,
    read_window,
    spelled,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Expectation, Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("convolution")


def _ranks(weight: int, bias: int, *before: int) -> Expectation:
    """Ranks of X, of ``before``, of the weight and of the bias, each counted from the image's spatial dims."""

    def expected(op: OpView, index: int) -> TensorInfo:
        rank = image_rank(op)
        if rank is None:
            return TensorInfo(ir.DataType.FLOAT)
        ranks = [rank, *before, (rank - 2) * weight + 2, (rank - 2) * bias + 1]
        return TensorInfo(ir.DataType.FLOAT, (None,) * ranks[index] if index < len(ranks) else None)

    return expected


@family.converts("Conv", "Conv1D", "Conv2D", "Conv3D", "ConvRelu", expects=_ranks(1, 0))
def convolution(op: Op) -> Value:
    op.args.ignore("force_algo_fwd", "force_algo_dgrad", "force_algo_wgrad", "freeze_bias")
    x, w = op.input(0), op.input(1)
    group = op.args.integer("group", default=1)
    window = read_window(op, op.rank(x), exact=True)
    x, w = (move_first(op, v, when=window.channels_last) for v in (x, w))
    _check_weight(op, window, w, x, group, op.optional(2))
    x, attributes = _padded(op, window, x)
    y = op.emit("Conv", x, w, op.optional(2), group=group if group != 1 else None, **attributes)
    if op.type == "ConvRelu":
        y = op.emit("Relu", y)
    return move_last(op, y, when=window.channels_last)


@family.converts("DeformConv", expects=_ranks(1, 0, 4))
def deformable_convolution(op: Op) -> Value:
    """The offsets are the second operand, before the weight."""
    x, offset, w = op.input(0), op.input(1), op.input(2)
    group = op.args.integer("group", default=1)
    offset_group = op.args.integer("deformable_group", default=1)
    window = read_window(op, op.rank(x), exact=True)
    if window.channels_last or window.legacy is not LegacyPad.NOTSET:
        op.unsupported("only the order NCHW with given pads is defined", code="invalid-argument")
    _check_weight(op, window, w, x, group, op.optional(3))
    attributes = window.attributes | {"group": group, "offset_group": offset_group}
    y: Value = op.emit("DeformConv", x, w, offset, op.optional(3), **attributes)
    return y


@family.converts("ConvTranspose", expects=_ranks(1, 0))
def transposed_convolution(op: Op) -> Value:
    """Pads crop the image that results, ``adj`` adds to its tail; legacy pads are no pads."""
    op.args.ignore("no_gradient_to_input")
    x, w = op.input(0), op.input(1)
    group = op.args.integer("group", default=1)
    adj = spelled(op, "adjs", "adj", ("adj_h", "adj_w"), 2) or [0, 0]
    require_rank(op, x, 4, "the image")
    window = read_window(op, 4, dilated=False, exact=True)
    if len(adj) != 2 or any(not 0 <= a < s for a, s in zip(adj, window.stride, strict=False)):
        op.unsupported(
            f"adj {adj} does not lie between 0 and the stride, which for real Caffe2 is undefined",
            code="invalid-argument",
        )
    if window.legacy is LegacyPad.CAFFE_LEGACY_POOLING or min(*window.head, *window.tail) < 0:
        op.unsupported("negative or Caffe's legacy pads are not defined", code="invalid-argument")
    x, w = (move_first(op, v, when=window.channels_last) for v in (x, w))
    _check_kernel(op, window, w)
    channels, filters, bias = op.static_dim(w, 0), op.static_dim(w, 1), op.optional(2)
    require_equal(op, op.static_dim(x, 1), channels, "channels of the image and of the weight")
    if group < 1 or (channels is not None and channels % group):
        op.unsupported(f"{channels} channels do not divide into {group} groups", code="invalid-operands")
    if bias is not None:
        require_rank(op, bias, 1, "the bias")
        require_equal(op, filters and filters * group, op.static_dim(bias, 0), "filters and biases")
    attributes = window.attributes | {"auto_pad": None, "output_padding": adj if any(adj) else None}
    y = op.emit("ConvTranspose", x, w, bias, group=group if group != 1 else None, **attributes)
    return move_last(op, y, when=window.channels_last)


@family.converts("LC", "LC1D", "LC2D", "LC3D", expects=_ranks(2, 1))
def locally_connected(op: Op) -> Value:
    """A convolution whose weight [*out, M, C, *kernel] and bias [*out, M] belong to a place of the output.

    Computed as one matrix product a place: of its weight, and of the columns under the window there.
    """
    x, w, bias = op.input(0), op.input(1), op.optional(2)
    rank = op.rank(x)
    window = read_window(op, rank, exact=True)
    dims = rank - 2
    if op.args.integer("group", default=1) != 1 and not window.channels_last:
        op.unsupported("groups are not defined: real Caffe2 gives them too little memory")
    require_rank(op, w, rank + dims, "the weight")
    if window.channels_last:
        if dims != 2:
            op.unsupported("NHWC is defined for two spatial dims", code="invalid-argument")
        x, w = move_first(op, x), op.emit("Transpose", w, perm=[0, 1, 2, 5, 3, 4])
    n, m = size(op, x, 0), size(op, w, dims)
    places = sizes(op, w, 0, dims)
    depth = product(op, [size(op, w, dims + 1), *window.kernel])
    # For each of the places P, [M, K] @ [K, N].
    area = product(op, places)
    columns = _columns(op, window, x)
    require_equal(op, op.static_dim(x, 1), op.static_dim(w, dims + 1), "channels of the image and of the weight")
    for place in range(dims):
        require_equal(
            op, op.static_dim(columns, place + 2), op.static_dim(w, place), "places of the window and weights"
        )
    columns = reshape(op, columns, [n, depth, area])
    y = op.emit("MatMul", reshape(op, w, [area, m, depth]), op.emit("Transpose", columns, perm=[2, 1, 0]))
    y = op.emit("Transpose", reshape(op, y, [*places, m, n]), perm=[dims + 1, *range(dims + 1)])
    y = y if bias is None else op.emit("Add", y, bias)
    return y if window.channels_last else move_first(op, y)


@family.converts("Im2Col", expects={0: TensorInfo(ir.DataType.FLOAT, (None,) * 4)})
def image_to_columns(op: Op) -> Value:
    """NCHW: [N, C * kernel_h * kernel_w, ...]; NHWC: [N, ..., kernel_h * kernel_w * C]."""
    x = op.input(0)
    require_rank(op, x, 4, "the image")
    window = _square_window(op)
    x = move_first(op, x, when=window.channels_last)
    check_fits(op, replace(window, head=(0, 0), tail=(0, 0)), x)
    n, c = size(op, x, 0), size(op, x, 1)
    columns = _columns(op, window, x)
    out = sizes(op, columns, 2)
    if not window.channels_last:
        return reshape(op, columns, [n, product(op, [c, *window.kernel]), *out])
    columns = reshape(op, columns, [n, c, int(np.prod(window.kernel)), *out])
    columns = op.emit("Transpose", columns, perm=[0, 3, 4, 2, 1])
    return reshape(op, columns, [n, *out, product(op, [c, *window.kernel])])


@family.converts(
    "Col2Im", expects={0: TensorInfo(ir.DataType.FLOAT, (None,) * 4), 1: TensorInfo(ir.DataType.FLOAT, (None,) * 4)}
)
def columns_to_image(op: Op) -> Value:
    """The second operand gives the image's sizes alone."""
    columns, like = op.input(0), op.input(1)
    for value, what in ((columns, "the columns"), (like, "the image")):
        require_rank(op, value, 4, what)
    window = _square_window(op)
    area = int(np.prod(window.kernel))
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
    """[N, H, W, area * C] as [N, C * area, H, W]."""
    n, h, w = sizes(op, columns, 0, 3)
    split = op.emit("Transpose", reshape(op, columns, [n, h, w, area, -1]), perm=[0, 4, 3, 1, 2])
    return reshape(op, split, [n, product(op, [size(op, split, 1), area]), h, w])


def _square_window(op: Op) -> Window:
    """The window of Im2Col and Col2Im, whose pads are all the same and whose sizes are one or one a dim."""
    names = ("kernel", "dilation", "stride")
    pairs = []
    for name in names:
        both = op.args.integer(name, default=0 if name == "kernel" else 1)
        pairs.append(tuple(op.args.integer(f"{name}_{side}", default=both) for side in "hw"))
    pad = op.args.integer("pad", default=0)
    if min(map(min, pairs)) < 1 or pad < 0:
        op.unsupported("kernel, dilation and stride must be positive, pad not negative", code="invalid-argument")
    kernel, dilation, stride = pairs
    return Window(kernel, stride, dilation, (pad, pad), (pad, pad), LegacyPad.NOTSET, channels_last(op))


def _columns(op: Op, window: Window, x: Value) -> Value:
    """What the window sees at each place: [N * C, product of the kernel, *out], of an image [N, C, ...].

    A convolution of each channel with kernels that each pick one pixel.
    """
    x, attributes = _padded(op, window, x)
    planes = reshape(op, x, [product(op, sizes(op, x, 0, 2)), 1, *sizes(op, x, 2)])
    area = int(np.prod(window.kernel))
    picks = np.eye(area).reshape(area, 1, *window.kernel)
    columns: Value = op.emit("Conv", planes, op.const(picks, x), **attributes)
    return columns


def _padded(op: Op, window: Window, x: Value) -> tuple[Value, dict[str, Any]]:
    """The image with those pads that ONNX cannot express, and the attributes for the others."""
    if window.legacy is LegacyPad.CAFFE_LEGACY_POOLING:
        if set(window.dilation) != {1}:
            op.unsupported("Caffe's legacy pads go with no dilation", code="invalid-argument")
        return caffe_pads(op, window, x, 0.0), window.attributes | {"pads": None}
    check_fits(op, window, x)
    if min(*window.head, *window.tail) >= 0:
        return cut_gaps(op, window, x), window.attributes
    # Negative pads cut pixels off.
    for axis, (head, tail) in enumerate(zip(window.head, window.tail, strict=True), 2):
        if min(head, tail) < 0:
            x = slice_axis(op, x, axis, max(-head, 0), min(tail, 0) or np.iinfo(np.int64).max)
    pads = [max(p, 0) for p in (*window.head, *window.tail)]
    return x, window.attributes | {"pads": pads if any(pads) else None}


def _check_weight(op: Op, window: Window, w: Value, x: Value, group: int, bias: Value | None) -> None:
    """The weight [M, C / group, *kernel] and the bias [M] fit the window and the image [N, C, ...]."""
    require_dtype(op, x, SINGLE, "the image")
    _check_kernel(op, window, w)
    filters, depth = op.static_dim(w, 0), op.static_dim(w, 1)
    if group < 1 or (filters is not None and filters % group):
        op.unsupported(f"{filters} filters do not divide into {group} groups", code="invalid-operands")
    channels = None if depth is None else depth * group
    require_equal(op, op.static_dim(x, 1), channels, "channels of the image and of the weight")
    if bias is not None:
        require_rank(op, bias, 1, "the bias")
        require_equal(op, filters, op.static_dim(bias, 0), "filters and biases")


def _check_kernel(op: Op, window: Window, w: Value) -> None:
    """The weight [.., .., *kernel] has the window's sizes."""
    kernel: Sequence[Any] = op.shape(w)[2:]
    if len(kernel) != len(window.kernel):
        op.unsupported(f"a weight of rank {op.rank(w)} for {len(window.kernel)} spatial dims", code="invalid-operands")
    for given, k in zip(kernel, window.kernel, strict=True):
        require_equal(op, given if isinstance(given, int) else None, k, "kernel sizes of the weight and the arguments")
