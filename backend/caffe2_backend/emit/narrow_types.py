"""Numbers of types that Caffe2 has no tensors of, which are stored as their bits.

Integers of 4 and 2 bits are stored as int8 and uint8, floats of 8 and 4 bits as uint8, bfloat16 as uint16: what
NumPy's ``array.view`` of that type shows. Such floats are looked up in a table of all of them, and floats are rounded
to them by their place among the numbers halfway between two of them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.fill import zeros_like
from caffe2_backend.emit.float_bits import bits_of_number, number_of_bits
from caffe2_backend.emit.selection import gather
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import STORED_AS
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import FLOAT, INT32, INT64

_BFLOAT16: Final = ir.DataType.BFLOAT16
_INTEGERS: Final = {ir.DataType.INT4: 4, ir.DataType.UINT4: 4, ir.DataType.INT2: 2, ir.DataType.UINT2: 2}
# Floats that have no infinity and one NaN, which is -0 elsewhere.
_WITHOUT_NEGATIVE_ZERO: Final = (ir.DataType.FLOAT8E4M3FNUZ, ir.DataType.FLOAT8E5M2FNUZ)
_WORD: Final = 1 << 32


def numbers_of(op: Op, value: Value) -> Value:
    """Return the numbers whose bits a value holds: float, or int8 and uint8 for integers."""
    dtype = value.dtype
    stored = op.blob(value.name, STORED_AS[dtype], value.shape)
    if dtype in _INTEGERS:  # in the low bits: what the others hold does not matter
        number = _wrapped(stored.cast(INT32), _INTEGERS[dtype], signed=dtype.is_signed())
        number.shape = value.shape
        return number.cast(STORED_AS[dtype])
    if dtype == _BFLOAT16:
        word = stored.cast(INT64) * (_WORD >> 16)
        return number_of_bits(op, word - (word >= _WORD >> 1).cast(INT64) * _WORD, FLOAT)
    made = gather(op, op.const(_table(dtype), FLOAT), 0, stored.cast(INT32))
    made.shape = value.shape
    return made


def stored(op: Op, value: Value, dtype: ir.DataType, *, saturates: bool = True) -> Value:
    """Return the bits of a number, float or an integer, in a type that is stored as its bits.

    Integers wrap around. Floats are rounded to the nearest number, the even one of two; beyond the largest they become
    the largest where they saturate, otherwise infinite or NaN.
    """
    if dtype in _INTEGERS:
        bits = _wrapped(value.cast(INT32), _INTEGERS[dtype], signed=dtype.is_signed())
    elif dtype == _BFLOAT16:
        bits = _rounded_word(op, value.cast(FLOAT))
    else:
        bits = _nearest(op, value.cast(FLOAT), dtype, saturates=saturates)
    made = bits.cast(STORED_AS[dtype])
    return op.blob(made.name, dtype, value.shape)


def _wrapped(value: Value, width: int, *, signed: bool) -> Value:
    """Return the low bits of an integer, as a signed number if asked for."""
    lowest = 1 << (width - 1) if signed else 0
    return (value + lowest) % (1 << width) - lowest


def _rounded_word(op: Op, value: Value) -> Value:
    """Return the upper 16 bits of floats, rounded to the nearest number, the even one of two."""
    bits = bits_of_number(op, value)
    word = bits + (bits < 0).cast(INT64) * _WORD
    is_odd = word.quotient(_WORD >> 16) % 2
    return (word + is_odd + ((_WORD >> 17) - 1)).quotient(_WORD >> 16)


def _table(dtype: ir.DataType) -> np.ndarray[Any, Any]:
    """Return the floats of all bits of a type of 8 or fewer bits."""
    return np.arange(1 << dtype.bitwidth, dtype=np.uint8).view(dtype.numpy()).astype(np.float32)


def _nearest(op: Op, value: Value, dtype: ir.DataType, *, saturates: bool) -> Value:
    """Return the bits of the nearest numbers of a type of 8 or fewer bits, int32.

    Bucketize counts the boundaries that are below the absolute value: a number halfway between two belongs to the one
    of even bits, hence the boundary below an odd number is the float before it.
    """
    half = 1 << (dtype.bitwidth - 1)
    table = _table(dtype)[:half]
    codes = np.flatnonzero(np.isfinite(table))
    sizes = table[codes].astype(np.float64)
    following = sizes[-1] + (sizes[-1] - sizes[-2])
    between = ((sizes + np.append(sizes[1:], following)) / 2).astype(np.float32)
    bounds = np.where(codes % 2 == 0, between, np.nextafter(between, np.float32(0), dtype=np.float32))
    nan = _bits_of(np.nan, dtype)
    beyond = int(codes[-1]) if saturates else _bits_of(np.inf, dtype)
    size = op.emit("Where", value < 0, -value, value)
    place = op.blob(op.emit("Bucketize", size, boundaries=bounds.tolist()).name, INT32, value.shape)
    bits = gather(op, op.const(np.append(codes, beyond), INT32), 0, place)
    is_negative = (value < 0) | ((1.0 / value) < 0)
    if dtype in _WITHOUT_NEGATIVE_ZERO:
        is_negative = is_negative & (bits > 0)
    signed = bits + is_negative.cast(INT32) * half
    if not saturates and beyond == nan and dtype in _WITHOUT_NEGATIVE_ZERO:
        signed = op.emit("Where", bits >= half, bits, signed)  # the NaN, whose bits have the sign already
    is_number = (value >= 0) | (value < 0)
    return op.emit("Where", is_number, signed, zeros_like(op, signed, INT32) + nan)


def _bits_of(number: float, dtype: ir.DataType) -> int:
    """Return the bits of NaN or infinity; NaN's where the type has no infinity, and zero's where it has neither."""
    with np.errstate(all="ignore"):
        made = np.array([number], np.float32).astype(dtype.numpy())
    return int(made.view(np.uint8)[0])
