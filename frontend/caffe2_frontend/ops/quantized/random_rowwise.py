"""Rows quantized to as many bits as an argument says, each with its least and greatest element before the codes.

A row of C floats is 10 + S bytes: the bits of a code, how many codes the last byte lacks, the least and the greatest
element as floats, and S bytes of codes. The lowest bits of all bytes hold the first S codes, the next bits those after.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.float_bytes import floats_from_bytes, floats_to_bytes
from caffe2_frontend.emit.operand_checks import require_dtype, require_rank
from caffe2_frontend.emit.shapes import cast, product, reshape, size, size_vector, slice_axis, unsqueeze, vector
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("random_rowwise")

_FLOAT, _INT64, _UINT8 = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.UINT8
_HEAD: Final = 10
# Added to the step between codes, so that a row of equal elements divides by something.
_EPSILON: Final = 1e-8
_END: Final = np.iinfo(np.int64).max


@family.converts("FloatToFusedRandRowwiseQuantized", expects={0: TensorInfo(_FLOAT, (None, None))})
def to_codes(op: Op) -> Value:
    """With ``random`` a float becomes the code below or above it, the nearer the likelier; else the nearest."""
    x = op.input(0)
    require_dtype(op, x, (_FLOAT,), "data")
    require_rank(op, x, 2, "data")
    bits = op.args.integer("bitwidth", default=8)
    if bits not in (1, 2, 4, 8):
        op.unsupported(f"bitwidth is {bits}, not 1, 2, 4 or 8", code="invalid-argument")
    least, greatest = (op.emit(kind, x, op.const([1], np.int64), keepdims=1) for kind in ("ReduceMin", "ReduceMax"))
    most = op.const(2.0**bits - 1, x)
    step = op.emit("Add", op.emit("Div", op.emit("Sub", greatest, least), most), op.const(_EPSILON, x))
    place = op.emit("Mul", op.emit("Sub", x, least), op.emit("Reciprocal", step))
    if op.args.flag("random", default=True):
        codes = op.emit("Floor", op.emit("Add", place, op.emit("RandomUniformLike", x, seed=op.view.random_seed)))
    else:
        codes = op.emit("Round", place)
    codes = cast(op, op.emit("Clip", codes, op.const(0.0, x), most), _INT64)
    per_byte = 8 // bits
    count = size_vector(op, x, 1)
    lacking = op.emit("Mod", op.emit("Neg", count), op.const([per_byte], np.int64))
    pads = op.emit("Concat", op.const([0, 0, 0], np.int64), lacking, axis=0)
    codes = reshape(
        op, op.emit("Pad", codes, pads), [size(op, x, 0), per_byte, _quotient(op, count, lacking, per_byte)]
    )
    places = op.const(2 ** (bits * np.arange(per_byte)).reshape(-1, 1), np.int64)
    packed = op.emit("ReduceSum", op.emit("Mul", codes, places), op.const([1], np.int64), keepdims=0)
    start = op.emit("Concat", op.const([bits], np.int64), lacking, axis=0)
    start = op.emit("Expand", start, vector(op, [size(op, x, 0), 2]))
    numbers = floats_to_bytes(op, op.emit("Concat", least, greatest, axis=1), _FLOAT)
    return op.emit("Concat", cast(op, start, _UINT8), numbers, cast(op, packed, _UINT8), axis=1)


@family.converts("FusedRandRowwiseQuantizedToFloat", expects={0: TensorInfo(_UINT8, (None, None))})
def to_floats(op: Op) -> Value:
    """The first row says for all of them how many bits a code has, and how many codes the last byte lacks."""
    x = op.input(0)
    require_dtype(op, x, (_UINT8,), "fused rows")
    require_rank(op, x, 2, "fused rows")
    first = cast(op, slice_axis(op, x, 0, 0, 1), _INT64)
    bits, lacking = (reshape(op, slice_axis(op, first, 1, i, i + 1), [1]) for i in (0, 1))
    numbers = floats_from_bytes(op, slice_axis(op, x, 1, 2, _HEAD), 2, _FLOAT)
    least, greatest = op.emit("Split", numbers, axis=1, num_outputs=2, outputs=2)
    levels = op.emit("Pow", op.const([2], np.int64), bits)
    shifts = op.emit("Range", op.const(0, np.int64), op.const(8, np.int64), op.emit("Squeeze", bits))
    dividers = unsqueeze(op, op.emit("Pow", op.const(2, np.int64), shifts), [1])
    data = cast(op, slice_axis(op, x, 1, _HEAD, _END), _INT64)
    codes = op.emit("Mod", op.emit("Div", unsqueeze(op, data, [1]), dividers), levels)
    per_row = product(op, [size(op, codes, 1), size(op, codes, 2)])
    codes = cast(op, reshape(op, codes, [size(op, x, 0), per_row]), _FLOAT)
    end = op.emit("Sub", vector(op, [per_row]), lacking)
    codes = op.emit("Slice", codes, op.const([0], np.int64), end, op.const([1], np.int64))
    most = cast(op, op.emit("Sub", levels, op.const([1], np.int64)), _FLOAT)
    step = op.emit("Add", op.emit("Div", op.emit("Sub", greatest, least), most), op.const(_EPSILON, numbers))
    return op.emit("Add", op.emit("Mul", codes, step), least)


def _quotient(op: Op, count: Value, lacking: Value, per_byte: int) -> Value:
    return op.emit("Div", op.emit("Add", count, lacking), op.const([per_byte], np.int64))
