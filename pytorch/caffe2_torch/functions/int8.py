"""Int8 tensors: Caffe2's arithmetic to the last bit, by its implementation QNNPACK."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - as the source has it


class Quantized(NamedTuple):
    """An Int8 tensor: the data stand for the reals ``scale * (data - zero_point)``."""

    data: torch.Tensor
    scale: float
    zero_point: int


def quantize(x: torch.Tensor, scale: float, zero_point: int) -> Quantized:
    """Quantize reals to bytes, halves to even."""
    steps = torch.round(x / scale) + zero_point
    return Quantized(steps.clamp(0, 255).to(torch.uint8), scale, zero_point)


def dequantize(x: Quantized) -> torch.Tensor:
    """Return the reals."""
    return (x.data.float() - x.zero_point) * x.scale


def steps_of(x: Quantized) -> torch.Tensor:
    """Return the data less the zero point, as float64, in which sums of products are exact."""
    return x.data.double() - x.zero_point


def rounded(steps: torch.Tensor) -> torch.Tensor:
    """Round half away from zero."""
    return torch.trunc(steps + torch.sign(steps) * 0.5)


def as_bytes(steps: torch.Tensor, scale: float, zero_point: int, *, relu: bool = False) -> Quantized:
    """Return whole steps from the zero point as bytes; with ``relu`` none below it."""
    clipped = (steps.double() + zero_point).clamp(zero_point if relu else 0, 255)
    return Quantized(clipped.to(torch.uint8), scale, zero_point)


def ratio_of(scale: float, *others: float, over: float = 1.0) -> float:
    """Return the product of scales over another, each step rounded to float32."""
    product = torch.tensor(scale)
    for other in others:
        product = product * torch.tensor(other)
    return float(product / torch.tensor(over))


def requantize(
    total: torch.Tensor, x: Quantized, w: Quantized, scale: float, zero_point: int, *, relu: bool = False
) -> Quantized:
    """Scale sums of products of x and w to bytes in fixed point, which rounds twice."""
    fraction, exponent = math.frexp(ratio_of(x.scale, w.scale, over=scale))
    high = torch.floor(total.double() * fraction + 0.5)
    return as_bytes(rounded(high * 2.0**exponent) if exponent else high, scale, zero_point, relu=relu)


def add_quantized(a: Quantized, b: Quantized, scale: float, zero_point: int, *, relu: bool = False) -> Quantized:
    """Add reals: each operand is multiplied by its relative scale, an integer of 22 bits."""
    scales = [ratio_of(x.scale, over=scale) for x in (a, b)]
    unit = 2.0 ** (22 - math.frexp(max(scales))[1])
    total = torch.zeros(())
    for x, relative in zip((a, b), scales, strict=True):
        total = total + steps_of(x) * (float(torch.round(torch.tensor(relative * unit))) / unit)
    return as_bytes(rounded(total), scale, zero_point, relu=relu)


def pool_quantized(
    total: torch.Tensor, x: Quantized, area: int, scale: float, zero_point: int, *, relu: bool = False
) -> Quantized:
    """Average sums over so many pixels of x, and round half away from zero."""
    factor = float(torch.tensor(x.scale) / (torch.tensor(scale) * float(area)))
    return as_bytes(rounded(total * factor), scale, zero_point, relu=relu)


def softmax_quantized(x: Quantized) -> Quantized:
    """Compute the softmax over all dims but the first, in steps of 1 / 256.

    Exponentials are integers of a table, and quotients by their sum are rounded.
    """
    rows = x.data.flatten(1).long()
    largest = min(4294967295.0 / max(rows.shape[1], 1), 8388607.0)
    exponents = torch.arange(-255, 1, dtype=torch.float64, device=rows.device) * ratio_of(x.scale)
    table = torch.round(largest * torch.exp(exponents)).long()
    exponentials = table[rows - rows.amax(1, keepdim=True) + 255]
    total = (exponentials.sum(1, keepdim=True) % 2**32).clamp(min=1)
    shares = ((exponentials * 256 + total // 2) // total).clamp(max=255)
    return Quantized(shares.to(torch.uint8).reshape(x.data.shape), 1 / 256, 0)


def convolve_quantized(
    x: Quantized, w: Quantized, bias: torch.Tensor, scale: float, zero_point: int, *,
    stride: int | tuple[int, ...] = 1, padding: int | tuple[int, ...] = 0, dilation: int | tuple[int, ...] = 1,
    groups: int = 1, relu: bool = False,
) -> Quantized:  # fmt: skip
    """Convolve images [N, H, W, C] with w, [out channels, height, width, C / groups]; the bias is int32."""
    images, weight = (steps_of(v).movedim(-1, 1) for v in (x, w))
    total = F.conv2d(images, weight, bias.double(), stride, padding, dilation, groups).movedim(1, -1)
    return requantize(total, x, w, scale, zero_point, relu=relu)


def multiply_quantized(x: Quantized, w: Quantized, bias: torch.Tensor, scale: float, zero_point: int) -> Quantized:
    """Apply a fully connected layer with w, [out features, in features]; the bias is int32."""
    total = steps_of(x).flatten(1) @ steps_of(w).t() + bias.double()
    return requantize(total, x, w, scale, zero_point)


def average_pool_quantized(
    x: Quantized, scale: float, zero_point: int, kernel: tuple[int, ...] | None = None, *,
    stride: int | tuple[int, ...] = 1, padding: int | tuple[int, ...] = 0, relu: bool = False,
) -> Quantized:  # fmt: skip
    """Average the pixels of each window of images [N, H, W, C], padding among them; without a kernel all pixels."""
    images = steps_of(x).movedim(-1, 1)
    kernel = tuple(images.shape[2:]) if kernel is None else kernel
    total = F.avg_pool2d(images, kernel, stride, padding, divisor_override=1).movedim(1, -1)
    return pool_quantized(total, x, math.prod(kernel), scale, zero_point, relu=relu)


def sigmoid_quantized(x: Quantized) -> Quantized:
    """Compute the sigmoid in steps of 1 / 256."""
    values = torch.round(256 / (1 + torch.exp(-dequantize(x))))
    return Quantized(values.clamp(0, 255).to(torch.uint8), 1 / 256, 0)


def leaky_relu_quantized(x: Quantized, scale: float, zero_point: int, alpha: float) -> Quantized:
    """Multiply reals below zero by alpha."""
    steps = (x.data.float() - x.zero_point) * ratio_of(x.scale, over=scale)
    steps = torch.where(steps < 0, steps * alpha, steps)
    return Quantized((torch.round(steps) + zero_point).clamp(0, 255).to(torch.uint8), scale, zero_point)
