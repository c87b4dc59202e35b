"""Floats as the bytes that hold them, least first, in plain arithmetic: ONNX has no operator that reinterprets bits.

Both ways are exact, also for numbers below the normal range and infinities; NaN is not kept.
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
    """How many bytes a float has, how many bits of its mantissa are stored, and its exponent's bits."""

    width: int
    mantissa: int
    exponent: int

    @property
    def exponents(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The power of two of the mantissa's last bit, by the stored exponent without the last, which is infinity."""
        last = 2 ** (self.exponent - 1) - 1 + self.mantissa
        return np.array([max(stored, 1) - last for stored in range(2**self.exponent - 1)])

    @property
    def leading(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The bit that is not stored, by the stored exponent."""
        return np.where(np.arange(2**self.exponent) > 0, 2**self.mantissa, 0)


LAYOUTS: Final = {ir.DataType.FLOAT: Layout(4, 23, 8), ir.DataType.FLOAT16: Layout(2, 10, 5)}


def numbers_of_bytes(op: Op, data: Value, count: int, dtype: ir.DataType) -> Value:
    """The floats that bytes [..., count * width] hold, as float32 [..., count]; ``dtype`` is FLOAT or FLOAT16."""
    layout = LAYOUTS[dtype]
    data = cast(op, reshape(op, data, [*sizes(op, data, 0, -1), count, layout.width]), ir.DataType.INT64)
    weights = op.const(256 ** np.arange(layout.width), np.int64)
    word = _sum_of_last(op, op.emit("Mul", data, weights))
    stored = op.const(2**layout.mantissa, np.int64)
    head, mantissa = op.emit("Div", word, stored), op.emit("Mod", word, stored)
    mantissa = op.emit("Add", mantissa, op.emit("Gather", op.const(np.tile(layout.leading, 2), np.int64), head))
    powers = np.append(np.ldexp(1.0, layout.exponents), np.inf)
    power = op.emit("Gather", op.const(np.concatenate([powers, -powers]), np.float32), head)
    return op.emit("Mul", cast(op, mantissa, ir.DataType.FLOAT), power)


def bytes_of_numbers(op: Op, values: Value, dtype: ir.DataType) -> Value:
    """The bytes [..., n * width] of floats [..., n]; ``dtype``, FLOAT or FLOAT16, is what they are stored as."""
    layout = LAYOUTS[dtype]
    values = cast(op, cast(op, values, dtype), ir.DataType.DOUBLE)
    size = op.emit("Abs", values)
    exponents = layout.exponents
    least = np.append(np.ldexp(1.0, exponents[1:] + layout.mantissa), np.inf)
    reached = op.emit("GreaterOrEqual", unsqueeze(op, size, [op.rank(values)]), op.const(least, np.float64))
    stored = _sum_of_last(op, cast(op, reached, ir.DataType.INT64))
    scale = op.emit("Gather", op.const(np.append(np.ldexp(1.0, -exponents), 0.0), np.float64), stored)
    finite = op.emit("Min", size, op.const(np.finfo(np.float32).max, np.float64))
    whole = cast(op, op.emit("Mul", finite, scale), ir.DataType.INT64)
    leading = op.emit("Gather", op.const(np.append(layout.leading[:-1], 0), np.int64), stored)
    word = op.emit(
        "Add", op.emit("Sub", whole, leading), op.emit("Mul", stored, op.const(2**layout.mantissa, np.int64))
    )
    negative = op.emit(
        "Or", *(op.emit("Less", v, op.const(0, np.float64)) for v in (values, op.emit("Reciprocal", values)))
    )
    sign = op.emit("Mul", cast(op, negative, ir.DataType.INT64), op.const(2 ** (8 * layout.width - 1), np.int64))
    word = unsqueeze(op, op.emit("Add", word, sign), [op.rank(values)])
    parts = op.emit("Div", word, op.const(256 ** np.arange(layout.width), np.int64))
    parts = cast(op, op.emit("Mod", parts, op.const(256, np.int64)), ir.DataType.UINT8)
    *outer, count = sizes(op, values)
    return reshape(op, parts, [*outer, product(op, [count, layout.width])])


def _sum_of_last(op: Op, x: Value) -> Value:
    """The axis is not written -1: onnxruntime then reduces nothing where there are no elements."""
    return op.emit("ReduceSum", x, op.const([op.rank(x) - 1], np.int64), keepdims=0)
