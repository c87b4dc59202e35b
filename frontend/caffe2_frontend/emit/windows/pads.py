"""The pads of a window as explicit ones, applied to images and undone in gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from caffe2_frontend.emit.arithmetic import add, div, mul, sub
from caffe2_frontend.emit.windows.window import LegacyPad, Window, caffe_pads
from caffe2_frontend.lowering.op import Op, Value


def resolve_pads(op: Op, window: Window, x: Value) -> Window:
    """Return the window with the pads that legacy_pad implies for the image [N, C, ...] as explicit ones.

    The window is returned unchanged where they depend on sizes that are unknown at conversion. Explicit pads may be
    negative: they crop the image.
    """
    if window.legacy is LegacyPad.NOTSET:
        return window
    if window.legacy is LegacyPad.VALID:
        return replace(window, legacy=LegacyPad.NOTSET)
    pads = []
    for size, k, s, head in zip(op.shape(x)[2:], window.kernel, window.stride, window.head, strict=True):
        if window.legacy is LegacyPad.SAME and s == 1:
            pads.append(_halves(k - 1))
        elif not isinstance(size, int):
            return window
        elif window.legacy is LegacyPad.SAME:
            pads.append(_halves((-(-size // s) - 1) * s + k - size))
        else:
            last = -(-(size + 2 * head - k) // s)
            last -= head > 0 and last * s >= size + head
            pads.append((head, max(last * s + k - size - head, 0)))
    heads, tails = (tuple(side) for side in zip(*pads, strict=True))
    return replace(window, head=heads, tail=tails, legacy=LegacyPad.NOTSET)


def _halves(total: int) -> tuple[int, int]:
    """Split pads or cropped pixels in two; of an odd number the larger part goes to the end."""
    head = int(total / 2)
    return head, total - head


def pad_image(op: Op, window: Window, x: Value, fill: float) -> Value:
    """Return the image [N, C, ...] with all pads of the window applied; negative ones crop it."""
    if window.legacy is LegacyPad.CAFFE_LEGACY_POOLING:
        return caffe_pads(op, window, x, fill)
    if window.legacy is LegacyPad.SAME:
        sizes = op.emit("Shape", x, start=2)
        stride, kernel = (op.const(v, np.int64) for v in (window.stride, window.kernel))
        # (ceil(size / stride) - 1) * stride + kernel pixels are covered.
        covered = add(op, mul(op, div(op, sub(op, sizes, 1), stride), stride), kernel)
        total = sub(op, covered, sizes)
        head = div(op, total, 2)
        none = op.const([0, 0], np.int64)
        pads = op.emit("Concat", none, head, none, sub(op, total, head), axis=0)
        return op.emit("Pad", x, pads, op.const(fill, x), shape=[*op.shape(x)[:2], *[None] * (op.rank(x) - 2)])
    if not any((*window.head, *window.tail)):
        return x
    pads = op.const([0, 0, *window.head, 0, 0, *window.tail], np.int64)
    return op.emit("Pad", x, pads, op.const(fill, x) if fill else None)


def unpad_image(op: Op, window: Window, padded: Value, x: Value) -> Value:
    """Return the part of ``padded`` [N, C, ...] that lies over the image ``x`` [N, C, ...], 0 where it does not reach.

    ``padded`` begins with the window's pads before the image; it may end before or after the image does. This undoes
    :func:`pad_image`, for gradients.
    """
    dims = op.rank(x) - 2
    sizes, have = ([op.static_dim(value, axis) for axis in range(2, dims + 2)] for value in (x, padded))
    shape = [*op.shape(padded)[:2], *op.shape(x)[2:]]
    explicit = window.legacy is not LegacyPad.SAME
    if explicit and any(
        head >= (reach if got is None else got)
        for got, reach, head in zip(have, _reach(window), window.head, strict=True)
    ):
        # Pad cannot crop more pixels than there are.
        padded = op.emit("Pad", padded, op.const([*[0] * (dims + 4), *window.head], np.int64))
        have = [op.static_dim(padded, axis) for axis in range(2, dims + 2)]
    if explicit:
        tails = [
            None if length is None or got is None else length + head - got
            for length, got, head in zip(sizes, have, window.head, strict=True)
        ]
        if None not in tails:
            amounts = [0, 0, *(-head for head in window.head), 0, 0, *tails]
            return op.emit("Pad", padded, op.const(amounts, np.int64), shape=shape) if any(amounts) else padded
    missing = sub(op, op.emit("Shape", x, start=2), op.emit("Shape", padded, start=2))
    none = op.const([0, 0], np.int64)
    if not explicit:
        before = div(op, missing, 2)
        after = sub(op, missing, before)
    else:
        before = op.const([-head for head in window.head], np.int64)
        after = sub(op, missing, before) if any(window.head) else missing
    return op.emit("Pad", padded, op.emit("Concat", none, before, none, after, axis=0), shape=shape)


def _reach(window: Window) -> list[int]:
    """Return the pixels that one window reaches across, per dim."""
    return [d * (k - 1) + 1 for k, d in zip(window.kernel, window.dilation, strict=True)]


def uncovered(op: Op, window: Window, x: Value) -> list[int | None]:
    """Return the pixels of the padded image [N, C, ...] after the last window, per dim; None for an unknown size."""
    rest: list[int | None] = []
    for size, reach, s, *pads in zip(
        op.shape(x)[2:], _reach(window), window.stride, window.head, window.tail, strict=True
    ):
        rest.append(0 if s == 1 else (size + sum(pads) - reach) % s if isinstance(size, int) else None)
    return rest
