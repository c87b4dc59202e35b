"""Rows quantized to a given number of bits, deterministically or at random, with minimum and maximum before the codes.

A row of C floats becomes 10 + S bytes: the bits of a code, the number of unused codes in the last byte, the minimum and
the maximum as floats, and S bytes of codes. The lowest bits of all bytes hold the first S codes, the next bits the next
S codes, and so on.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.float_bytes import floats_from_bytes, floats_to_bytes
from caffe2_frontend.emit.operand_checks import require_dtype, require_rank
from caffe2_frontend.emit.shapes import END, cast, product, reshape, size, size_vector, slice_axis, unsqueeze, vector
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("random_rowwise")

_FLOAT, _INT64, _UINT8 = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.UINT8
_HEAD: Final = 10
# Added to the step between codes, against a division by zero in a row of equal elements.
_EPSILON: Final = 1e-8


@family.converts("FloatToFusedRandRowwiseQuantized", expects={0: TensorInfo(_FLOAT, (None, None))})
def to_codes(op: Op) -> Value:
    """FloatToFusedRandRowwiseQuantized(input; bitwidth=8, random=1) -> output.

    With random a float becomes the code below or above it, with the probability of its distance from the other, so
    that the expectation is exact; otherwise the nearest code.
    """
    x = op.input(0)
    require_dtype(op, x, (_FLOAT,), "data")
    require_rank(op, x, 2, "data")
    bits = op.args.integer("bitwidth", default=8)
    if bits not in (1, 2, 4, 8):
        op.unsupported(f"bitwidth must be 1, 2, 4 or 8, not {bits}", code="invalid-argument")
    minimum, maximum = (op.emit(kind, x, op.const([1], np.int64), keepdims=1) for kind in ("ReduceMin", "ReduceMax"))
    largest_code = op.const(2.0**bits - 1, x)
    # Caffe2 adds and divides in float64 here, which decides where an element is halfway between two codes.
    step = cast(op, op.emit("Div", op.emit("Sub", maximum, minimum), largest_code), ir.DataType.DOUBLE)
    inverse = op.emit("Reciprocal", op.emit("Add", step, op.const(_EPSILON, np.float64)))
    position = op.emit("Mul", op.emit("Sub", x, minimum), cast(op, inverse, _FLOAT))
    if op.args.flag("random", default=True):
        codes = op.emit("Floor", op.emit("Add", position, op.emit("RandomUniformLike", x, seed=op.view.random_seed)))
    else:
        codes = op.emit("Round", position)
    codes = cast(op, op.emit("Clip", codes, op.const(0.0, x), largest_code), _INT64)
    per_byte = 8 // bits
    count = size_vector(op, x, 1)
    # Pad the codes to a multiple of those in a byte, and sum the shifted codes of each byte.
    unused = op.emit("Mod", op.emit("Neg", count), op.const([per_byte], np.int64))
    pads = op.emit("Concat", op.const([0, 0, 0], np.int64), unused, axis=0)
    codes = reshape(
        op, op.emit("Pad", codes, pads), [size(op, x, 0), per_byte, _byte_count(op, count, unused, per_byte)]
    )
    weights = op.const(2 ** (bits * np.arange(per_byte)).reshape(-1, 1), np.int64)
    packed = op.emit("ReduceSum", op.emit("Mul", codes, weights), op.const([1], np.int64), keepdims=0)
    header = op.emit("Concat", op.const([bits], np.int64), unused, axis=0)
    header = op.emit("Expand", header, vector(op, [size(op, x, 0), 2]))
    bounds = floats_to_bytes(op, op.emit("Concat", minimum, maximum, axis=1), _FLOAT)
    return op.emit("Concat", cast(op, header, _UINT8), bounds, cast(op, packed, _UINT8), axis=1)


@family.converts("FusedRandRowwiseQuantizedToFloat", expects={0: TensorInfo(_UINT8, (None, None))})
def to_floats(op: Op) -> Value:
    """FusedRandRowwiseQuantizedToFloat(input) -> output.

    The bits of a code and the number of unused codes are read from the first row.
    """
    x = op.input(0)
    require_dtype(op, x, (_UINT8,), "fused rows")
    require_rank(op, x, 2, "fused rows")
    first = cast(op, slice_axis(op, x, 0, 0, 1), _INT64)
    bits, unused = (reshape(op, slice_axis(op, first, 1, i, i + 1), [1]) for i in (0, 1))
    bounds = floats_from_bytes(op, slice_axis(op, x, 1, 2, _HEAD), 2, _FLOAT)
    minimum, maximum = op.emit("Split", bounds, axis=1, num_outputs=2, outputs=2)
    levels = op.emit("Pow", op.const([2], np.int64), bits)
    # Unpack: byte / 2**shift mod 2**bits for every shift of a code in a byte, [rows, per_byte, S].
    shifts = op.emit("Range", op.const(0, np.int64), op.const(8, np.int64), op.emit("Squeeze", bits))
    divisors = unsqueeze(op, op.emit("Pow", op.const(2, np.int64), shifts), [1])
    data = cast(op, slice_axis(op, x, 1, _HEAD, END), _INT64)
    codes = op.emit("Mod", op.emit("Div", unsqueeze(op, data, [1]), divisors), levels)
    per_row = product(op, [size(op, codes, 1), size(op, codes, 2)])
    codes = cast(op, reshape(op, codes, [size(op, x, 0), per_row]), _FLOAT)
    end = op.emit("Sub", vector(op, [per_row]), unused)
    codes = op.emit("Slice", codes, op.const([0], np.int64), end, op.const([1], np.int64))
    largest_code = cast(op, op.emit("Sub", levels, op.const([1], np.int64)), _FLOAT)
    step = op.emit("Add", op.emit("Div", op.emit("Sub", maximum, minimum), largest_code), op.const(_EPSILON, bounds))
    return op.emit("Add", op.emit("Mul", codes, step), minimum)


def _byte_count(op: Op, count: Value, unused: Value, per_byte: int) -> Value:
    """Return the number of bytes of a row's codes, [1]."""
    return op.emit("Div", op.emit("Add", count, unused), op.const([per_byte], np.int64))
