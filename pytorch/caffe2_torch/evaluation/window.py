"""The window of convolutions and poolings: its arguments in every form, and Caffe2's legacy padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch.nn import functional

from caffe2_bridge.netdef.window import window_argument
from caffe2_torch.evaluation.layout import channels_last
from caffe2_torch.evaluation.op import Op

_SAME: Final = 2
_VALID: Final = 1
_CAFFE: Final = 3


@dataclass(frozen=True, slots=True)
class Window:
    """Sizes per spatial dim; ``head`` and ``tail`` are the pads before and after the image.

    ``kernel`` is empty with ``global_pooling``, where the window is the whole image.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    head: tuple[int, ...]
    tail: tuple[int, ...]
    legacy: int
    channels_last: bool


def read_window(op: Op, rank: int, *, dilated: bool = True) -> Window:
    """Read the arguments of a window over images of rank ``rank`` (batch and channels included)."""
    op.args.ignore("group", "shared_buffer", "float16_compute")
    legacy, dims, last = op.args.integer("legacy_pad", default=0), rank - 2, channels_last(op)
    kernel = window_argument(op.args, "kernel", 2)
    stride = window_argument(op.args, "stride", 2)
    dilation = window_argument(op.args, "dilation", 2) if dilated else []
    pads = window_argument(op.args, "pad", 4)
    if op.args.integer("global_pooling", default=0):
        if any(pads) or set(stride) - {1} or set(dilation) - {1}:
            op.refuse("global_pooling must not be combined with pads, strides or dilations")
        return Window((), (), (), (), (), 0, last)
    count = len(kernel)
    stride, dilation, pads = stride or [1] * count, dilation or [1] * count, pads or [0] * (2 * count)
    if (len(stride), len(dilation), len(pads)) != (count, count, 2 * count) or count < dims or dims < 1:
        op.refuse(f"the window does not fit images of {dims} dims: kernel {kernel}, stride {stride}, pads {pads}")
    if min(kernel) < 1 or min(stride) < 1 or min(dilation) < 1:
        op.refuse("kernel, stride and dilation must be positive")
    if legacy in (_VALID, _SAME) and any(pads):
        op.refuse("pads must not be given with legacy_pad VALID or SAME")
    k, s, d, head, tail = (tuple(values[:dims]) for values in (kernel, stride, dilation, pads, pads[dims:]))
    return Window(k, s, d, head, tail, legacy, last)


def actual_pads(op: Op, window: Window, sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the pads before and after each dim of an image; negative ones crop it."""
    if window.legacy == _VALID:
        return [(0, 0)] * len(sizes)
    if window.legacy == _SAME:
        # Caffe2 crops the pixels beyond the last window, half of them from the front.
        needs = [
            ((size + s - 1) // s - 1) * s + k - size
            for size, k, s in zip(sizes, window.kernel, window.stride, strict=True)
        ]
        return [(int(need / 2), need - int(need / 2)) for need in needs]
    if window.legacy == _CAFFE:
        return [
            (p, _caffe_tail(op, size, k, s, p))
            for size, k, s, p in zip(sizes, window.kernel, window.stride, window.head, strict=True)
        ]
    return list(zip(window.head, window.tail, strict=True))


def _caffe_tail(op: Op, size: int, k: int, s: int, p: int) -> int:
    """Round the number of windows up, as Caffe, but drop a last one that would start in the padding after the image."""
    count = -(-(size + 2 * p - k) // s) + 1
    if p > 0 and (count - 1) * s >= size + p:
        count -= 1
    if count < 1:
        op.refuse(f"an image of {size} pixels has no window of {k}")
    return (count - 1) * s + k - size - p


def padded(x: torch.Tensor, pads: list[tuple[int, int]], value: float = 0.0) -> torch.Tensor:
    """Return the image [N, C, ...] with pads around it, or cropped."""
    flat = [pad for pair in reversed(pads) for pad in pair]
    return functional.pad(x, flat, value=value) if any(flat) else x


def check_fits(op: Op, x: torch.Tensor, window: Window) -> None:
    """Refuse a window that is larger than the padded image."""
    for size, k, d in zip(x.shape[2:], window.kernel, window.dilation, strict=True):
        if size < d * (k - 1) + 1:
            op.refuse(f"the window ({d * (k - 1) + 1} pixels) must fit into the padded image ({size})")
