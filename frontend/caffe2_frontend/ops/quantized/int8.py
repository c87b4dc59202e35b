"""Int8 tensors: quantization, dequantization, constants, and operators that move bytes.

The arguments Y_scale (1.0) and Y_zero_point (0) of all of these are the quantization of the output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import mul, sub
from caffe2_frontend.emit.int8_values import (
    BYTE,
    IMAGE,
    mark_quantized,
    output_quantization,
    preserved_quantization,
    quantization,
    quantize_dnnlowp,
    require_bytes,
    stated_quantization,
    uses_dnnlowp,
)
from caffe2_frontend.emit.layout import channels_last
from caffe2_frontend.emit.operand_checks import require_dtype, require_rank
from caffe2_frontend.emit.shapes import cast
from caffe2_frontend.emit.windows.resampling import resize_nearest_by
from caffe2_frontend.interop.types import Quantization, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Outputs, Value
from caffe2_frontend.ops.nn import image
from caffe2_frontend.ops.tensor import concat_split, fill, shape

family = Family("int8")

_BYTES: Final = {0: TensorInfo(BYTE)}
_RANGES: Final = TensorInfo(ir.DataType.INT64, (None,))


@family.converts("Int8Quantize", expects={0: TensorInfo(ir.DataType.FLOAT)})
def quantize(op: Op) -> Value:
    """Int8Quantize(X; Y_scale=1.0, Y_zero_point=0) -> Y."""
    return quantize_value(op, op.input(0))


def quantize_value(op: Op, x: Value) -> Value:
    """Quantize ``x`` as the arguments of an Int8Quantize state."""
    require_dtype(op, x, (ir.DataType.FLOAT,), "X")
    how = output_quantization(op, dnnlowp=True)
    if uses_dnnlowp(op):
        return quantize_dnnlowp(op, x, how)
    scale, zero_point = op.const(how.scale, np.float32), op.const(how.zero_point, np.uint8)
    return mark_quantized(op.emit("QuantizeLinear", x, scale, zero_point), how)


@family.converts("Int8Dequantize", expects=_BYTES)
def dequantize(op: Op) -> Value:
    """Int8Dequantize(qX) -> Y."""
    return dequantize_value(op, op.input(0))


def dequantize_value(op: Op, x: Value) -> Value:
    """Dequantize ``x``.

    Emitted as arithmetic. onnxruntime 1.31: it crashes on a DequantizeLinear whose result a body reads.
    """
    x = require_bytes(op, x, "X")
    how = quantization(op, x)
    steps = sub(op, cast(op, x, ir.DataType.FLOAT), how.zero_point)
    return mul(op, steps, how.scale)


@family.converts("Int8GivenTensorFill", "Int8GivenIntTensorFill")
def given(op: Op) -> Outputs:
    """Int8GivenTensorFill | Int8GivenIntTensorFill(; values, shape, Y_scale=1.0, Y_zero_point=0) -> Y.

    The elements are uint8, or int32 (of a bias).
    """
    return _mark_first(fill.given_tensor(op), stated_quantization(op, dnnlowp=True))


# Operators on Int8 tensors that move elements as their counterparts for other tensors do.
_MOVES: Final[dict[str, Callable[[Op], Outputs]]] = {
    "Int8ChannelShuffle": image.channel_shuffle,
    "Int8Flatten": shape.flatten_to_matrix,
    "Int8Reshape": shape.reshape_to,
    "Int8Transpose": shape.transpose,
}


@family.converts(*_MOVES, expects={0: TensorInfo(BYTE), 1: _RANGES, 2: _RANGES})
def move(op: Op) -> Outputs:
    """Move elements, with the arguments of the counterpart, and Y_scale and Y_zero_point of the input.

    Int8ChannelShuffle(X; group, order="NHWC") | Int8Flatten(X; axis=1) | Int8Transpose(X; axes) -> Y.
    Int8Reshape(data[, new_shape]; shape) -> reshaped, old_shape.
    """
    x = require_bytes(op, op.input(0), "X")
    how = preserved_quantization(op, x)
    if op.type == "Int8ChannelShuffle":
        require_rank(op, x, 4, "X")
        if not channels_last(op):
            op.unsupported("order must be NHWC for Int8 tensors", hint='set order="NHWC"', code="invalid-argument")
    return _mark_first(_MOVES[op.type](op), how)


@family.converts("Int8Slice", expects={0: TensorInfo(BYTE), 1: _RANGES, 2: _RANGES})
def cut(op: Op) -> Outputs:
    """Int8Slice(data[, starts, ends]; starts, ends | dim, start_idx, end_idx) -> output.

    The last three arguments give the range along one axis; along the others, starts and ends hold as far as they are
    given.
    """
    x = require_bytes(op, op.input(0), "X")
    how = preserved_quantization(op, x)
    if op.has_input(1) or not {"dim", "start_idx", "end_idx"} <= set(op.args):
        return _mark_first(concat_split.slice_ranges(op), how)
    rank = op.rank(x)
    axis = op.axis(op.args.integer("dim"), rank)
    starts, ends = (
        [*op.args.integers(name, default=()), *[whole] * rank][:rank] for name, whole in (("starts", 0), ("ends", -1))
    )
    starts[axis], ends[axis] = op.args.integer("start_idx"), op.args.integer("end_idx")
    return mark_quantized(concat_split.slice_static(op, x, starts, ends), how)


@family.converts("Int8ResizeNearest", expects={0: IMAGE})
def resize_nearest(op: Op) -> Value:
    """Int8ResizeNearest(X; width_scale=1.0, height_scale=1.0) -> Y, of images [N, H, W, C].

    Caffe2 ignores the argument ``order``.
    """
    x, scales, how = read_resize(op)
    return mark_quantized(resize_by(op, x, [1.0, *scales, 1.0]), how)


def read_resize(op: Op) -> tuple[Value, list[float], Quantization]:
    """Return the image of Int8ResizeNearest, the scales of height and width, and the quantization."""
    op.args.ignore("order")
    x = require_bytes(op, op.input(0), "X")
    require_rank(op, x, 4, "X")
    how = preserved_quantization(op, x)
    scales = [op.args.number(name, default=1.0) for name in ("height_scale", "width_scale")]
    if min(scales) <= 0:
        op.unsupported("width_scale and height_scale must be positive", code="invalid-argument")
    return x, scales, how


def resize_by(op: Op, x: Value, scales: list[float]) -> Value:
    """Resize each dim by its scale, to the nearest elements."""
    return resize_nearest_by(op, x, op.const(scales, np.float32), range(len(scales)))


@family.converts("Int8Concat", expects=lambda _, __: TensorInfo(BYTE))
def concat(op: Op) -> tuple[Value, None]:
    """Int8Concat(*inputs; axis, order) -> concat_result, split_info.

    The default of axis is the channels of order, if that is given, or 0. Caffe2 takes the scale of the first input for
    all of them, and never writes split_info.
    """
    parts, axis, how = read_concat(op)
    return mark_quantized(op.emit("Concat", *parts, axis=axis), how), None


def read_concat(op: Op) -> tuple[list[Value], int, Quantization]:
    """Return the operands of Int8Concat, the axis, and the quantization."""
    parts = [require_bytes(op, x, f"input {i}") for i, x in enumerate(op.inputs)]
    how = preserved_quantization(op, parts[0])
    order = op.args.text("order", default="")
    axis = op.args.integer("axis", default={"NHWC": 3, "NCHW": 1}.get(order, 0))
    if not 0 <= axis < (4 if order in ("NHWC", "NCHW") else op.rank(parts[0])):
        op.unsupported(f"axis ({axis}) must be a dim of the inputs", code="invalid-argument")
    if order == "NHWC":
        require_rank(op, parts[0], 4, "X")
    return parts, axis, how


def _mark_first(outputs: Outputs, how: Quantization) -> Outputs:
    """Record the quantization of an operator's first output."""
    y, *others = outputs if isinstance(outputs, tuple) else (outputs,)
    return (None if y is None else mark_quantized(y, how), *others)
