"""The window that convolutions and poolings move over an image: every spelling of it, read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add, div, mul, sub
from caffe2_frontend.emit.layout import channels_last
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.lowering.op import Op, Value


class LegacyPad(IntEnum):
    """How the pads follow from the sizes, instead of being given."""

    NOTSET = 0
    VALID = 1
    SAME = 2
    CAFFE_LEGACY_POOLING = 3


@dataclass(frozen=True, slots=True)
class Window:
    """Sizes along the spatial dims, in their order. ``kernel`` is empty where the window is the whole image."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    head: tuple[int, ...]
    tail: tuple[int, ...]
    legacy: LegacyPad
    channels_last: bool

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of ONNX's operators that move such a window."""
        same = self.legacy is LegacyPad.SAME
        pads = [*self.head, *self.tail]
        return {
            "kernel_shape": list(self.kernel),
            "strides": list(self.stride) if set(self.stride) != {1} else None,
            "dilations": list(self.dilation) if set(self.dilation) != {1} else None,
            "pads": pads if any(pads) and not same else None,
            "auto_pad": "SAME_UPPER" if same else None,
        }

    @property
    def may_start_outside(self) -> bool:
        """Whether a window of Caffe's old pooling may lie beyond the image: unpadded, and with gaps between windows."""
        return self.legacy is LegacyPad.CAFFE_LEGACY_POOLING and any(
            s > k and not p for k, s, p in zip(self.kernel, self.stride, self.head, strict=True)
        )


def image_rank(op: OpView) -> int | None:
    """The rank of the images that the operator takes, as far as its arguments say it."""
    if "kernels" in op.args:
        return len(op.args.integers("kernels")) + 2
    return 4 if "kernel" in op.args or "kernel_h" in op.args else None


def read_window(op: Op, rank: int, *, dilated: bool = True, whole: bool = False, exact: bool = False) -> Window:
    """The window of an operator over images of ``rank`` dims (batch and channels among them).

    ``dilated``: the operator reads dilations. ``whole``: it reads ``global_pooling``, whose window is the whole image.
    ``exact``: there must be no more sizes than spatial dims; else the first ones count.
    """
    op.args.ignore("group", "shared_buffer", "float16_compute")
    legacy = _legacy(op)
    kernel = spelled(op, "kernels", "kernel", ("kernel_h", "kernel_w"), 2)
    stride = spelled(op, "strides", "stride", ("stride_h", "stride_w"), 2)
    dilation = spelled(op, "dilations", "dilation", ("dilation_h", "dilation_w"), 2) if dilated else []
    pads = spelled(op, "pads", "pad", ("pad_t", "pad_l", "pad_b", "pad_r"), 4)
    if legacy in (LegacyPad.VALID, LegacyPad.SAME) and (pads or "pads" in op.args):
        op.unsupported(f"pads are given beside legacy_pad {legacy.name}", code="invalid-argument")
    last = channels_last(op)
    dims = rank - 2
    if dims < 1:
        op.unsupported(
            f"rank {rank} is no image: batch, channels and spatial dims are expected", code="invalid-operands"
        )
    if whole and op.args.integer("global_pooling", default=0):
        if any(pads) or set(stride) - {1} or set(dilation) - {1}:
            op.unsupported("global_pooling goes with no pad, stride or dilation", code="invalid-argument")
        return Window((), (), (), (), (), LegacyPad.NOTSET, last)
    count = len(kernel)
    stride, dilation, pads = stride or [1] * count, dilation or [1] * count, pads or [0] * (2 * count)
    if len(stride) != count or len(dilation) != count or len(pads) != 2 * count:
        op.unsupported(
            f"{count} kernel sizes, {len(stride)} strides, {len(dilation)} dilations, {len(pads)} pads",
            code="invalid-argument",
        )
    if count < dims or (exact and count > dims):
        op.unsupported(f"{count} kernel sizes for {dims} spatial dims", code="invalid-argument")
    if min(kernel) < 1 or min(stride) < 1 or min(dilation) < 1:
        op.unsupported("kernel, stride and dilation must be positive", code="invalid-argument")
    if legacy is LegacyPad.SAME and set(dilation) != {1}:
        op.unsupported("legacy_pad SAME goes with no dilation", code="invalid-argument")
    k, s, d, head, tail = (tuple(values[:dims]) for values in (kernel, stride, dilation, pads, pads[dims:]))
    return Window(k, s, d, head, tail, legacy, last)


def check_fits(op: Op, window: Window, x: Value) -> None:
    """Refuse a window that is larger than the image [N, C, ...] where that is known."""
    if window.legacy is not LegacyPad.NOTSET:
        _check_last_window(op, window, x)
        return
    for size, k, d, *pads in zip(
        op.shape(x)[2:], window.kernel, window.dilation, window.head, window.tail, strict=True
    ):
        if isinstance(size, int) and size + sum(pads) < d * (k - 1) + 1:
            op.unsupported(
                f"a window of {d * (k - 1) + 1} does not fit into {size} with pads {pads}", code="invalid-operands"
            )


def cut_gaps(op: Op, window: Window, x: Value) -> Value:
    """For legacy_pad SAME: the image [N, C, ...] without what its negative pads cut off.

    A stride longer than the kernel leaves pixels beyond the last window; Caffe2 cuts half of them off the front, and
    ONNX none.
    """
    if window.legacy is not LegacyPad.SAME or all(s <= k for k, s in zip(window.kernel, window.stride, strict=True)):
        return x
    sizes = op.emit("Shape", x, start=2)
    kernel, stride = (op.const(v, np.int64) for v in (window.kernel, window.stride))
    covered = add(op, mul(op, div(op, sub(op, sizes, 1), stride), stride), kernel)
    rest = op.emit("Max", sub(op, sizes, covered), op.const([0], np.int64))
    head = div(op, rest, 2)
    end = sub(op, sizes, sub(op, rest, head))
    shape = [*op.shape(x)[:2], *[None] * (op.rank(x) - 2)]
    return op.emit("Slice", x, head, end, op.const(np.arange(2, op.rank(x)), np.int64), shape=shape)


def caffe_pads(op: Op, window: Window, x: Value, fill: float) -> Value:
    """For legacy_pad CAFFE_LEGACY_POOLING: the image [N, C, ...] with the pads of Caffe's pooling, holding ``fill``.

    Caffe rounds the number of windows up, but drops a last one that would start in the tail's padding.
    """
    sizes = op.emit("Shape", x, start=2)
    head, stride, kernel = (op.const(v, np.int64) for v in (window.head, window.stride, window.kernel))
    steps = zip(window.kernel, window.stride, window.head, strict=True)
    last = div(op, add(op, sizes, op.const([2 * p - k + s - 1 for k, s, p in steps], np.int64)), stride)
    if any(window.head):
        late = op.emit("GreaterOrEqual", mul(op, last, stride), add(op, sizes, head))
        dropped = op.emit("And", late, op.const([p > 0 for p in window.head], np.bool_))
        last = sub(op, last, cast(op, dropped, ir.DataType.INT64))
    end = add(op, mul(op, last, stride), kernel)
    tail = op.emit("Max", sub(op, sub(op, end, sizes), head), op.const([0], np.int64))
    none = op.const([0, 0], np.int64)
    pads = op.emit("Concat", none, head, none, tail, axis=0)
    shape = [*op.shape(x)[:2], *[None] * (op.rank(x) - 2)]
    return op.emit("Pad", x, pads, op.const(fill, x), shape=shape)


def _check_last_window(op: Op, window: Window, x: Value) -> None:
    """Refuse Caffe's old pooling where its last window is known to hold nothing: real Caffe2 reads beyond the image."""
    if not window.may_start_outside:
        return
    for size, k, s, p in zip(op.shape(x)[2:], window.kernel, window.stride, window.head, strict=True):
        if isinstance(size, int) and not p and -(-(size - k) // s) * s >= size:
            op.unsupported(f"the last window of {k} pixels, {s} apart, holds none of {size}", code="invalid-operands")


def _legacy(op: Op) -> LegacyPad:
    number = op.args.integer("legacy_pad", default=0)
    if number not in LegacyPad.__members__.values():
        op.unsupported(f"legacy_pad {number} is unknown", code="invalid-argument")
    return LegacyPad(number)


def spelled(op: Op, plural: str, single: str, parts: Sequence[str], count: int) -> list[int]:
    """The values of an argument in one of its three spellings; empty where it is not given.

    As Caffe2 reads them: the one value fills up what ``plural`` gives, the parts (all of them, or none) go after it.
    """
    values = list(op.args.integers(plural, default=()))
    op.args.ignore(*parts)
    if single in op.args:
        return (values + [op.args.integer(single)] * count)[:count]
    if all(part in op.args for part in parts):
        values += [op.args.integer(part) for part in parts]
    return values
