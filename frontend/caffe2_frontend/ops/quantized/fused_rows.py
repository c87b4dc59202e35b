"""Rows of small codes with their scale and bias behind them, as Caffe2's quantized embedding tables hold them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.float_bytes import LAYOUTS, floats_from_bytes, floats_to_bytes
from caffe2_frontend.emit.segments import take_rows
from caffe2_frontend.emit.shapes import cast, product, reshape, sizes, slice_axis, unsqueeze
from caffe2_frontend.lowering.op import Op, Value

_END = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class FusedRows:
    """A format: codes of ``bits`` bits, a byte's first in its lowest bits; then scale and bias, floats or halves."""

    bits: int
    numbers: ir.DataType

    @property
    def tail(self) -> int:
        """How many bytes scale and bias take."""
        return 2 * LAYOUTS[self.numbers].width

    @property
    def per_byte(self) -> int:
        """How many codes a byte holds."""
        return 8 // self.bits


def decode(op: Op, x: Value, rows: FusedRows) -> Value:
    """The floats of fused rows [..., C]: ``scale * code + bias``."""
    last = op.rank(x) - 1
    numbers = floats_from_bytes(op, slice_axis(op, x, last, -rows.tail, _END), 2, rows.numbers)
    scale, bias = op.emit("Split", numbers, axis=-1, num_outputs=2, outputs=2)
    codes = unpack(op, slice_axis(op, x, last, 0, -rows.tail), rows)
    return op.emit("Add", op.emit("Mul", codes, scale), bias)


def look_up(op: Op, table: Value, indices: Value, rows: FusedRows) -> Value:
    """The floats of the rows of a table [R, C] that ``indices`` name; only those are decoded."""
    width = op.static_dim(table, 1)
    if width is not None and width <= rows.tail:
        op.unsupported(f"rows of {width} bytes hold no codes before scale and bias", code="invalid-operands")
    return decode(op, take_rows(op, table, indices), rows)


def unpack(op: Op, data: Value, rows: FusedRows) -> Value:
    """The codes in bytes [..., B], as floats [..., B * per_byte]."""
    if rows.per_byte > 1:
        shifts = op.const(np.arange(0, 8, rows.bits), np.uint8)
        codes = op.emit("BitShift", unsqueeze(op, data, [op.rank(data)]), shifts, direction="RIGHT")
        codes = op.emit("BitwiseAnd", codes, op.const(2**rows.bits - 1, np.uint8))
        *outer, width = sizes(op, data)
        data = reshape(op, codes, [*outer, product(op, [width, rows.per_byte])])
    return cast(op, data, ir.DataType.FLOAT)


def encode(op: Op, codes: Value, scale: Value, bias: Value, rows: FusedRows) -> Value:
    """Fused rows of whole numbers [..., C] below ``2 ** bits`` with a scale and a bias a row, [..., 1]."""
    numbers = floats_to_bytes(op, op.emit("Concat", scale, bias, axis=-1), rows.numbers)
    return op.emit("Concat", _pack(op, codes, rows), numbers, axis=-1)


def _pack(op: Op, codes: Value, rows: FusedRows) -> Value:
    codes = cast(op, codes, ir.DataType.INT32)
    axis = op.const([op.rank(codes) - 1], np.int64)
    packed = None
    for place in range(rows.per_byte):
        start, end, step = (op.const([v], np.int64) for v in (place, _END, rows.per_byte))
        part = codes if rows.per_byte == 1 else op.emit("Slice", codes, start, end, axis, step)
        part = op.emit("Mul", part, op.const(2 ** (place * rows.bits), np.int32)) if place else part
        packed = part if packed is None else op.emit("Add", packed, part)
    return cast(op, packed, ir.DataType.UINT8) if packed is not None else codes
