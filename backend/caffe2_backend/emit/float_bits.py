"""The bits of floating-point numbers as integers, and back, by arithmetic of doubles: IEEE 754's binary formats.

With m bits of mantissa and the smallest exponent e of normal numbers, the bits below the sign of a finite number
a = f * 2^(k - m), f an integer of up to m + 1 bits and k >= e, are f + (k - e) * 2^m.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.conversion import as_float
from caffe2_backend.emit.doubles import binary_exponent, halves, scaled
from caffe2_backend.emit.fill import zeros_like
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import DOUBLE, FLOAT, FLOAT16, INT64


@dataclass(frozen=True)
class Format:
    """A binary format: the bits of its mantissa and of its exponent."""

    mantissa: int
    exponent: int

    @property
    def lowest(self) -> int:
        """The smallest exponent of normal numbers."""
        return 2 - (1 << (self.exponent - 1))

    @property
    def infinity(self) -> int:
        """The bits of infinity."""
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def sign(self) -> int:
        """What the bit of the sign adds to the bits as a signed integer."""
        return -(1 << (self.mantissa + self.exponent))


FORMATS: Final = {FLOAT16: Format(10, 5), FLOAT: Format(23, 8), DOUBLE: Format(52, 11)}


def bits_of_number(op: Op, value: Value) -> Value:
    """Return the bits of floats as signed integers of their width, in int64."""
    form = FORMATS[value.dtype]
    x = as_float(op, value).cast(DOUBLE) if value.dtype == FLOAT16 else value.cast(DOUBLE)
    zeros = zeros_like(op, x, DOUBLE)
    is_negative = (x < 0.0) | (x.equals(0.0) & (1.0 / x < 0.0))
    size = op.emit("Where", is_negative, -x, x)
    is_finite = (size > 0.0) & (size < np.inf)
    inside = op.emit("Where", is_finite, size, zeros + 1.0)
    exponent = binary_exponent(op, inside)
    is_normal = (exponent > form.lowest).cast(INT64)
    above = (exponent - form.lowest) * is_normal  # the exponent above the smallest one
    fraction = scaled(op, inside, form.mantissa - form.lowest - above).cast(INT64)
    bits = (fraction + above * (1 << form.mantissa)) * is_finite.cast(INT64)
    bits = bits + (size >= np.inf).cast(INT64) * form.infinity
    is_nan = (~x.equals(x)).cast(INT64)
    bits = bits + is_nan * (form.infinity + (1 << (form.mantissa - 1)))
    return bits + is_negative.cast(INT64) * form.sign


def number_of_bits(op: Op, value: Value, dtype: ir.DataType) -> Value:
    """Return the floats of a type whose bits are the integers."""
    form = FORMATS[dtype]
    bits = value.cast(INT64)
    is_negative = bits < 0 if value.dtype.is_signed() else bits >= -form.sign
    below = bits - is_negative.cast(INT64) * (form.sign if value.dtype.is_signed() else -form.sign)
    exponent = below.quotient(1 << form.mantissa)
    fraction = below - exponent * (1 << form.mantissa)
    is_normal = (exponent >= 1).cast(INT64)
    above = exponent - is_normal
    whole = (fraction + is_normal * (1 << form.mantissa)).cast(DOUBLE)
    number = scaled(op, whole, above + (form.lowest - form.mantissa))
    zeros = zeros_like(op, number, DOUBLE)
    number = op.emit("Where", below >= form.infinity, zeros + np.inf, number)
    number = op.emit("Where", below > form.infinity, zeros / zeros, number)
    number = number * (1.0 - is_negative.cast(DOUBLE) * 2.0)
    if dtype == FLOAT16:
        return halves(op, number)
    return number.cast(dtype)
