"""Int8 tensors: quantization, dequantization, constants, and operators that move bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.int8 import image, preserved, quantize_dnnlowp, stated, stated_for_bytes, uses_dnnlowp
from caffe2_torch.evaluation.layout import channels_last
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions import int8
from caffe2_torch.functions.int8 import Quantized
from caffe2_torch.ops.nn import image as images
from caffe2_torch.ops.tensor import concat_split, fill, shape

family = Family("int8")


@family.converts("Int8Quantize")
def quantize(op: Op) -> Value:
    x, how = op.tensor(0), stated_for_bytes(op, dnnlowp=True)
    if x.dtype != torch.float32:
        op.refuse("X must be float32")
    if uses_dnnlowp(op):
        return quantize_dnnlowp(x, how)
    return int8.quantize(x, *how)


@family.converts("Int8Dequantize")
def dequantize(op: Op) -> Value:
    return int8.dequantize(image(op, 0))


@family.converts("Int8GivenTensorFill", "Int8GivenIntTensorFill")
def given(op: Op) -> Value:
    how, value = stated(op, dnnlowp=True), fill.given(op)
    assert isinstance(value, torch.Tensor)
    return Quantized(value, how.scale, how.zero_point)


# Operators that move elements as their counterparts for other tensors do.
_MOVES: Final[dict[str, Callable[[Op], Any]]] = {
    "Int8ChannelShuffle": images.channel_shuffle,
    "Int8Flatten": shape.flatten_to_matrix,
    "Int8Reshape": shape.reshape_to,
    "Int8Transpose": shape.transpose,
}


@family.converts(*_MOVES)
def move(op: Op) -> tuple[Value, ...]:
    x = image(op, 0)
    how = preserved(op, x)
    if op.type == "Int8ChannelShuffle" and not channels_last(op):
        op.refuse("order must be NHWC for Int8 tensors")
    results = _MOVES[op.type](_of_bytes(op, x))
    y, *others = results if isinstance(results, tuple) else (results,)
    return Quantized(y, how.scale, how.zero_point), *others


def _of_bytes(op: Op, x: Quantized) -> Op:
    """Apply the operator to the bytes of its first operand."""
    return Op(op.view, (x.data, *op.values[1:]), op.context, op.blobs, op.bodies, op.control)


@family.converts("Int8Slice")
def cut(op: Op) -> Value:
    x = image(op, 0)
    how = preserved(op, x)
    if op.has(1) or not {"dim", "start_idx", "end_idx"} <= set(op.args):
        y = concat_split.slice_ranges(_of_bytes(op, x))
    else:
        rank = x.data.dim()
        axis = op.axis(op.args.integer("dim"), rank)
        starts, ends = (
            [*op.args.integers(name, default=()), *[whole] * rank][:rank]
            for name, whole in (("starts", 0), ("ends", -1))
        )
        starts[axis], ends[axis] = op.args.integer("start_idx"), op.args.integer("end_idx")
        y = concat_split.slice_tensor(op, x.data, starts, ends)
    assert isinstance(y, torch.Tensor)
    return Quantized(y, how.scale, how.zero_point)


@family.converts("Int8ResizeNearest")
def resize_nearest(op: Op) -> Value:
    op.args.ignore("order")
    x = image(op, 0)
    how = preserved(op, x)
    y = images.resize_nearest_by(op, ("height_scale", "width_scale"), x.data.movedim(-1, 1)).movedim(1, -1)
    return Quantized(y, how.scale, how.zero_point)


@family.converts("Int8Concat")
def concat(op: Op) -> tuple[Value, None]:
    """Take the scale of the first input for all of them, and write no split_info, as in Caffe2."""
    parts = [image(op, i) for i in range(op.count)]
    how = preserved(op, parts[0])
    order = op.args.text("order", default="")
    axis = op.args.integer("axis", default={"NHWC": 3, "NCHW": 1}.get(order, 0))
    return Quantized(torch.cat([part.data for part in parts], dim=axis), how.scale, how.zero_point), None
