"""Int8 tensors: to and from floats, and operators that move bytes and compute nothing."""

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
    x = op.input(0)
    require_dtype(op, x, (ir.DataType.FLOAT,), "the input")
    if uses_dnnlowp(op) and "Y_scale" not in op.args:
        op.unsupported("without Y_scale the scale follows from the data when the net runs")
    how = output_quantization(op, dnnlowp=True)
    if uses_dnnlowp(op):
        return quantize_dnnlowp(op, x, how)
    scale, zero_point = op.const(how.scale, np.float32), op.const(how.zero_point, np.uint8)
    return mark_quantized(op.emit("QuantizeLinear", x, scale, zero_point), how)


@family.converts("Int8Dequantize", expects=_BYTES)
def dequantize(op: Op) -> Value:
    x = require_bytes(op, op.input(0), "the input")
    how = quantization(op, x)
    # DequantizeLinear would say the same, but onnxruntime (1.31) dies of one whose result a body reads.
    steps = sub(op, cast(op, x, ir.DataType.FLOAT), how.zero_point)
    return mul(op, steps, how.scale)


@family.converts("Int8GivenTensorFill", "Int8GivenIntTensorFill")
def given(op: Op) -> Outputs:
    """Bytes, or the int32 of a bias."""
    return _mark_first(fill.given_tensor(op), stated_quantization(op, dnnlowp=True))


# What moves the bytes of an Int8 tensor as those of any other tensor are moved.
_MOVES: Final[dict[str, Callable[[Op], Outputs]]] = {
    "Int8ChannelShuffle": image.channel_shuffle,
    "Int8Flatten": shape.flatten_to_matrix,
    "Int8Reshape": shape.reshape_to,
    "Int8Transpose": shape.transpose,
}


@family.converts(*_MOVES, expects={0: TensorInfo(BYTE), 1: _RANGES, 2: _RANGES})
def move(op: Op) -> Outputs:
    x = require_bytes(op, op.input(0), "the input")
    how = preserved_quantization(op, x)
    if op.type == "Int8ChannelShuffle":
        require_rank(op, x, 4, "the image")
        if not channels_last(op):
            op.unsupported("Int8 tensors are computed in the order NHWC alone", code="invalid-argument")
    return _mark_first(_MOVES[op.type](op), how)


@family.converts("Int8Slice", expects={0: TensorInfo(BYTE), 1: _RANGES, 2: _RANGES})
def cut(op: Op) -> Outputs:
    """The range may also be given for one axis alone, ``dim``."""
    x = require_bytes(op, op.input(0), "the input")
    how = preserved_quantization(op, x)
    if op.has_input(1) or not {"dim", "start_idx", "end_idx"} <= set(op.args):
        return _mark_first(concat_split.slice_ranges(op), how)
    op.args.ignore("starts", "ends")
    axis = op.axis(op.args.integer("dim"), op.rank(x))
    starts, ends = [0] * op.rank(x), [-1] * op.rank(x)
    starts[axis], ends[axis] = op.args.integer("start_idx"), op.args.integer("end_idx")
    return mark_quantized(concat_split.slice_static(op, x, starts, ends), how)


@family.converts("Int8ResizeNearest", expects={0: IMAGE})
def resize_nearest(op: Op) -> Value:
    """The order is not heeded: channels are last."""
    op.args.ignore("order")
    x = require_bytes(op, op.input(0), "the image")
    require_rank(op, x, 4, "the image")
    how = preserved_quantization(op, x)
    scales = [op.args.number(name, default=1.0) for name in ("height_scale", "width_scale")]
    if min(scales) <= 0:
        op.unsupported("scales must be positive", code="invalid-argument")
    by = op.const([1.0, *scales, 1.0], np.float32)
    y = op.emit(
        "Resize",
        x,
        None,
        by,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    return mark_quantized(y, how)


@family.converts("Int8Concat", expects=lambda _, __: TensorInfo(BYTE))
def concat(op: Op) -> tuple[Value, None]:
    """All operands are read as the first one is, whatever their own scales. The second output is never written."""
    parts = [require_bytes(op, x, f"input {i}") for i, x in enumerate(op.inputs)]
    how = preserved_quantization(op, parts[0])
    order = op.args.text("order", default="")
    axis = op.args.integer("axis", default={"NHWC": 3, "NCHW": 1}.get(order, 0))
    if not 0 <= axis < (4 if order in ("NHWC", "NCHW") else op.rank(parts[0])):
        op.unsupported(f"axis {axis} is out of range", code="invalid-argument")
    if order == "NHWC":
        require_rank(op, parts[0], 4, "the image")
    return mark_quantized(op.emit("Concat", *parts, axis=axis), how), None


def _mark_first(outputs: Outputs, how: Quantization) -> Outputs:
    """What an operator gives, the first of it an Int8 tensor."""
    y, *others = outputs if isinstance(outputs, tuple) else (outputs,)
    return (None if y is None else mark_quantized(y, how), *others)
