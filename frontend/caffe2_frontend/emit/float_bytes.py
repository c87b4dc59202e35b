"""Conversion between floats and their IEEE 754 bytes (little-endian) in plain arithmetic.

ONNX has no operator that reinterprets bits. A float is ``(-1)**sign * significand * 2**exponent`` with an integer
significand, which is ``2**mantissa + stored mantissa`` for normal numbers and the stored mantissa for subnormal ones.
Both directions are exact for finite numbers, also for subnormal ones, and infinities are decoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.shapes import cast, product, reshape, sizes, unsqueeze
from caffe2_frontend.lowering.op import Op, Value


@dataclass(frozen=True, slots=True)
class Layout:
    """A binary format: the number of bytes, of stored bits of the mantissa, and of bits of the exponent."""

    width: int
    mantissa: int
    exponent: int

    @property
    def exponents(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The power of two of the mantissa's last bit for each stored exponent but the last (infinity)."""
        bias = 2 ** (self.exponent - 1) - 1 + self.mantissa
        return np.array([max(stored, 1) - bias for stored in range(2**self.exponent - 1)])

    @property
    def leading(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The implicit leading bit of the significand, for each stored exponent; subnormal numbers (0) have none."""
        return np.where(np.arange(2**self.exponent) > 0, 2**self.mantissa, 0)


LAYOUTS: Final = {ir.DataType.FLOAT: Layout(4, 23, 8), ir.DataType.FLOAT16: Layout(2, 10, 5)}


def floats_from_bytes(op: Op, data: Value, count: int, dtype: ir.DataType) -> Value:
    """Decode bytes [..., count * width] of floats of ``dtype`` (FLOAT or FLOAT16) into float32 [..., count]."""
    layout = LAYOUTS[dtype]
    data = cast(op, reshape(op, data, [*sizes(op, data, 0, -1), count, layout.width]), ir.DataType.INT64)
    weights = op.const(256 ** np.arange(layout.width), np.int64)
    word = _sum_last_axis(op, op.emit("Mul", data, weights))
    # The head is the sign and the stored exponent: an index into tables whose second half is of negative numbers.
    stored = op.const(2**layout.mantissa, np.int64)
    head, mantissa = op.emit("Div", word, stored), op.emit("Mod", word, stored)
    significand = op.emit("Add", mantissa, op.emit("Gather", op.const(np.tile(layout.leading, 2), np.int64), head))
    powers = np.append(np.ldexp(1.0, layout.exponents), np.inf)
    power = op.emit("Gather", op.const(np.concatenate([powers, -powers]), np.float32), head)
    value: Value = op.emit("Mul", cast(op, significand, ir.DataType.FLOAT), power)
    return value


def floats_to_bytes(op: Op, values: Value, dtype: ir.DataType) -> Value:
    """Encode floats [..., n] as the bytes [..., n * width] of floats of ``dtype`` (FLOAT or FLOAT16)."""
    layout = LAYOUTS[dtype]
    values = cast(op, cast(op, values, dtype), ir.DataType.DOUBLE)
    magnitude = op.emit("Abs", values)
    exponents = layout.exponents
    # The stored exponent is the number of binades whose smallest magnitude is reached.
    thresholds = np.append(np.ldexp(1.0, exponents[1:] + layout.mantissa), np.inf)
    reached = op.emit("GreaterOrEqual", unsqueeze(op, magnitude, [op.rank(values)]), op.const(thresholds, np.float64))
    stored = _sum_last_axis(op, cast(op, reached, ir.DataType.INT64))
    scale = op.emit("Gather", op.const(np.append(np.ldexp(1.0, -exponents), 0.0), np.float64), stored)
    significand = cast(op, op.emit("Mul", magnitude, scale), ir.DataType.INT64)
    leading = op.emit("Gather", op.const(np.append(layout.leading[:-1], 0), np.int64), stored)
    word = op.emit(
        "Add", op.emit("Sub", significand, leading), op.emit("Mul", stored, op.const(2**layout.mantissa, np.int64))
    )
    # The reciprocal tells -0.0 from 0.0.
    negative = op.emit(
        "Or", *(op.emit("Less", v, op.const(0, np.float64)) for v in (values, op.emit("Reciprocal", values)))
    )
    sign = op.emit("Mul", cast(op, negative, ir.DataType.INT64), op.const(2 ** (8 * layout.width - 1), np.int64))
    word = unsqueeze(op, op.emit("Add", word, sign), [op.rank(values)])
    parts = op.emit("Div", word, op.const(256 ** np.arange(layout.width), np.int64))
    parts = cast(op, op.emit("Mod", parts, op.const(256, np.int64)), ir.DataType.UINT8)
    *outer, count = sizes(op, values)
    return reshape(op, parts, [*outer, product(op, [count, layout.width])])


def _sum_last_axis(op: Op, x: Value) -> Value:
    """Sum along the last axis, given as a non-negative index: onnxruntime does not reduce empty tensors along -1."""
    return op.emit("ReduceSum", x, op.const([op.rank(x) - 1], np.int64), keepdims=0)
