"""Convolutions."""

from __future__ import annotations

from typing import Any

from caffe2_backend.family import Family
from caffe2_backend.op import FLOAT, Op
from caffe2_backend.window import image_dims, read_window

family = Family("convolution")


def _kernel(op: Op) -> list[int]:
    given = op.integers("kernel_shape")
    if given is not None:
        return given
    dims = op.dims(1)
    if dims is None:
        op.unsupported("a kernel of unknown size", code="needs-shape")
    return list(dims[2:])


@family.converts("Conv")
def conv(op: Op) -> str:
    op.require(0, FLOAT)
    window = read_window(op, _kernel(op))
    operands = [op.input(i) for i in range(op.input_count) if op.has_input(i)]
    group = op.integer("group", 1)
    arguments: dict[str, Any] = window.arguments()
    made: str = op.emit("Conv", *operands, **arguments, dilations=window.dilations, group=group, order="NCHW")
    return made


@family.converts("ConvTranspose")
def conv_transpose(op: Op) -> str:
    """In two dims; one dim is two of which the first is one."""
    op.require(0, FLOAT)
    kernel = _kernel(op)
    rank = len(kernel)
    strides = op.integers("strides") or [1] * rank
    dilations = op.integers("dilations") or [1] * rank
    extra = list(op.integers("output_padding") or [0] * rank)
    group = op.integer("group", 1)
    if any(dilation != 1 for dilation in dilations) or rank > 2:
        op.unsupported("Caffe2 has transposed convolutions in two dims, without dilation")
    pads = _pads(op, kernel, strides, extra)
    if min(pads) < 0:
        op.unsupported("pads below zero")
    x, w = op.input(0), op.input(1)
    if rank == 1:
        x, w = op.emit("ExpandDims", x, dims=[2]), op.emit("ExpandDims", w, dims=[2])
        kernel, strides, extra, pads = [1, *kernel], [1, *strides], [0, *extra], [0, pads[0], 0, pads[1]]
    bias = [op.input(2)] if op.has_input(2) else []
    made = op.emit("ConvTranspose", x, w, *bias, kernels=kernel, strides=strides, pads=pads, adjs=extra, group=group)
    return op.emit("Squeeze", made, dims=[2]) if rank == 1 else made


def _pads(op: Op, kernel: list[int], strides: list[int], extra: list[int]) -> list[int]:
    """The pads; where the output is to be larger than the image, what it has more at its end is added to ``extra``."""
    wanted, mode = op.integers("output_shape"), op.text("auto_pad", "NOTSET")
    given = op.integers("pads")
    if wanted is None and mode in ("NOTSET", "VALID"):
        return given if given is not None and mode == "NOTSET" else [0] * 2 * len(kernel)
    before, after = [], []
    for axis, (size, k, stride) in enumerate(zip(image_dims(op), kernel, strides, strict=True)):
        target = size * stride if wanted is None else wanted[axis - len(kernel)]
        cropped = stride * (size - 1) + extra[axis] + k - target
        if cropped < 0:
            extra[axis] -= cropped
        if extra[axis] >= stride:
            op.unsupported(f"{extra[axis]} more than the image at its end, with a stride of {stride}")
        total = max(cropped, 0)
        less = total // 2
        # ONNX: the odd one is put before the image with SAME_UPPER, else after it.
        before.append(less if mode in ("SAME_UPPER", "NOTSET") else total - less)
        after.append(total - before[-1])
    return [*before, *after]
