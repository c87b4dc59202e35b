"""Pools."""

from __future__ import annotations

from typing import Any

from caffe2_backend.family import Family
from caffe2_backend.op import FLOAT, Op
from caffe2_backend.shapes import NARROW
from caffe2_backend.window import Window, image_dims, read_window

family = Family("pooling")


@family.converts("MaxPool", "AveragePool")
def pool(op: Op) -> str:
    """Windows that begin in the image and run over its end (``ceil_mode``) are further pads of a MaxPool."""
    window = read_window(op, op.integers("kernel_shape") or [])
    op.ignore("storage_order")
    if any(dilation != 1 for dilation in window.dilations):
        op.unsupported("Caffe2 has no pools with dilation")
    include = op.integer("count_include_pad", 0)
    if op.integer("ceil_mode", 0):
        window = _ceiled(op, window, average=op.type == "AveragePool" and bool(include))
    if any(pad >= size for pad, size in zip(window.pads, window.kernel * 2, strict=True)):
        op.unsupported("pads as wide as the kernel")
    dtype, blob = op.dtype(), op.input(0)
    arguments: dict[str, Any] = window.arguments()
    if op.type == "MaxPool" and dtype in NARROW:
        return op.cast(op.emit("MaxPool", op.cast(blob, FLOAT), **arguments, order="NCHW"), dtype)
    op.require(0, FLOAT)
    if include and op.type == "AveragePool":
        arguments["count_include_pad"] = 1
    made: str = op.emit(op.type, blob, **arguments, order="NCHW")
    return made


def _ceiled(op: Op, window: Window, *, average: bool) -> Window:
    rank = window.rank
    after = list(window.pads[rank:])
    for axis, size in enumerate(image_dims(op)):
        low, high, k, stride = window.pads[axis], window.pads[rank + axis], window.kernel[axis], window.strides[axis]
        count = -(-(size + low + high - k) // stride) + 1
        if (count - 1) * stride >= size + low:
            count -= 1  # the last window would begin behind the image
        needed = max((count - 1) * stride + k - size - low - high, 0)
        if needed and average:
            op.unsupported("ceil_mode of an average that counts pads")
        after[axis] = high + needed
    return Window(window.kernel, window.strides, window.dilations, [*window.pads[:rank], *after])


@family.converts("GlobalAveragePool", "GlobalMaxPool")
def global_pool(op: Op) -> str:
    op.require(0, FLOAT)
    rank = op.rank() - 2
    if rank < 1 or rank > 3:
        op.unsupported(f"an image of {rank} dims")
    kind = "AveragePool" if op.type == "GlobalAveragePool" else "MaxPool"
    return op.emit(kind, op.input(0), global_pooling=1, order="NCHW")
