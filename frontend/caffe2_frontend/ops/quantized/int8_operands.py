"""Operands and windows of convolutions, fully connected layers and pooling of Int8 tensors, checked as Caffe2 does.

The converters of both forms, exact integers and QuantizeLinear with DequantizeLinear, read them here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from caffe2_bridge.netdef.window import window_argument
from caffe2_frontend.emit.int8_values import (
    output_quantization,
    quantization,
    relu_quantization,
    require_bytes,
    uses_dnnlowp,
)
from caffe2_frontend.emit.layout import move_first
from caffe2_frontend.emit.operand_checks import require_dtype, require_equal, require_min_rank, require_rank
from caffe2_frontend.emit.shapes import flatten
from caffe2_frontend.emit.windows.window import LegacyPad, Window, caffe_pads, check_fits, crop_gaps, read_window
from caffe2_frontend.interop.types import INT32, Quantization
from caffe2_frontend.lowering.op import Op, Value


@dataclass(frozen=True)
class Convolution:
    """The checked operands of a convolution.

    Attributes:
        planes: the image [N, C, H, W], uint8.
        weight: [M, C / group, *kernel], uint8.
        bias: [M], int32.
        attributes: of ONNX's convolution.
        channels_last: whether the operator's image is [N, H, W, C].
    """

    planes: Value
    weight: Value
    bias: Value
    attributes: dict[str, Any]
    channels_last: bool


def read_convolution(op: Op, to_planes: Callable[..., Value] = move_first) -> Convolution:
    """Read the operands of Int8Conv; ``to_planes(op, x, when=...)`` moves the channels of the image first."""
    x, w, bias = product_operands(op)
    require_rank(op, w, 4, "W")
    window = _window(op, x)
    last = window.channels_last
    x, w = to_planes(op, x, when=last), move_first(op, w, when=last)
    group = op.args.integer("group", default=1)
    _require_kernel(op, window, w, 2)
    filters, depth, channels = op.static_dim(w, 0), op.static_dim(w, 1), op.static_dim(x, 1)
    if group < 1 or (filters is not None and filters % group):
        op.unsupported(
            f"group must be positive and divide the number of filters ({filters}), not {group}", code="invalid-operands"
        )
    require_equal(op, channels, depth and depth * group, "channels of the image and of the weight")
    require_equal(op, filters, op.static_dim(bias, 0), "filters and biases")
    planes, attributes = padded_planes(op, window, x, quantization(op, op.input(0)).zero_point)
    return Convolution(planes, w, bias, {"group": group, **attributes}, last)


@dataclass(frozen=True)
class TransposedConvolution:
    """The checked operands of a transposed convolution.

    Attributes:
        image: [N, H, W, C], uint8.
        weight: [C, *kernel, M], uint8.
        bias: [M], int32.
        window: kernel, stride and pads.
        adj: the pixels that are added after the result, by spatial dim.
    """

    image: Value
    weight: Value
    bias: Value
    window: Window
    adj: list[int]


def read_transposed_convolution(op: Op) -> TransposedConvolution:
    """Read the operands of Int8ConvTranspose."""
    op.args.ignore("no_gradient_to_input")
    x, w, bias = product_operands(op)
    require_rank(op, w, 4, "W")
    adj = window_argument(op.args, "adj", 2) or [0, 0]
    window = _window(op, x, dilated=False)
    _require_kernel(op, window, w)
    if len(adj) != 2 or any(not 0 <= a < s for a, s in zip(adj, window.stride, strict=False)):
        op.unsupported(f"adj must be between 0 and the stride less 1, not {adj}", code="invalid-argument")
    if window.legacy is LegacyPad.CAFFE_LEGACY_POOLING or min(*window.head, *window.tail) < 0:
        op.unsupported("pads must not be negative, and legacy_pad must not be 3", code="invalid-argument")
    require_equal(op, op.static_dim(x, 3), op.static_dim(w, 0), "channels of the image and of the weight")
    require_equal(op, op.static_dim(w, 3), op.static_dim(bias, 0), "filters and biases")
    return TransposedConvolution(x, w, bias, window, adj)


def read_layer(op: Op) -> tuple[Value, Value, Value]:
    """Read the operands of Int8FC: rows [N, K] and weight [M, K] (uint8), and bias [M] (int32)."""
    op.args.ignore("order")
    if op.type == "Int8FCRelu" and not uses_dnnlowp(op):
        op.unsupported(
            "Int8FCRelu must have engine DNNLOWP, the only one of Caffe2 that implements it",
            hint='set engine="DNNLOWP"',
        )
    if uses_dnnlowp(op) and (op.args.integer("axis", default=1), op.args.integer("axis_w", default=1)) != (1, 1):
        op.unsupported("axis and axis_w must be 1")
    x, w, bias = product_operands(op)
    require_min_rank(op, x, 1, "X")
    require_rank(op, w, 2, "W")
    rows = flatten(op, x, 1)
    require_equal(op, op.static_dim(rows, 1), op.static_dim(w, 1), "columns of the input and of the weight")
    require_equal(op, op.static_dim(w, 0), op.static_dim(bias, 0), "rows of the weight and biases")
    return rows, w, bias


def product_quantization(op: Op) -> tuple[Quantization, np.float32]:
    """Return the quantization of the result of a product, and the factor from products to its steps, in float32.

    QNNPACK requires a factor below 1.
    """
    how = output_quantization(op, dnnlowp=op.type != "Int8ConvTranspose")
    x = quantization(op, op.input(0))
    w = quantization(op, op.input(1), example=how.scale / (2 * x.scale))
    if uses_dnnlowp(op) and op.type.endswith("Relu"):
        how = relu_quantization(how)
    scale = np.float32(np.float32(x.scale) * np.float32(w.scale) / np.float32(how.scale))
    if not uses_dnnlowp(op) and not 0 < scale < 1:
        op.unsupported(
            f"the product of the scales of X and W must be less than Y_scale, but is {scale:.4g} times it",
            code="invalid-argument",
        )
    return how, scale


def mean_quantization(op: Op, x: Value) -> tuple[Quantization, Quantization]:
    """Return the quantizations of operand and result of a mean, within the limits of QNNPACK."""
    from_, to = quantization(op, x), output_quantization(op)
    ratio = np.float32(from_.scale) / np.float32(to.scale)
    if not 2**-8 <= ratio < 2**8:
        op.unsupported(
            f"the scale of X over Y_scale must be in [2**-8, 2**8), not {ratio:.4g}", code="invalid-argument"
        )
    return from_, to


def product_operands(op: Op) -> tuple[Value, Value, Value]:
    """Return the operands X and W (uint8) and bias (int32)."""
    x, w, bias = op.input(0), op.input(1), op.input(2)
    require_bytes(op, x, "X")
    require_bytes(op, w, "W")
    require_dtype(op, bias, (INT32,), "bias")
    require_rank(op, bias, 1, "bias")
    return x, w, bias


def _window(op: Op, x: Value, *, dilated: bool = True, whole: bool = False) -> Window:
    require_rank(op, x, 4, "X")
    window = read_window(op, 4, dilated=dilated, exact=True, whole=whole)
    if not window.channels_last and not uses_dnnlowp(op):
        op.unsupported("order must be NHWC for Int8 tensors", hint='set order="NHWC"', code="invalid-argument")
    return window


def pooling_window(op: Op, x: Value) -> Window:
    """Read the window of a pooling, within the limits of QNNPACK."""
    window = _window(op, x, whole=True)
    if set(window.dilation) - {1}:
        op.unsupported("dilation must be 1 for pooling", code="invalid-argument")
    if set(window.kernel) == {1}:
        op.unsupported("the pooling window must have more than one pixel", code="invalid-argument")
    for k, *pads in zip(window.kernel, window.head, window.tail, strict=True):
        if max(pads) >= k or min(pads) < 0:
            op.unsupported(
                f"pads must not be negative and must be smaller than the kernel ({k}), not {pads}",
                code="invalid-argument",
            )
    return window


def padded_planes(op: Op, window: Window, planes: Value, zero: int) -> tuple[Value, dict[str, Any]]:
    """Pad the image [N, C, H, W] where ONNX cannot (legacy pooling), and return the attributes of the window."""
    if window.legacy is LegacyPad.CAFFE_LEGACY_POOLING:
        return caffe_pads(op, window, planes, zero), window.attributes | {"pads": None}
    check_fits(op, window, planes)
    return crop_gaps(op, window, planes), window.attributes


def _require_kernel(op: Op, window: Window, w: Value, first: int = 1) -> None:
    """Refuse a weight whose dims from ``first`` on are known and not the kernel sizes."""
    for axis, k in enumerate(window.kernel, first):
        require_equal(op, op.static_dim(w, axis), k, "kernel sizes of the weight and the arguments")
