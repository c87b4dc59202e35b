"""The gradient of the maximum of a moving window, which goes to every pixel that equals the maximum.

Up to ``q = ceil(kernel / stride)`` windows per dim cover a pixel: the one that starts in the pixel's block of stride
pixels, and those that start in the q - 1 blocks before. With maxima and gradients repeated over blocks, the pixels are
compared with each of these in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.emit.arithmetic import add, binary, mul
from caffe2_frontend.emit.shapes import cast, indices, size, unsqueeze
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.emit.windows.pads import unpad_image
from caffe2_frontend.emit.windows.sums import repeat_pixels
from caffe2_frontend.emit.windows.window import Window
from caffe2_frontend.lowering.op import Op, Value

# Up to this many comparisons are emitted one by one; more in a Loop.
_UNROLLED: Final = 9


def where_equal(op: Op, x: Value, y: Value, dy: Value) -> Value:
    """Return ``dy`` where ``x`` equals ``y``, else 0: as Caffe2, the product with 1 or 0, faster than a choice."""
    return mul(op, dy, cast(op, op.emit("Equal", x, y), op.dtype(dy)))


def max_gradient(op: Op, x: Value, y: Value, dy: Value, window: Window) -> Value:
    """Return the gradient of the image ``x`` [N, C, ...], for maxima ``y`` and their gradient ``dy`` [N, C, *out].

    The pads of the window must be explicit and not negative; it must have no dilations.
    """
    if window.kernel == window.stride and not any((*window.head, *window.tail)):
        return _of_separate_windows(op, x, y, dy, window)
    covering = [-(-k // s) for k, s in zip(window.kernel, window.stride, strict=True)]
    before, after = [q - 1 for q in covering], _blocks_after(op, x, y, window)
    pads = op.const([0, 0, *before, 0, 0, *after], np.int64)
    if any((*before, *after)):
        y, dy = op.emit("Pad", y, pads, op.const(np.nan, y)), op.emit("Pad", dy, pads)
    y, dy = (repeat_pixels(op, value, window.stride) for value in (y, dy))
    op.bounded(len(covering), *covering)
    shifts = np.indices(covering).reshape(len(covering), -1).T
    starts = (np.array(before) - shifts) * window.stride + window.head
    # Of a block of stride pixels, the window reaches as many as the kernel has left.
    limits = window.kernel - shifts * window.stride
    phases = {
        dim: _phases(op, x, window, dim)
        for dim, (k, s) in enumerate(zip(window.kernel, window.stride, strict=True))
        if k % s
    }
    if len(shifts) > _UNROLLED:
        return _in_loop(op, x, y, dy, starts, limits, phases)
    parts = []
    for start, limit in zip(starts.tolist(), limits.tolist(), strict=True):
        masks = [
            binary(op, "Less", phase, limit[dim]) for dim, phase in phases.items() if limit[dim] < window.stride[dim]
        ]
        at = op.const(start, np.int64)
        parts.append(_compared(op, x, _cropped(op, y, x, at, start), _cropped(op, dy, x, at, start), masks))
    return add(op, parts[0], *parts[1:])


def _of_separate_windows(op: Op, x: Value, y: Value, dy: Value, window: Window) -> Value:
    """Return the gradient for windows that neither overlap nor leave pixels out, except those after the last window."""
    repeated = [repeat_pixels(op, value, window.stride) for value in (y, dy)]
    covered, sizes = op.shape(repeated[0])[2:], op.shape(x)[2:]
    if all(isinstance(a, int) and a == b for a, b in zip(covered, sizes, strict=True)):
        return where_equal(op, x, *repeated)
    starts, axes = op.const([0] * len(covered), np.int64), op.const(np.arange(2, op.rank(x)), np.int64)
    ends = mul(op, op.emit("Shape", y, start=2), op.const(window.stride, np.int64))
    cropped = op.emit("Slice", x, starts, ends, axes, shape=[*op.shape(x)[:2], *covered])
    return unpad_image(op, window, where_equal(op, cropped, *repeated), x)


def _blocks_after(op: Op, x: Value, y: Value, window: Window) -> list[int]:
    """Return the number of blocks per dim after that of the last window, which pixels lie in."""
    blocks = []
    for dim, (k, s, p) in enumerate(zip(window.kernel, window.stride, window.head, strict=True), 2):
        length, windows = op.static_dim(x, dim), op.static_dim(y, dim)
        if length is None or windows is None:
            blocks.append((k + s - 2) // s)
        else:
            blocks.append(max((length - 1 + p) // s - (windows - 1), 0))
    return blocks


def _phases(op: Op, x: Value, window: Window, dim: int) -> Value:
    """Return the index of each pixel along a spatial dim in its block, [size, 1, ...] with ones for the dims after."""
    index = indices(op, size(op, x, dim + 2))
    phase = binary(op, "Mod", add(op, index, window.head[dim]), window.stride[dim])
    return unsqueeze(op, phase, range(1, len(window.kernel) - dim))


def _cropped(op: Op, value: Value, x: Value, at: Value, start: Sequence[int] | None = None) -> Value:
    """Return ``value`` [N, C, ...] from pixel ``at`` on, as large as ``x``; ``start`` is ``at`` if that is known."""
    shape = [*op.shape(value)[:2], *op.shape(x)[2:]]
    if (
        start is not None
        and not any(start)
        and all(isinstance(a, int) and a == b for a, b in zip(op.shape(value)[2:], op.shape(x)[2:], strict=True))
    ):
        return value
    axes = op.const(np.arange(2, op.rank(x)), np.int64)
    known = op.static_shape(x)
    sizes = op.emit("Shape", x, start=2) if known is None else op.const(known[2:], np.int64)
    return op.emit("Slice", value, at, op.emit("Add", at, sizes), axes, shape=shape)


def _compared(op: Op, x: Value, y: Value, dy: Value, masks: Sequence[Value]) -> Value:
    """Return ``dy`` where ``x`` equals ``y`` and all masks hold, else 0."""
    if not masks:
        return where_equal(op, x, y, dy)
    mask = masks[0]
    for other in masks[1:]:
        mask = op.emit("And", mask, other)
    return mul(op, dy, cast(op, op.emit("And", op.emit("Equal", x, y), mask), op.dtype(dy)))


def _in_loop(op: Op, x: Value, y: Value, dy: Value, starts: Array, limits: Array, phases: dict[int, Value]) -> Value:
    """Sum the comparisons in a Loop, one per iteration."""
    all_starts = op.const(starts, np.int64)
    of_dim = {dim: op.const(limits[:, dim], np.int64) for dim in phases}

    def step(inside: Op, states: list[Value], iteration: list[Value]) -> tuple[list[Value], list[Value]]:
        at = inside.emit("Gather", all_starts, iteration[0], axis=0)
        masks = [
            inside.emit("Less", phase, inside.emit("Gather", of_dim[dim], iteration[0], axis=0))
            for dim, phase in phases.items()
        ]
        part = _compared(inside, x, _cropped(inside, y, x, at), _cropped(inside, dy, x, at), masks)
        return [inside.emit("Add", states[0], part)], []

    zeros = op.emit("Expand", op.const(0.0, x), op.emit("Shape", x), shape=op.shape(x))
    (total,), _ = loop(op, len(starts), None, [zeros], step)
    return total
