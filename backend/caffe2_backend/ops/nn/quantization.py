"""Quantization and exact products of 8-bit integers.

Products of 8-bit integers are computed in float, whose 24 bits of mantissa hold sums of so many products exactly; sums
of such slices are added in int32.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.narrow_types import numbers_of, stored
from caffe2_backend.emit.selection import gather, slice_axis
from caffe2_backend.emit.shapes import arange, dims_of
from caffe2_backend.emit.window import kernel_shape, read_window
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import NARROW, STORED_AS, UNSIGNED
from caffe2_backend.lowering.value import Value
from caffe2_backend.ops.nn.convolution import convolve
from caffe2_backend.ops.nn.linear import matrix_product
from caffe2_frontend.interop.types import FLOAT, INT32, INT64

family = Family("quantization")

# The sum of this many products of two 8-bit numbers less their zero points, each at most 255^2, is below 2^24.
_MOST_PRODUCTS: Final = 2**24 // 255**2
# How many such sums a product is made of.
_MOST_SLICES: Final = 1000

# Floats of this size are integers; a sum with it is rounded. (1.5 * 2^23)
_TO_INTEGER: Final = 12582912.0
# More than the range of a narrow type and its zero point, less than what such a sum rounds. (2^21)
_BEYOND_NARROW: Final = 2097152.0


@family.converts("QuantizeLinear")
def quantize_linear(op: Op) -> Value:
    """``QuantizeLinear(X, scale, zero_point=0; axis=1, block_size=0) -> Y``: Div, Clip, rounding and Cast.

    A scale is one number, or one for each slice of ``axis`` or for each block of ``block_size`` slices.
    """
    axis, block = op.args.integer("axis", default=1), op.args.integer("block_size", default=0)
    op.args.ignore("precision", "output_dtype")
    saturates = op.args.flag("saturate", default=True)
    x, scale, zero = op.require(op.input(0), FLOAT), op.require(op.input(1), FLOAT), op.optional(2)
    scaled = x / _along_axis(op, scale, axis, block)
    if _number(op, zero) is None and zero is not None:
        zero = _along_axis(op, _as_number(op, zero).cast(FLOAT), axis, block)
    dtype = op.output_dtype()
    if dtype in STORED_AS and not dtype.is_integer():  # whose zero point is 0
        return stored(op, scaled, dtype, saturates=saturates)
    return _saturate(op, scaled, zero, dtype)


@family.converts("DequantizeLinear")
def dequantize_linear(op: Op) -> Value:
    """``DequantizeLinear(X, scale, zero_point=0; axis=1, block_size=0) -> Y``: (x - zero_point) * scale."""
    axis, block = op.args.integer("axis", default=1), op.args.integer("block_size", default=0)
    op.args.ignore("output_dtype")
    scale, zero = op.require(op.input(1), FLOAT), op.optional(2)
    if op.output_dtype() != FLOAT:
        op.unsupported(f"scales must be float, not {op.output_dtype().name.lower()}", code="dtype")
    x, number = _as_number(op, op.input(0)), _number(op, zero)
    if number is None and zero is not None:
        x = x - _along_axis(op, _as_number(op, zero), axis, block)
    elif number:
        x = x - number
    return x.cast(FLOAT) * _along_axis(op, scale, axis, block)


def _as_number(op: Op, value: Value) -> Value:
    """Return an operand of integers as float, which holds narrow ones and their differences exactly, else as int32."""
    if op.dtype(value) in STORED_AS and value.dtype not in UNSIGNED and not op.lowering.carries_nodes:
        return numbers_of(op, value).cast(FLOAT)
    if op.dtype(value) not in (*NARROW, INT32):
        op.unsupported(f"Caffe2 has no tensors of {value.dtype.name.lower()}", code="dtype")
    return value if value.dtype == INT32 else value.cast(FLOAT)


def _number(op: Op, zero: Value | None) -> float | None:
    """Return a zero point that is one known number, or the same one for each slice; 0 where it is not given."""
    known = np.zeros(1) if zero is None else op.known(zero)
    is_one = known is not None and known.size and (known == known.reshape(-1)[0]).all()
    return float(known.reshape(-1)[0]) if known is not None and is_one else None


def _saturate(op: Op, value: Value, zero: Value | None, dtype: ir.DataType) -> Value:
    """Round floats, move them by a zero point, and limit them to the range of a narrow type.

    The sum with 1.5 * 2^23 is rounded to an integer, the even one of two, where the float is below 2^22: floats are
    limited before, and the number is subtracted again.
    """
    if dtype in STORED_AS and dtype not in UNSIGNED:
        made = _limited(op, value, zero, dtype, STORED_AS[dtype])
        return op.blob(made.name, dtype, value.shape)
    if dtype not in NARROW:
        op.unsupported(f"Caffe2 has no tensors of {dtype.name.lower()}", code="dtype")
    return _limited(op, value, zero, dtype, dtype)


def _limited(op: Op, value: Value, zero: Value | None, dtype: ir.DataType, target: ir.DataType) -> Value:
    """Round, move and limit floats to the range of integers, which are output as another type."""
    signed = dtype.is_signed()
    low = -float(1 << (dtype.bitwidth - 1)) if signed else 0.0
    high = low + float((1 << dtype.bitwidth) - 1)
    number = _number(op, zero)
    if number is not None:
        limited = op.emit("Clip", value, min=low - number, max=high - number)
        return (limited + _TO_INTEGER - (_TO_INTEGER - number)).cast(target)
    assert zero is not None
    limited = op.emit("Clip", value, min=-_BEYOND_NARROW, max=_BEYOND_NARROW)
    shifted = limited + _TO_INTEGER - _TO_INTEGER + zero.cast(FLOAT)
    return op.emit("Clip", shifted, min=low, max=high).cast(target)


def _along_axis(op: Op, values: Value, axis: int, block: int) -> Value:
    """Reshape scales or zero points so that they broadcast with input 0.

    They are one number, a list of one for each slice of ``axis``, or a tensor of one for each block.
    """
    rank, own_rank = op.rank(op.input(0)), op.rank(values)
    count = op.static_dim(values, 0) if own_rank == 1 else None
    # A list of unknown length is one number where there is no such axis.
    is_one = count == 1 or (own_rank == 1 and count is None and not -rank <= axis < rank)
    if own_rank == 0 or rank == 0 or is_one:
        return values
    axis = op.axis(axis, rank)
    if own_rank == 1 and not block:
        return values.reshape([-1, *[1] * (rank - 1 - axis)])
    if not block:
        op.unsupported("block_size must be given for scales of blocks", code="invalid-argument")
    return gather(op, values, axis, arange(op, dims_of(op, op.input(0))[axis]) // block)


@family.converts("MatMulInteger")
def matmul_integer(op: Op) -> Value:
    """``MatMulInteger(A, B, a_zero_point=0, b_zero_point=0) -> Y``: BatchMatMul of slices, in int32."""
    return _integer_product(op, op.input(0), op.input(1), op.optional(2), op.optional(3))


@family.converts("QLinearMatMul")
def quantized_matmul(op: Op) -> Value:
    """``QLinearMatMul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero) -> y``: BatchMatMul, quantized."""
    scales = [op.require(op.input(index), FLOAT) for index in (1, 4, 6)]
    product = _integer_product(op, op.input(0), op.input(3), op.optional(2), op.optional(5))
    return _requantize(op, product, _as_column(op, scales[0], op.input(0)) * scales[1], 6)


def _integer_product(op: Op, a: Value, b: Value, a_zero: Value | None, b_zero: Value | None) -> Value:
    """Return the product of two matrices of 8-bit integers less their zero points, int32."""
    left, right = _eight_bits(op, a), _eight_bits(op, b)
    if a_zero is not None:
        left = left - _as_column(op, a_zero.cast(INT32), a)
    if b_zero is not None:
        right = right - b_zero.cast(INT32)
    ranks = (op.rank(a), op.rank(b))
    inner = op.static_dim(a, -1)
    if inner is None:
        return matrix_product(op, left, right, ranks)
    left, right = left.cast(FLOAT), right.cast(FLOAT)
    if inner <= _MOST_PRODUCTS:
        return matrix_product(op, left, right, ranks).cast(INT32)
    total: Value | None = None
    if inner > _MOST_SLICES * _MOST_PRODUCTS:
        op.unsupported(f"sums of {inner:,} products are too long to be exact in slices", code="invalid-operands")
    for start in range(0, inner, _MOST_PRODUCTS):
        end = min(start + _MOST_PRODUCTS, inner)
        x = slice_axis(op, left, ranks[0] - 1, start, end)
        y = slice_axis(op, right, max(ranks[1] - 2, 0), start, end)
        part = matrix_product(op, x, y, ranks).cast(INT32)
        total = part if total is None else total + part
    assert total is not None
    return total


def _eight_bits(op: Op, value: Value) -> Value:
    if op.dtype(value) not in (ir.DataType.INT8, ir.DataType.UINT8):
        op.unsupported(f"operands must be int8 or uint8, not {value.dtype.name.lower()}", code="dtype")
    return value.cast(INT32)


def _as_column(op: Op, values: Value, matrix: Value) -> Value:
    """Return one number for each row of a matrix as a column."""
    return values.reshape([-1, 1]) if op.rank(values) == 1 and op.rank(matrix) > 1 else values


def _requantize(op: Op, product: Value, scale: Value, index: int) -> Value:
    """Return sums of products in the output's type: ``scale`` is the operands', the output's are at ``index``."""
    scaled = product.cast(FLOAT) * (scale / op.input(index))
    return _saturate(op, scaled, op.optional(index + 1), op.output_dtype())


@family.converts("ConvInteger")
def conv_integer(op: Op) -> Value:
    """``ConvInteger(x, w, x_zero_point=0, w_zero_point=0; ...) -> y``: Conv of slices of channels, in int32."""
    return _integer_convolution(op, op.input(0), op.input(1), op.optional(2), op.optional(3))


@family.converts("QLinearConv")
def quantized_conv(op: Op) -> Value:
    """``QLinearConv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, B=None; ...) -> y``: Conv, quantized."""
    scales = [op.require(op.input(index), FLOAT) for index in (1, 4, 6)]
    sums = _integer_convolution(op, op.input(0), op.input(3), op.optional(2), op.optional(5))
    spatial = [1] * (op.rank(op.input(0)) - 2)
    bias = op.optional(8)
    if bias is not None:
        sums = sums + bias.reshape([-1, *spatial])
    channels = scales[1].reshape([-1, *spatial]) if op.rank(scales[1]) else scales[1]
    return _requantize(op, sums, scales[0] * channels, 6)


def _integer_convolution(op: Op, image: Value, kernel: Value, x_zero: Value | None, w_zero: Value | None) -> Value:
    """Return the convolution of 8-bit integers less zero points, int32: in slices of channels that float sums exactly.

    With groups each slice has the same channels of every group.
    """
    window = read_window(op, image, kernel_shape(op, kernel))
    group, inner = op.args.integer("group", default=1), op.static_dim(kernel, 1)
    x, w = _eight_bits(op, image), _eight_bits(op, kernel)
    if x_zero is not None:
        x = x - x_zero.cast(INT32)
    if w_zero is not None:
        zero = w_zero.cast(INT32)
        w = w - (zero.reshape([-1, *[1] * (window.rank + 1)]) if op.rank(w_zero) else zero)
    each = _MOST_PRODUCTS // math.prod(window.kernel)
    if inner is None or not each:
        op.needs_shape("the kernel must have known sizes, and few enough elements for float to sum them exactly")
    x, w = x.cast(FLOAT), w.cast(FLOAT)
    if inner <= each:
        return convolve(op, x, w, window, group).cast(INT32)
    total: Value | None = None
    if inner > _MOST_SLICES * each:
        op.unsupported(f"sums of {inner:,} products are too long to be exact in slices", code="invalid-operands")
    op.bounded(group, each)
    for start in range(0, inner, each):
        some = np.arange(start, min(start + each, inner))
        channels = (np.arange(group)[:, None] * inner + some).reshape(-1)
        slices = gather(op, x, 1, op.const(channels, INT64)), gather(op, w, 1, op.const(some, INT64))
        part = convolve(op, *slices, window, group).cast(INT32)
        total = part if total is None else total + part
    assert total is not None
    return total
