"""Convolutions."""

from __future__ import annotations

from functools import reduce
from typing import Any

from caffe2_backend.emit.shapes import dim_parts, extended, moved, reshaped, taken
from caffe2_backend.emit.value import Number, as_part, count, entry, gathered, steps
from caffe2_backend.emit.window import Pad, Window, image_dims, read_window
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import DOUBLE, FLOAT, INT32, INT64, Op

family = Family("convolution")


def kernel_shape(op: Op, index: int = 1) -> list[int]:
    """The sizes of a kernel's spatial axes: the attribute, else those of operand ``index``."""
    given = op.integers("kernel_shape")
    if given is not None:
        return given
    dims = op.dims(index)
    if dims is None:
        op.unsupported("a kernel of unknown size", code="needs-shape")
    return list(dims[2:])


@family.converts("Conv")
def conv(op: Op) -> str:
    op.require(0, FLOAT)
    window = read_window(op, kernel_shape(op))
    group = op.integer("group", 1)
    return convolved(op, op.input(0), op.input(1), window, group, op.input(2) if op.has_input(2) else "")


def convolved(op: Op, image: str, kernel: str, window: Window, group: int, bias: str = "") -> str:
    """Caffe2's convolution of an image of floats; pads that are known at run time alone are put around it."""
    pads = window.fixed_pads
    if pads is None:
        for axis, part in enumerate(dim_parts(op, 0)[2:]):
            image = _padded(op, image, axis + 2, count(op, part), window.pads[axis], window.pads[window.rank + axis])
        pads = [0] * 2 * window.rank
    arguments: dict[str, Any] = window.arguments(pads)
    operands = [image, kernel, bias] if bias else [image, kernel]
    made: str = op.emit("Conv", *operands, **arguments, dilations=window.dilations, group=group, order="NCHW")
    return made


def _padded(op: Op, image: str, axis: int, size: Number, low: Pad, high: Pad) -> str:
    """An image of floats with zeros before and behind an axis."""
    places = steps(op, size + low + high) - low
    inside = (places >= 0) & (places < size)
    return gathered(op, extended(op, image, FLOAT, axis, 0), axis, places.chosen(size, inside))


@family.converts("ConvTranspose")
def conv_transpose(op: Op) -> str:
    """Caffe2's own in two dims, one dim as two of which the first is one; else a convolution of a stretched image."""
    op.require(0, FLOAT)
    kernel = kernel_shape(op)
    rank = len(kernel)
    strides = op.integers("strides") or [1] * rank
    dilations = op.integers("dilations") or [1] * rank
    extra = list(op.integers("output_padding") or [0] * rank)
    group = op.integer("group", 1)
    pads = _pads(op, Window(kernel, strides, dilations, []), extra)
    window = Window(kernel, strides, dilations, pads)
    own = all(dilation == 1 for dilation in dilations) and rank <= 2 and min(pads) >= 0
    if not own or any(more >= stride for more, stride in zip(extra, strides, strict=True)):
        return _stretched(op, window, pads, extra, group)
    x, w = op.input(0), op.input(1)
    if rank == 1:
        x, w = op.emit("ExpandDims", x, dims=[2]), op.emit("ExpandDims", w, dims=[2])
        kernel, strides, extra, pads = [1, *kernel], [1, *strides], [0, *extra], [0, pads[0], 0, pads[1]]
    bias = [op.input(2)] if op.has_input(2) else []
    made = op.emit("ConvTranspose", x, w, *bias, kernels=kernel, strides=strides, pads=pads, adjs=extra, group=group)
    return op.emit("Squeeze", made, dims=[2]) if rank == 1 else made


def _stretched(op: Op, window: Window, pads: list[int], extra: list[int], group: int) -> str:
    """Zeros between the entries of the image and around it, convolved with the mirrored kernel."""
    rank = window.rank
    image, parts = op.input(0), dim_parts(op, 0)
    for i in range(rank):
        size, stride = count(op, parts[i + 2]), window.strides[i]
        reach = (window.kernel[i] - 1) * window.dilations[i]
        low, high = reach - pads[i], reach - pads[rank + i] + extra[i]
        whole = (size - 1) * stride + 1
        place = steps(op, whole + (low + high)) - low
        entry = (place >= 0) & (place < whole) & (place % stride <= 0)
        image = gathered(op, extended(op, image, FLOAT, i + 2, 0), i + 2, (place // stride).chosen(size, entry))
    kernel = op.input(1)
    for i in range(rank):
        kernel = taken(op, kernel, range(window.kernel[i] - 1, -1, -1), i + 2)
    inner = dim_parts(op, 1)[:2]
    channels = inner[0] // group if isinstance(inner[0], int) else -1
    order = [0, 2, 1, *range(3, rank + 3)]
    parted = moved(op, reshaped(op, kernel, [group, channels, inner[1], *window.kernel]), order)
    made = inner[1] * group if isinstance(inner[1], int) else -1
    if channels == made == -1:
        op.unsupported("a kernel of unknown size", code="needs-shape")
    kernel = reshaped(op, parted, [made, channels, *window.kernel])
    plain = Window(window.kernel, [1] * rank, window.dilations, [0] * 2 * rank)
    return convolved(op, image, kernel, plain, group, op.input(2) if op.has_input(2) else "")


@family.converts("Col2Im")
def columns_to_image(op: Op) -> str:
    """Each entry of the image is the sum of those of the columns that were taken from it, one axis after the other."""
    op.require(0, FLOAT, DOUBLE, INT32, INT64)
    rank = op.dim(0, 1)
    if rank is None:
        op.unsupported("an image of an unknown number of dims", code="needs-shape")
    window, parts = read_window(op, [1] * rank), dim_parts(op, 0)
    sizes = [entry(op, 1, i, INT64) for i in range(rank)]
    kernel = [entry(op, 2, i, INT64) for i in range(rank)]
    blocks = []
    for i, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
        free = size + (window.pads[i] + window.pads[rank + i] - 1) - (k - 1) * window.dilations[i]
        blocks.append(free // window.strides[i] + 1)
    channels = as_part(count(op, parts[1]) // reduce(lambda a, b: a * b, kernel))
    order = [0, 1, *(axis for i in range(rank) for axis in (2 + i, 2 + rank + i))]
    split = reshaped(op, op.input(0), [parts[0], channels, *map(as_part, [*kernel, *blocks])])
    merged = [as_part(k * block) for k, block in zip(kernel, blocks, strict=True)]
    image = reshaped(op, moved(op, split, order), [parts[0], channels, *merged])
    for i, size in enumerate(sizes):
        taps = steps(op, kernel[i]).reshape(1, -1)
        start = steps(op, size).reshape(-1, 1) + window.pads[i] - taps * window.dilations[i]
        block = start // window.strides[i]
        inside = (start >= 0) & (start % window.strides[i] <= 0) & (block < blocks[i])
        places = (taps * blocks[i] + block).chosen(blocks[i] * kernel[i], inside)
        spread = gathered(op, extended(op, image, op.dtype(), i + 2, 0), i + 2, places)
        image = op.emit("ReduceSum", spread, axes=[i + 3], keepdims=0)
    return image


def _pads(op: Op, window: Window, extra: list[int]) -> list[int]:
    """The pads; where the output is to be larger than the image, what it has more at its end is added to ``extra``."""
    wanted, mode = op.integers("output_shape"), op.text("auto_pad", "NOTSET")
    given = op.integers("pads")
    if wanted is None and mode in ("NOTSET", "VALID"):
        return given if given is not None and mode == "NOTSET" else [0] * 2 * window.rank
    # without a size that is asked for, the output is as large as the strides make the image, and its size is no matter
    sizes = [1] * window.rank if wanted is None else image_dims(op)
    before, after = [], []
    for axis, (size, span, stride) in enumerate(zip(sizes, window.spans, window.strides, strict=True)):
        target = size * stride if wanted is None else wanted[axis - window.rank]
        cropped = stride * (size - 1) + extra[axis] + span - target
        if cropped < 0:
            extra[axis] -= cropped
        total = max(cropped, 0)
        less = total // 2
        # ONNX: the odd one is put before the image with SAME_UPPER, else after it.
        before.append(less if mode in ("SAME_UPPER", "NOTSET") else total - less)
        after.append(total - before[-1])
    return [*before, *after]
