"""Floats to rows of small codes with a scale and a bias a row, and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.operand_checks import require_dtype, require_equal, require_min_rank, require_rank
from caffe2_frontend.emit.shapes import cast, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.quantized.fused_rows import FusedRows, decode, encode, look_up
from caffe2_frontend.ops.quantized.range_search import as_half, narrowed_range

family = Family("rowwise")

_FLOAT, _HALF, _UINT8 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.UINT8
EIGHT_BITS: Final = FusedRows(8, _FLOAT)


@dataclass(frozen=True, slots=True)
class Conversion:
    """Between floats of one type and fused rows; ``levels`` is the number of bits that say how many codes are used."""

    floats: ir.DataType
    rows: FusedRows
    levels: int


def _conversions() -> tuple[dict[str, Conversion], dict[str, Conversion]]:
    to_rows, to_floats = {}, {}
    for prefix, name, floats in (("Float", "Float", _FLOAT), ("HalfFloat", "HalfFloat", _HALF)):
        for suffix, numbers in (("", _FLOAT), ("HalfScaleBias", _HALF)):
            conversion = Conversion(floats, FusedRows(8, numbers), 8)
            to_rows[f"{prefix}ToFused8BitRowwiseQuantized{suffix}"] = conversion
            # Real Caffe2 gives floats for HalfScaleBiasToHalfFloat, too.
            given = conversion if numbers == _FLOAT else replace(conversion, floats=_FLOAT)
            to_floats[f"Fused8BitRowwiseQuantized{suffix}To{name}"] = given
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
    """Scale and bias follow the codes of each row; with halves for them, the codes are of what the halves say."""
    conversion = TO_ROWS[op.type]
    rows, most = conversion.rows, 2**conversion.levels - 1
    x = op.input(0)
    require_dtype(op, x, (conversion.floats,), "data")
    if conversion.levels != rows.bits:
        require_rank(op, x, 2, "data")
    require_min_rank(op, x, 1, "data")
    width = op.static_dim(x, -1)
    if width is not None and width % rows.per_byte:
        op.unsupported(f"{width} columns are no multiple of {rows.per_byte}", code="invalid-operands")
    x = cast(op, x, _FLOAT)
    last = op.const([op.rank(x) - 1], np.int64)
    least, greatest = (op.emit(kind, x, last, keepdims=1) for kind in ("ReduceMin", "ReduceMax"))
    if conversion.levels == 8 and rows.numbers == _FLOAT:
        spread = op.emit("Sub", greatest, least)
        scale = op.emit("Div", spread, op.const(255.0, x))
        inverse = op.emit("Div", op.const(255.0, x), op.emit("Add", spread, op.const(1e-8, x)))
    else:
        if op.view.engine == "GREEDY" and conversion.levels < 8:
            least, greatest = narrowed_range(op, x, least, greatest, most)
        least = as_half(op, least)
        spread = op.emit("Sub", greatest, least)
        one, zero = op.const(1.0, x), op.const(0.0, x)
        scale = as_half(op, op.emit("Div", spread, op.const(float(most), x)))
        scale = op.emit("Where", op.emit("Equal", spread, zero), one, scale)
        if conversion.levels == rows.bits:
            scale = op.emit("Where", op.emit("IsInf", op.emit("Reciprocal", scale)), one, scale)
        inverse = op.emit("Reciprocal", scale)
    codes = op.emit("Round", op.emit("Mul", op.emit("Sub", x, least), inverse))
    codes = op.emit("Clip", codes, op.const(0.0, x), op.const(float(most), x))
    return encode(op, codes, scale, least, rows)


@family.converts(*TO_FLOATS, expects={0: TensorInfo(_UINT8)})
def to_floats(op: Op) -> Value:
    conversion = TO_FLOATS[op.type]
    x = op.input(0)
    require_dtype(op, x, (_UINT8,), "fused rows")
    require_min_rank(op, x, 1, "fused rows")
    return cast(op, decode(op, x, conversion.rows), conversion.floats)


@family.converts("GatherFused8BitRowwise", expects={0: TensorInfo(_UINT8, (None, None)), 1: TensorInfo(None, (None,))})
def gather_fused_rows(op: Op) -> Value:
    table, indices = op.input(0), op.input(1)
    require_rank(op, table, 2, "data")
    require_rank(op, indices, 1, "indices")
    return look_up(op, table, indices, EIGHT_BITS)


@family.converts("FloatToRowwiseQuantized8Bits", expects={0: TensorInfo(_FLOAT)})
def to_codes(op: Op) -> tuple[Value, Value]:
    """Codes like the data, and (scale, bias) [N, 2]. What spreads by less than 1e-10 has code 0; halves round up."""
    x = op.input(0)
    require_dtype(op, x, (_FLOAT,), "data")
    require_min_rank(op, x, 1, "data")
    axes = op.const(np.arange(1, op.rank(x)), np.int64)
    least, greatest = (
        op.emit(kind, x, axes, keepdims=1, noop_with_empty_axes=1) for kind in ("ReduceMin", "ReduceMax")
    )
    spread = op.emit("Sub", greatest, least)
    flat = op.emit("Less", spread, op.const(1e-10, x))
    scale = op.emit("Where", flat, op.const(1.0, x), op.emit("Div", spread, op.const(255.0, x)))
    place = op.emit("Mul", op.emit("Sub", x, least), op.emit("Reciprocal", scale))
    whole = op.emit("Floor", place)
    upper = op.emit("GreaterOrEqual", op.emit("Sub", place, whole), op.const(0.5, x))
    codes = cast(op, op.emit("Add", whole, cast(op, upper, _FLOAT)), _UINT8)
    codes = op.emit("Where", flat, op.const(0, np.uint8), codes)
    columns = [op.emit("Reshape", v, op.const([-1, 1], np.int64)) for v in (scale, least)]
    return codes, op.emit("Concat", *columns, axis=1, shape=[op.shape(x)[0], 2])


@family.converts("Rowwise8BitQuantizedToFloat", expects={0: TensorInfo(_UINT8), 1: TensorInfo(_FLOAT, (None, 2))})
def to_floats_of_codes(op: Op) -> Value:
    codes, scale_bias = op.input(0), op.input(1)
    require_dtype(op, codes, (_UINT8,), "codes")
    require_rank(op, scale_bias, 2, "scale and bias")
    require_equal(op, op.static_dim(scale_bias, 1), 2, "columns of scale and bias")
    return scaled(op, codes, scale_bias)


def scaled(op: Op, codes: Value, scale_bias: Value) -> Value:
    """The floats of codes [N, ...] with (scale, bias) [N, 2]."""
    scale, bias = (
        unsqueeze(op, op.emit("Gather", scale_bias, op.const(i, np.int64), axis=1), range(1, op.rank(codes)))
        for i in (0, 1)
    )
    return op.emit("Add", op.emit("Mul", cast(op, codes, _FLOAT), scale), bias, shape=op.shape(codes))
