"""The window of convolutions and poolings: its arguments in every form, and Caffe2's legacy padding.

An argument of the window has three forms: one value for all dims (``kernel``), one per dim (``kernels``), and one per
named dim (``kernel_h``, ``kernel_w``; for pads ``pad_t``, ``pad_l``, ``pad_b``, ``pad_r``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.netdef.window import window_argument, window_rank
from caffe2_frontend.emit.arithmetic import add, div, mul, sub
from caffe2_frontend.emit.layout import channels_last
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.lowering.op import Op, Value


class LegacyPad(IntEnum):
    """How the pads follow from the sizes (the argument ``legacy_pad``)."""

    NOTSET = 0
    VALID = 1
    SAME = 2
    CAFFE_LEGACY_POOLING = 3


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
    legacy: LegacyPad
    channels_last: bool

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of ONNX's Conv and pooling operators; those at their defaults are None."""
        same = self.legacy is LegacyPad.SAME
        pads = [*self.head, *self.tail]
        return {
            "kernel_shape": list(self.kernel),
            "strides": list(self.stride) if set(self.stride) != {1} else None,
            "dilations": list(self.dilation) if set(self.dilation) != {1} else None,
            "pads": pads if any(pads) and not same else None,
            "auto_pad": "SAME_UPPER" if same else None,
        }


def image_rank(op: OpView) -> int | None:
    """Return the rank of the image that the arguments imply, None if they leave it open."""
    rank = window_rank(op.args)
    return None if rank is None else rank + 2


def read_window(op: Op, rank: int, *, dilated: bool = True, whole: bool = False, exact: bool = False) -> Window:
    """Read the arguments of a window over images of rank ``rank`` (batch and channels included).

    Args:
        op: the operator under conversion.
        rank: the rank of the image.
        dilated: whether the operator reads dilations.
        whole: whether it reads ``global_pooling``.
        exact: whether more sizes than spatial dims are refused; otherwise the first ones count.
    """
    op.args.ignore("group", "shared_buffer", "float16_compute")
    legacy = _legacy(op)
    kernel = window_argument(op.args, "kernel", 2)
    stride = window_argument(op.args, "stride", 2)
    dilation = window_argument(op.args, "dilation", 2) if dilated else []
    pads = window_argument(op.args, "pad", 4)
    if legacy in (LegacyPad.VALID, LegacyPad.SAME) and (pads or "pads" in op.args):
        op.unsupported(
            f"pads must not be given with legacy_pad {legacy.name}",
            hint="remove the pads, or set legacy_pad=0",
            code="invalid-argument",
        )
    last = channels_last(op)
    dims = rank - 2
    if dims < 1:
        op.unsupported(
            f"X must have batch, channels and at least one spatial dim, not rank {rank}", code="invalid-operands"
        )
    is_global = bool(op.args.integer("global_pooling", default=0))
    if is_global and not whole:
        op.unsupported(f"{op.type} has no conversion with global_pooling", code="invalid-argument")
    if is_global:
        if any(pads) or set(stride) - {1} or set(dilation) - {1}:
            op.unsupported(
                "global_pooling must not be combined with pads, strides or dilations", code="invalid-argument"
            )
        return Window((), (), (), (), (), LegacyPad.NOTSET, last)
    count = len(kernel)
    stride, dilation, pads = stride or [1] * count, dilation or [1] * count, pads or [0] * (2 * count)
    if len(stride) != count or len(dilation) != count or len(pads) != 2 * count:
        op.unsupported(
            "the window must have as many strides and dilations as kernel sizes, and twice as many pads, "
            f"not {count} kernel sizes, {len(stride)} strides, {len(dilation)} dilations and {len(pads)} pads",
            code="invalid-argument",
        )
    if count < dims or (exact and count > dims):
        op.unsupported(
            f"the window must have one kernel size per spatial dim ({dims}), not {count}", code="invalid-argument"
        )
    _check_counted(op, kernel, stride, dilation, pads)
    if legacy is LegacyPad.SAME and set(dilation) != {1}:
        op.unsupported("legacy_pad SAME must not be combined with dilations", code="invalid-argument")
    k, s, d, head, tail = (tuple(values[:dims]) for values in (kernel, stride, dilation, pads, pads[dims:]))
    return Window(k, s, d, head, tail, legacy, last)


def read_pooling_window(op: Op, rank: int) -> Window:
    """Read the arguments of a pooling's window, whose pads are less than the kernel."""
    window = read_window(op, rank, whole=True)
    if set(window.dilation) - {1}:
        op.unsupported("dilation must be 1: Caffe2's pooling does not support it", code="invalid-argument")
    for k, *pads in zip(window.kernel, window.head, window.tail, strict=True):
        if max(pads) >= k or min(pads) < 0:
            op.unsupported(
                f"pads must be at least 0 and less than the kernel size ({k}), not {pads}", code="invalid-argument"
            )
    return window


def check_fits(op: Op, window: Window, x: Value, *, pooled: bool = False) -> None:
    """Refuse a window that is known to be larger than the padded image [N, C, ...].

    Args:
        op: the operator under conversion.
        window: the window.
        x: the image.
        pooled: whether a last window of Caffe's legacy pooling that starts behind the image is refused.
    """
    if window.legacy is not LegacyPad.NOTSET:
        _check_last_window(op, window, x, pooled=pooled)
        return
    for size, k, d, *pads in zip(
        op.shape(x)[2:], window.kernel, window.dilation, window.head, window.tail, strict=True
    ):
        if isinstance(size, int) and size + sum(pads) < d * (k - 1) + 1:
            op.unsupported(
                f"the window ({d * (k - 1) + 1} pixels) must fit into the image ({size}) with its pads {pads}",
                code="invalid-operands",
            )


def crop_gaps(op: Op, window: Window, x: Value) -> Value:
    """Crop the image [N, C, ...] by its negative pads for legacy_pad SAME.

    A stride longer than the kernel leaves pixels beyond the last window. Caffe2 crops half of them from the front, and
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
    """Pad the image [N, C, ...] with ``fill`` as Caffe's pooling does, for legacy_pad CAFFE_LEGACY_POOLING.

    Caffe rounds the number of windows up, but drops a last window that would start in the padding after the image.
    """
    sizes = op.emit("Shape", x, start=2)
    head, stride, kernel = (op.const(v, np.int64) for v in (window.head, window.stride, window.kernel))
    reach = [2 * p - k + s - 1 for k, s, p in zip(window.kernel, window.stride, window.head, strict=True)]
    last = div(op, add(op, sizes, op.const(reach, np.int64)), stride)
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


def _check_last_window(op: Op, window: Window, x: Value, *, pooled: bool) -> None:
    """Refuse Caffe's legacy pooling where the image ends before its first window, or its last window starts behind it.

    Real Caffe2 counts no windows, or fewer, for the former, and reads out of bounds for the latter.
    """
    for size, k, s, p in zip(op.shape(x)[2:], window.kernel, window.stride, window.head, strict=True):
        if not isinstance(size, int):
            continue
        if window.legacy is not LegacyPad.CAFFE_LEGACY_POOLING:
            continue
        if size + 2 * p - k <= -s:
            op.unsupported(
                f"an image of {size} pixels must not end a stride of {s} before the window of {k} with pads of {p}",
                code="invalid-operands",
            )
        if pooled and not p and -(-(size - k) // s) * s >= size:
            op.unsupported(
                f"the last window (kernel {k}, stride {s}) must overlap the image of {size} pixels; it lies beyond it",
                code="invalid-operands",
            )


def _check_counted(op: Op, kernel: list[int], stride: list[int], dilation: list[int], pads: list[int]) -> None:
    """Refuse a window that is not positive, and one that Caffe2, which counts pixels in 32 bits, takes for another."""
    if min(kernel) < 1 or min(stride) < 1 or min(dilation) < 1:
        op.unsupported("kernel, stride and dilation must be positive", code="invalid-argument")
    if any(d * (k - 1) + 1 >= 2**31 for k, d in zip(kernel, dilation, strict=True)):
        op.unsupported(
            "a dilated window must be within 32 bits, in which Caffe2 counts pixels", code="invalid-argument"
        )
    check_pads(op, pads)


def check_pads(op: Op, pads: Sequence[int]) -> None:
    """Refuse pads (those before each dim, then those after) whose sum leaves the 32 bits that Caffe2 adds them in."""
    count = len(pads) // 2
    if any(not -(2**31) <= head + tail < 2**31 for head, tail in zip(pads[:count], pads[count:], strict=True)):
        op.unsupported(
            f"the pads of a dim together must be within 32 bits, in which Caffe2 counts pixels, not {list(pads)}",
            code="invalid-argument",
        )


def _legacy(op: Op) -> LegacyPad:
    number = op.args.integer("legacy_pad", default=0)
    if number not in LegacyPad.__members__.values():
        op.unsupported(f"legacy_pad must be 0, 1, 2 or 3, not {number}", code="invalid-argument")
    return LegacyPad(number)
