"""Fused rows of quantized embedding tables: the codes of a row, followed by its scale and bias, as bytes.

A code stands for the float ``scale * code + bias``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.float_bytes import LAYOUTS, floats_from_bytes, floats_to_bytes
from caffe2_frontend.emit.rows.segments import take_rows, weigh
from caffe2_frontend.emit.shapes import END, cast, product, reshape, sizes, slice_axis, unsqueeze
from caffe2_frontend.lowering.op import Op, Value


@dataclass(frozen=True, slots=True)
class FusedRows:
    """A format of fused rows.

    Attributes:
        bits: the bits of a code; the first code of a byte is in its lowest bits.
        scale_bias_type: the element type of scale and bias, FLOAT or FLOAT16.
    """

    bits: int
    scale_bias_type: ir.DataType

    @property
    def tail(self) -> int:
        """The number of bytes of scale and bias."""
        return 2 * LAYOUTS[self.scale_bias_type].width

    @property
    def per_byte(self) -> int:
        """The number of codes in a byte."""
        return 8 // self.bits


def decode(op: Op, x: Value, rows: FusedRows, weights: Value | None = None) -> Value:
    """Dequantize fused rows, bytes [..., C], to floats; ``weights`` [N] multiply the rows of a matrix."""
    last = op.rank(x) - 1
    scale_bias = floats_from_bytes(op, slice_axis(op, x, last, -rows.tail, END), 2, rows.scale_bias_type)
    if weights is not None:  # scale and bias and not the rows, as Caffe2's kernels do
        scale_bias = weigh(op, scale_bias, weights)
    scale, bias = op.emit("Split", scale_bias, axis=-1, num_outputs=2, outputs=2)
    codes = unpack(op, slice_axis(op, x, last, 0, -rows.tail), rows)
    return op.emit("Add", op.emit("Mul", codes, scale), bias)


def look_up(op: Op, table: Value, indices: Value, rows: FusedRows, weights: Value | None = None) -> Value:
    """Gather the rows of a table [R, C] of fused rows at ``indices`` [N], and dequantize them alone, times weights."""
    width = op.static_dim(table, 1)
    if width is not None and width <= rows.tail:
        op.unsupported(
            f"rows must have more than the {rows.tail} bytes of scale and bias, not {width}", code="invalid-operands"
        )
    return decode(op, take_rows(op, table, indices), rows, weights)


def unpack(op: Op, data: Value, rows: FusedRows) -> Value:
    """Unpack the codes in bytes [..., B] to floats [..., B * per_byte]."""
    if rows.per_byte > 1:
        shifts = op.const(np.arange(0, 8, rows.bits), np.uint8)
        codes = op.emit("BitShift", unsqueeze(op, data, [op.rank(data)]), shifts, direction="RIGHT")
        codes = op.emit("BitwiseAnd", codes, op.const(2**rows.bits - 1, np.uint8))
        *outer, width = sizes(op, data)
        data = reshape(op, codes, [*outer, product(op, [width, rows.per_byte])])
    return cast(op, data, ir.DataType.FLOAT)


def encode(op: Op, codes: Value, scale: Value, bias: Value, rows: FusedRows) -> Value:
    """Pack integer codes [..., C] below ``2 ** bits``, with scale and bias [..., 1], into fused rows."""
    tail = floats_to_bytes(op, op.emit("Concat", scale, bias, axis=-1), rows.scale_bias_type)
    return op.emit("Concat", _pack(op, codes, rows), tail, axis=-1)


def _pack(op: Op, codes: Value, rows: FusedRows) -> Value:
    """Pack codes [..., C] into bytes [..., C / per_byte]: every per_byte-th code, shifted to its bits, is added up."""
    codes = cast(op, codes, ir.DataType.INT32)
    axis = op.const([op.rank(codes) - 1], np.int64)
    packed = None
    for slot in range(rows.per_byte):
        start, end, step = (op.const([v], np.int64) for v in (slot, END, rows.per_byte))
        part = codes if rows.per_byte == 1 else op.emit("Slice", codes, start, end, axis, step)
        part = op.emit("Mul", part, op.const(2 ** (slot * rows.bits), np.int32)) if slot else part
        packed = part if packed is None else op.emit("Add", packed, part)
    return cast(op, packed, ir.DataType.UINT8) if packed is not None else codes
