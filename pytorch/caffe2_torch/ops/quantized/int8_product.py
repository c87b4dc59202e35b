"""Convolution, fully connected layers and pooling of Int8 tensors.

The products of ``x - zero_point_x`` and ``w - zero_point_w`` are summed, the bias is added, and the sum is scaled by
``scale_x * scale_w / Y_scale``. Sums of int32 are exact in float64.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn import functional

from caffe2_bridge.netdef.window import window_argument
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.int8 import (
    image,
    preserved,
    relu_scaling,
    stated_for_bytes,
    uses_dnnlowp,
)
from caffe2_torch.evaluation.layout import move_first, move_last
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value
from caffe2_torch.evaluation.window import Window, actual_pads, check_fits, padded, read_window
from caffe2_torch.functions.int8 import Quantized, as_bytes, pool_quantized, ratio_of, requantize, steps_of

family = Family("int8_product")


def _bias(op: Op) -> torch.Tensor:
    value = op.values[2]
    bias = value.data if isinstance(value, Quantized) else op.tensor(2)
    if bias.dtype != torch.int32:
        op.refuse("the bias must be int32")
    return bias.to(torch.float64)


def _scaled(op: Op, total: torch.Tensor, x: Quantized, w: Quantized) -> Quantized:
    """Scale sums of products, the bias among them, to bytes."""
    how = stated_for_bytes(op, dnnlowp=op.type != "Int8ConvTranspose")
    relu = op.type.endswith("Relu")
    if uses_dnnlowp(op) and relu:
        how = relu_scaling(how)
    scale = ratio_of(x.scale, w.scale, over=how.scale)
    if uses_dnnlowp(op):
        steps = torch.round(total.to(torch.float32) * scale)
        return as_bytes(steps, *how)
    if not 0 < scale < 1:
        op.refuse(f"the product of the scales of X and W must be less than Y_scale, but is {scale:.4g} times it")
    return requantize(total, x, w, *how, relu=relu)


def _window(op: Op, *, dilated: bool = True) -> Window:
    window = read_window(op, 4, dilated=dilated)
    if not window.channels_last and not uses_dnnlowp(op):
        op.refuse("order must be NHWC for Int8 tensors")
    return window


@family.converts("Int8Conv", "Int8ConvRelu")
def convolution(op: Op) -> Value:
    x, w, group = image(op, 0), image(op, 1), op.args.integer("group", default=1)
    window = _window(op)
    planes, weight = (move_first(steps_of(v), when=window.channels_last) for v in (x, w))
    if tuple(weight.shape[2:]) != window.kernel or planes.shape[1] != weight.shape[1] * group:
        op.refuse(f"the weight {tuple(w.data.shape)} does not fit the image {tuple(x.data.shape)} or the kernel")
    planes = padded(planes, actual_pads(op, window, tuple(planes.shape[2:])))
    check_fits(op, planes, window)
    total = functional.conv2d(planes, weight, _bias(op), window.stride, 0, window.dilation, group)
    return _moved(_scaled(op, total, x, w), last=window.channels_last)


def _moved(y: Quantized, *, last: bool) -> Quantized:
    return y._replace(data=move_last(y.data, when=last))


@family.converts("Int8ConvTranspose")
def transposed_convolution(op: Op) -> Value:
    op.args.ignore("no_gradient_to_input")
    x, w, adj = image(op, 0), image(op, 1), window_argument(op.args, "adj", 2) or [0, 0]
    window = _window(op, dilated=False)
    if window.legacy == 3 or min(*window.head, *window.tail) < 0 or len(adj) != 2:
        op.refuse("pads must not be negative, and legacy_pad must not be 3")
    planes, weight = move_first(steps_of(x)), move_first(steps_of(w))
    total = functional.conv_transpose2d(planes, weight, _bias(op), window.stride, 0, tuple(adj))
    total = padded(total, [(-a, -b) for a, b in zip(window.head, window.tail, strict=True)])
    return _moved(_scaled(op, total, x, w), last=True)


@family.converts("Int8FC", "Int8FCRelu")
def fully_connected(op: Op) -> Value:
    op.args.ignore("order", "axis", "axis_w")
    if op.type == "Int8FCRelu" and not uses_dnnlowp(op):
        op.refuse("Int8FCRelu must have engine DNNLOWP, the only one of Caffe2 that implements it")
    x, w = image(op, 0), image(op, 1)
    rows = steps_of(x)
    rows = rows.reshape(rows.shape[0], math.prod(rows.shape[1:]))
    return _scaled(op, rows @ steps_of(w).t() + _bias(op), x, w)


def _pooling(op: Op, x: torch.Tensor) -> tuple[torch.Tensor, Window, list[tuple[int, int]]]:
    window = _window(op)
    if set(window.dilation) - {1} or set(window.kernel) == {1} or not window.channels_last:
        op.refuse("a pooling window must have more than one pixel and no dilation, and order must be NHWC")
    for k, *pads in zip(window.kernel, window.head, window.tail, strict=True):
        if max(pads) >= k or min(pads) < 0:
            op.refuse(f"pads must not be negative and must be smaller than the kernel ({k}), not {pads}")
    planes = move_first(x)
    return planes, window, actual_pads(op, window, tuple(planes.shape[2:])) if window.kernel else []


def _windows(op: Op, x: torch.Tensor, window: Window) -> torch.Tensor:
    check_fits(op, x, window)
    for axis, (k, s) in enumerate(zip(window.kernel, window.stride, strict=True), 2):
        x = x.unfold(axis, k, s)
    return x.flatten(-2)


@family.converts("Int8MaxPool", "Int8MaxPoolRelu")
def max_pool(op: Op) -> Value:
    x = image(op, 0)
    how = preserved(op, x)
    planes, window, pads = _pooling(op, x.data.to(torch.int32))
    y = planes.amax((2, 3), keepdim=True) if not window.kernel else _windows(op, padded(planes, pads), window).amax(-1)
    y = y.clamp(min=how.zero_point) if op.type.endswith("Relu") else y
    return _moved(Quantized(y.to(torch.uint8), how.scale, how.zero_point), last=True)


@family.converts("Int8AveragePool", "Int8AveragePoolRelu")
def average_pool(op: Op) -> Value:
    """Average over the window, pads included."""
    x = image(op, 0)
    to = stated_for_bytes(op)
    ratio = np.float32(x.scale) / np.float32(to.scale)
    if not 2**-8 <= ratio < 2**8:
        op.refuse(f"the scale of X over Y_scale must be in [2**-8, 2**8), not {ratio:.4g}")
    planes, window, pads = _pooling(op, steps_of(x))
    area = math.prod(window.kernel) if window.kernel else math.prod(planes.shape[2:])
    if not window.kernel:
        total = planes.sum((2, 3), keepdim=True)
    else:
        total = _windows(op, padded(planes, pads), window).sum(-1)
    return _moved(pool_quantized(total, x, area, *to, relu=op.type.endswith("Relu")), last=True)
