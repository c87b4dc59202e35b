"""Pooling: the maximum, the mean or the p-norm of a moving window."""

from __future__ import annotations

import math

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.layout import move_first, move_last
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value
from caffe2_torch.evaluation.window import Window, actual_pads, check_fits, padded, read_window

family = Family("pooling")


def _image(op: Op) -> tuple[torch.Tensor, Window, list[tuple[int, int]]]:
    x = op.tensor(0)
    window = read_window(op, x.dim())
    if set(window.dilation) - {1}:
        op.refuse("dilation must be 1: Caffe2's pooling does not support it")
    for k, *pads in zip(window.kernel, window.head, window.tail, strict=True):
        if max(pads) >= k or min(pads) < 0:
            op.refuse(f"pads must be at least 0 and less than the kernel size ({k}), not {pads}")
    x = move_first(x, when=window.channels_last)
    return x, window, actual_pads(op, window, tuple(x.shape[2:])) if window.kernel else []


def _windows(op: Op, x: torch.Tensor, window: Window) -> torch.Tensor:
    """Return the pixels under the window at each position: [N, C, *out, kernel]."""
    check_fits(op, x, window)
    for axis, (k, s) in enumerate(zip(window.kernel, window.stride, strict=True), 2):
        x = x.unfold(axis, k, s)
    return x.flatten(x.dim() - len(window.kernel))


@family.converts("MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D")
def max_pool(op: Op) -> Value:
    op.args.ignore("count_include_pad")
    x, window, pads = _image(op)
    if not window.kernel:
        y = x.amax(list(range(2, x.dim())), keepdim=True)
    else:
        _require_overlap(op, x, window, pads)
        y = _windows(op, padded(x, pads, -math.inf), window).amax(-1)
    return move_last(y, when=window.channels_last)


@family.converts("AveragePool", "AveragePool1D", "AveragePool2D", "AveragePool3D")
def average_pool(op: Op) -> Value:
    count_pads = op.args.flag("count_include_pad", default=False)
    x, window, pads = _image(op)
    if not window.kernel:
        return move_last(x.mean(list(range(2, x.dim())), keepdim=True), when=window.channels_last)
    _require_overlap(op, x, window, pads)
    total = _windows(op, padded(x, pads), window).sum(-1)
    if count_pads:
        y = total / math.prod(window.kernel)
    else:
        ones = torch.ones((1, 1, *x.shape[2:]), dtype=x.dtype, device=x.device)
        y = total / _windows(op, padded(ones, pads), window).sum(-1)
    return move_last(y, when=window.channels_last)


def _require_overlap(op: Op, x: torch.Tensor, window: Window, pads: list[tuple[int, int]]) -> None:
    """Refuse a last window beyond the image, for which Caffe2 reads out of bounds."""
    for size, k, (_, tail) in zip(x.shape[2:], window.kernel, pads, strict=True):
        if tail >= k or size == 0:
            op.refuse("the last window must overlap the image")


@family.converts("LpPool")
def lp_pool(op: Op) -> Value:
    p = op.args.number("p", default=2.0)
    x, window, pads = _image(op)
    if x.dim() != 4:
        op.refuse(f"the image must have rank 4, not {x.dim()}")
    powers = x.abs() ** p
    if not window.kernel:
        total = powers.sum([2, 3], keepdim=True)
    else:
        total = _windows(op, padded(powers, pads), window).sum(-1)
    return move_last(total ** (1 / p), when=window.channels_last)
