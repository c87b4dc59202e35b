"""Row-wise quantization: floats to codes of 2, 4 or 8 bits with a scale and a bias per row, and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.operand_checks import require_dim, require_dtype, require_min_rank, require_rank
from caffe2_frontend.emit.shapes import cast, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.quantized.fused_rows import FusedRows, decode, encode, look_up
from caffe2_frontend.ops.quantized.range_search import as_half, inverse_of, narrowed_range

family = Family("rowwise")

_FLOAT, _HALF, _UINT8 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.UINT8
EIGHT_BITS: Final = FusedRows(8, _FLOAT)


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion between floats and fused rows.

    Attributes:
        floats: the element type of the floats.
        rows: the format of the fused rows.
        code_bits: the bits of the codes; the "fake" operators store codes of fewer bits in whole bytes.
    """

    floats: ir.DataType
    rows: FusedRows
    code_bits: int


def _conversions() -> tuple[dict[str, Conversion], dict[str, Conversion]]:
    """Return the conversions to fused rows, and those from them, by operator type."""
    to_rows, to_floats = {}, {}
    for prefix, name, floats in (("Float", "Float", _FLOAT), ("HalfFloat", "HalfFloat", _HALF)):
        for suffix, scale_bias_type in (("", _FLOAT), ("HalfScaleBias", _HALF)):
            conversion = Conversion(floats, FusedRows(8, scale_bias_type), 8)
            to_rows[f"{prefix}ToFused8BitRowwiseQuantized{suffix}"] = conversion
            # Real Caffe2 outputs float32 also for Fused8BitRowwiseQuantizedHalfScaleBiasToHalfFloat.
            decoding = conversion if scale_bias_type == _FLOAT else replace(conversion, floats=_FLOAT)
            to_floats[f"Fused8BitRowwiseQuantized{suffix}To{name}"] = decoding
    for name, floats in (("Float", _FLOAT), ("Half", _HALF)):
        for bits in (2, 4):
            conversion = Conversion(floats, FusedRows(bits, _HALF), bits)
            to_rows[f"{name}ToFused{bits}BitRowwiseQuantized"] = conversion
            to_floats[f"Fused{bits}BitRowwiseQuantizedTo{name}"] = conversion
            to_rows[f"{name}ToFused{bits}BitFakeRowwiseQuantized"] = Conversion(floats, EIGHT_BITS, bits)
    return to_rows, to_floats


TO_ROWS, TO_FLOATS = _conversions()


@family.converts(*(name for name, c in TO_ROWS.items() if c.floats == _FLOAT), expects={0: TensorInfo(_FLOAT)})
@family.converts(*(name for name, c in TO_ROWS.items() if c.floats == _HALF), expects={0: TensorInfo(_HALF)})
def to_fused_rows(op: Op) -> Value:
    """Quantize floats or halves to fused rows.

    FloatToFused8BitRowwiseQuantized[HalfScaleBias](input) -> output, and HalfFloat... of float16.
    FloatToFused{2,4}BitRowwiseQuantized(input; engine GREEDY) -> output, and Half... of float16.
    FloatToFused{2,4}BitFakeRowwiseQuantized(input; engine GREEDY) -> output, and Half... of float16.

    The bias is the minimum of the row, the scale its range divided by the largest code. Where these are stored as
    float16, they are rounded before the codes are computed. Codes are rounded half to even.
    """
    conversion = TO_ROWS[op.type]
    rows, largest_code = conversion.rows, 2**conversion.code_bits - 1
    x = op.input(0)
    require_dtype(op, x, (conversion.floats,), "data")
    if conversion.code_bits != rows.bits:
        require_rank(op, x, 2, "data")
    require_min_rank(op, x, 1, "data")
    width = op.static_dim(x, -1)
    if width is not None and width % rows.per_byte:
        op.unsupported(f"the columns ({width}) must be a multiple of {rows.per_byte}", code="invalid-operands")
    x = cast(op, x, _FLOAT)
    last = op.const([op.rank(x) - 1], np.int64)
    minimum, maximum = (op.emit(kind, x, last, keepdims=1) for kind in ("ReduceMin", "ReduceMax"))
    if conversion.code_bits == 8 and rows.scale_bias_type == _FLOAT:
        spread = op.emit("Sub", maximum, minimum)
        scale = op.emit("Div", spread, op.const(255.0, x))
        inverse = op.emit("Div", op.const(255.0, x), op.emit("Add", spread, op.const(1e-8, x)))
    else:
        if op.view.engine == "GREEDY" and conversion.code_bits < 8:
            minimum, maximum = narrowed_range(op, x, minimum, maximum, largest_code)
        minimum = as_half(op, minimum)
        spread = op.emit("Sub", maximum, minimum)
        one, zero = op.const(1.0, x), op.const(0.0, x)
        scale = as_half(op, op.emit("Div", spread, op.const(float(largest_code), x)))
        scale = op.emit("Where", op.emit("Equal", spread, zero), one, scale)
        if conversion.code_bits == rows.bits:
            # A subnormal scale has no finite inverse.
            scale = op.emit("Where", op.emit("IsInf", op.emit("Reciprocal", scale)), one, scale)
            inverse = op.emit("Reciprocal", scale)
        else:
            inverse = inverse_of(op, scale)
    codes = op.emit("Round", op.emit("Mul", op.emit("Sub", x, minimum), inverse))
    codes = op.emit("Clip", codes, op.const(0.0, x), op.const(float(largest_code), x))
    return encode(op, codes, scale, minimum, rows)


@family.converts(*TO_FLOATS, expects={0: TensorInfo(_UINT8)})
def to_floats(op: Op) -> Value:
    """Dequantize fused rows.

    Fused8BitRowwiseQuantized[HalfScaleBias]To{Float,HalfFloat}(scale_bias_quantized_input) -> float_output.
    Fused{2,4}BitRowwiseQuantizedTo{Float,Half}(scale_bias_quantized_input) -> float_output.
    """
    conversion = TO_FLOATS[op.type]
    x = op.input(0)
    require_dtype(op, x, (_UINT8,), "fused rows")
    require_min_rank(op, x, 1, "fused rows")
    return cast(op, decode(op, x, conversion.rows), conversion.floats)


@family.converts(
    "GatherFused8BitRowwise",
    expects={0: TensorInfo(_UINT8, (None, None)), 1: TensorInfo(ir.DataType.INT64, (None,))},
)
def gather_fused_rows(op: Op) -> Value:
    """GatherFused8BitRowwise(DATA, INDICES) -> OUTPUT: the dequantized rows of DATA at INDICES."""
    table, indices = op.input(0), op.input(1)
    require_rank(op, table, 2, "data")
    require_rank(op, indices, 1, "indices")
    return look_up(op, table, indices, EIGHT_BITS)


@family.converts("FloatToRowwiseQuantized8Bits", expects={0: TensorInfo(_FLOAT)})
def to_codes(op: Op) -> tuple[Value, Value]:
    """FloatToRowwiseQuantized8Bits(input) -> quantized_input, scale_bias.

    Codes have the shape of the input [N, ...], scale_bias is [N, 2]. Rows whose range is below 1e-10 have codes 0;
    halves are rounded up.
    """
    x = op.input(0)
    require_dtype(op, x, (_FLOAT,), "data")
    require_min_rank(op, x, 1, "data")
    axes = op.const(np.arange(1, op.rank(x)), np.int64)
    minimum, maximum = (
        op.emit(kind, x, axes, keepdims=1, noop_with_empty_axes=1) for kind in ("ReduceMin", "ReduceMax")
    )
    spread = op.emit("Sub", maximum, minimum)
    flat = op.emit("Less", spread, op.const(1e-10, x))
    scale = op.emit("Where", flat, op.const(1.0, x), op.emit("Div", spread, op.const(255.0, x)))
    position = op.emit("Mul", op.emit("Sub", x, minimum), op.emit("Reciprocal", scale))
    floor = op.emit("Floor", position)
    upper = op.emit("GreaterOrEqual", op.emit("Sub", position, floor), op.const(0.5, x))
    codes = cast(op, op.emit("Add", floor, cast(op, upper, _FLOAT)), _UINT8)
    codes = op.emit("Where", flat, op.const(0, np.uint8), codes)
    columns = [op.emit("Reshape", v, op.const([-1, 1], np.int64)) for v in (scale, minimum)]
    return codes, op.emit("Concat", *columns, axis=1, shape=[op.shape(x)[0], 2])


@family.converts("Rowwise8BitQuantizedToFloat", expects={0: TensorInfo(_UINT8), 1: TensorInfo(_FLOAT, (None, 2))})
def to_floats_of_codes(op: Op) -> Value:
    """Rowwise8BitQuantizedToFloat(quantized_input, scale_bias) -> output."""
    codes, scale_bias = op.input(0), op.input(1)
    require_dtype(op, codes, (_UINT8,), "codes")
    require_rank(op, scale_bias, 2, "scale_bias")
    require_dim(op, scale_bias, 1, 2, "scale_bias")
    return dequantize_rows(op, codes, scale_bias)


def dequantize_rows(op: Op, codes: Value, scale_bias: Value) -> Value:
    """Dequantize codes [N, ...] by (scale, bias) [N, 2]."""
    scale, bias = (
        unsqueeze(op, op.emit("Gather", scale_bias, op.const(i, np.int64), axis=1), range(1, op.rank(codes)))
        for i in (0, 1)
    )
    return op.emit("Add", op.emit("Mul", cast(op, codes, _FLOAT), scale), bias, shape=op.shape(codes))
