"""Convolutions, transposed convolutions and Col2Im."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from caffe2_backend.emit.selection import append_element, element, gather, gather_padded, reverse, transpose
from caffe2_backend.emit.shapes import arange, as_value, dims_of, product, reshape
from caffe2_backend.emit.window import Window, image_sizes, kernel_shape, read_window
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import DOUBLE, FLOAT, INT32, INT64

family = Family("convolution")


@family.converts("Conv")
def conv(op: Op) -> Value:
    """``Conv(X, W, B=None; kernel_shape, strides, pads, dilations, auto_pad, group=1) -> Y``: Conv.

    Pads that are known at run time only are added to the image first. With a kernel whose sizes are known at run time
    only it is a product with the elements of all windows.
    """
    image = op.require(op.input(0), FLOAT)
    if "kernel_shape" not in op.args and op.static_shape(op.input(1)) is None:
        return _unfolded_conv(op, image, op.input(1))
    window = read_window(op, image, kernel_shape(op, op.input(1)))
    return convolve(op, image, op.input(1), window, op.args.integer("group", default=1), op.optional(2))


def convolve(op: Op, image: Value, kernel: Value, window: Window, group: int, bias: Value | None = None) -> Value:
    """Return Caffe2's Conv of an image of floats."""
    pads, arguments = window.known_pads, window.same_arguments
    if pads is not None:
        arguments = window.arguments(pads)
    elif arguments is None:
        for i, size in enumerate(dims_of(op, op.input(0))[2:]):
            low, high = as_value(op, window.pads[i]), as_value(op, window.pads[window.rank + i])
            image = gather_padded(op, image, i + 2, size, arange(op, size + low + high) - low)
        arguments = window.arguments([0] * (2 * window.rank))
    operands = [image, kernel] if bias is None else [image, kernel, bias]
    common = {"dilations": window.dilations, "group": group, "order": "NCHW"}
    return op.emit("Conv", *operands, outputs=1, **arguments, **common)


def _unfolded_conv(op: Op, image: Value, kernel: Value) -> Value:
    """Return the kernel, [group, outputs, taps], times the elements of the windows, [n, group, taps, windows]."""
    dims, sizes = dims_of(op, image), dims_of(op, kernel)
    rank, group = len(sizes) - 2, op.args.integer("group", default=1)
    if len(dims) != rank + 2:
        op.unsupported(f"an image of rank {len(dims)} and a kernel of rank {len(sizes)}", code="invalid-operands")
    window = read_window(op, image, [1] * rank)
    mode, columns, windows = op.args.text("auto_pad", default="NOTSET"), image, []
    for i, (size, taps) in enumerate(zip(dims[2:], sizes[2:], strict=True)):
        stride, dilation = window.strides[i], window.dilations[i]
        span = (taps - 1) * dilation + 1
        if mode.startswith("SAME"):
            count = (size + (stride - 1)) // stride
            pads = ((count - 1) * stride + span - size).maximum(0)
            low = pads // 2 if mode == "SAME_UPPER" else pads - pads // 2
        else:
            low = as_value(op, window.pads[i])
            count = (size + low + window.pads[rank + i] - span) // stride + 1
        starts, offsets = arange(op, count) * stride - low, arange(op, taps) * dilation
        indices = reshape(op, starts, [-1, 1]) + reshape(op, offsets, [1, -1])
        columns = gather_padded(op, columns, 2 + 2 * i, size, indices)
        windows.append(count)
    order = [0, 1, *(3 + 2 * i for i in range(rank)), *(2 + 2 * i for i in range(rank))]
    inner = product(op, sizes[1:])
    columns = reshape(op, transpose(op, columns, order), [dims[0], group, inner, -1])
    made = op.emit("BatchMatMul", reshape(op, kernel, [group, -1, inner]), columns, broadcast=1)
    y = reshape(op, made, [dims[0], sizes[0], *windows])
    return y + op.input(2).reshape([-1, *[1] * rank]) if op.has_input(2) else y


@family.converts("ConvTranspose")
def conv_transpose(op: Op) -> Value:
    """``ConvTranspose(X, W, B=None; kernel_shape, strides, pads, output_padding, ...) -> Y``: ConvTranspose.

    Caffe2's operator has two spatial axes and no dilations: one axis gets another of size 1 in front. Everything else
    is a Conv of an image with zeros between its elements.
    """
    op.require(op.input(0), FLOAT)
    kernel = list(kernel_shape(op, op.input(1)))
    rank = len(kernel)
    strides = list(op.args.integers("strides", default=()) or [1] * rank)
    dilations = list(op.args.integers("dilations", default=()) or [1] * rank)
    adjust = list(op.args.integers("output_padding", default=()) or [0] * rank)
    group = op.args.integer("group", default=1)
    wanted = op.args.integers("output_shape", default=())
    if op.rank(op.input(0)) != rank + 2 or len(adjust) != rank or (wanted and len(wanted) < rank):
        op.unsupported(
            f"a kernel of {rank} axes needs as many of the image, and as many sizes", code="invalid-operands"
        )
    pads = _transposed_pads(op, Window(kernel, strides, dilations, ()), adjust)
    is_own = all(dilation == 1 for dilation in dilations) and rank <= 2 and min(pads, default=0) >= 0
    if not is_own or any(more >= stride for more, stride in zip(adjust, strides, strict=True)):
        return _stretched_conv(op, Window(kernel, strides, dilations, pads), pads, adjust, group)
    x, w = op.input(0), op.input(1)
    if rank == 1:
        x, w = op.emit("ExpandDims", x, dims=[2]), op.emit("ExpandDims", w, dims=[2])
        kernel, strides, adjust, pads = [1, *kernel], [1, *strides], [0, *adjust], [0, pads[0], 0, pads[1]]
    bias = [op.input(2)] if op.has_input(2) else []
    y = op.emit("ConvTranspose", x, w, *bias, kernels=kernel, strides=strides, pads=pads, adjs=adjust, group=group)
    return op.emit("Squeeze", y, dims=[2]) if rank == 1 else y


def _stretched_conv(op: Op, window: Window, pads: Sequence[int], adjust: Sequence[int], group: int) -> Value:
    """Return a convolution, with the mirrored kernel and strides of 1, of an image with zeros between its elements.

    Along each axis element i of the image is moved to i * stride; reach - pad zeros surround the result, where reach is
    the extent of the dilated kernel less one. Elements outside of the image are read from a zero appended to its end.
    """
    rank = window.rank
    image, sizes = op.input(0), dims_of(op, op.input(0))
    for i in range(rank):
        size, stride = sizes[i + 2], window.strides[i]
        reach = (window.kernel[i] - 1) * window.dilations[i]
        low, high = reach - pads[i], reach - pads[rank + i] + adjust[i]
        stretched = (size - 1) * stride + 1
        position = arange(op, stretched + (low + high)) - low
        is_element = (position >= 0) & (position < stretched) & (position % stride <= 0)
        indices = (position // stride).select(size, is_element)
        image = gather(op, append_element(op, image, i + 2, 0), i + 2, indices)
    kernel = op.input(1)
    inputs, outputs = dims_of(op, kernel)[:2]
    for i in range(rank):
        kernel = reverse(op, kernel, i + 2, window.kernel[i])
    channels = -1 if inputs.integer is None else inputs.integer // group
    total = -1 if outputs.integer is None else outputs.integer * group
    if channels == total == -1:
        op.needs_shape("the sizes of the kernel are unknown")
    order = [0, 2, 1, *range(3, rank + 3)]
    split = transpose(op, reshape(op, kernel, [group, channels, outputs, *window.kernel]), order)
    kernel = reshape(op, split, [total, channels, *window.kernel])
    plain = Window(window.kernel, [1] * rank, window.dilations, [0] * (2 * rank))
    return convolve(op, image, kernel, plain, group, op.optional(2))


def _transposed_pads(op: Op, window: Window, adjust: list[int]) -> list[int]:
    """Return the pads of a transposed convolution; where ``output_shape`` is larger than the image, ``adjust`` grows.

    Without ``output_shape`` the output is size * stride, so that the pads do not depend on the size.
    """
    wanted = op.args.integers("output_shape", default=())
    mode = op.args.text("auto_pad", default="NOTSET")
    given = op.args.integers("pads", default=())
    if not wanted and mode in ("NOTSET", "VALID"):
        return list(given) if given and mode == "NOTSET" else [0] * (2 * window.rank)
    sizes = image_sizes(op, op.input(0)) if wanted else [1] * window.rank
    before, after = [], []
    for axis, (size, span, stride) in enumerate(zip(sizes, window.spans, window.strides, strict=True)):
        target = wanted[axis - window.rank] if wanted else size * stride
        cropped = stride * (size - 1) + adjust[axis] + span - target
        if cropped < 0:
            adjust[axis] -= cropped
        total = max(cropped, 0)
        less = total // 2
        # ONNX: the odd element is cropped after the image with SAME_UPPER, else before it.
        before.append(less if mode in ("SAME_UPPER", "NOTSET") else total - less)
        after.append(total - before[-1])
    return [*before, *after]


@family.converts("Col2Im")
def col2im(op: Op) -> Value:
    """``Col2Im(columns, image_shape, block_shape; strides, pads, dilations) -> image``: Gather and ReduceSum.

    Along one axis after the other each element of the image is the sum of the elements of the columns that were copied
    from it: tap k of block b was copied from b * stride + k * dilation - pad.
    """
    columns = op.require(op.input(0), FLOAT, DOUBLE, INT32, INT64)
    rank = op.list_length(op.input(1))
    if rank is None:
        op.needs_shape("the number of dims of the image is unknown")
    window = read_window(op, columns, [1] * rank)
    batch, width = dims_of(op, columns)[:2]
    shape, block_shape = op.input(1), op.input(2)
    sizes = [element(op, shape, i) for i in range(rank)]
    kernel = [element(op, block_shape, i) for i in range(rank)]
    blocks = []
    for i, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
        padding = as_value(op, window.pads[i]) + window.pads[rank + i] - 1
        blocks.append((size + padding - (k - 1) * window.dilations[i]) // window.strides[i] + 1)
    channels = width // reduce(lambda a, b: a * b, kernel)
    order = [0, 1, *(axis for i in range(rank) for axis in (2 + i, 2 + rank + i))]
    split = transpose(op, reshape(op, columns, [batch, channels, *kernel, *blocks]), order)
    merged = [k * block for k, block in zip(kernel, blocks, strict=True)]
    image = reshape(op, split, [batch, channels, *merged])
    for i, size in enumerate(sizes):
        taps = reshape(op, arange(op, kernel[i]), [1, -1])
        start = reshape(op, arange(op, size), [-1, 1]) + window.pads[i] - taps * window.dilations[i]
        block = start // window.strides[i]
        is_inside = (start >= 0) & (start % window.strides[i] <= 0) & (block < blocks[i])
        indices = (taps * blocks[i] + block).select(merged[i], is_inside)
        image = gather(op, append_element(op, image, i + 2, 0), i + 2, indices)
        image = op.emit("ReduceSum", image, axes=[i + 3], keepdims=0)
    return image
