"""Quantized numbers: there and back, and products of whole numbers, exactly."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.shapes import NARROW, cut, dim_parts, round_half_even
from caffe2_backend.emit.value import count, gathered, steps
from caffe2_backend.emit.window import read_window
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import FLOAT, INT32, Op
from caffe2_backend.ops.nn.convolution import convolved, kernel_shape
from caffe2_backend.ops.nn.linear import matrix_product

family = Family("quantization")

# So many products of two 8-bit numbers less their zero points add up to less than 2^24: float holds every such sum.
_MOST_PRODUCTS: Final = 2**24 // 255**2


@family.converts("QuantizeLinear")
def quantize(op: Op) -> str:
    """Rounded half to even, cut off at the ends of the type; scales are one number, or one a slice or a block."""
    axis, block = op.integer("axis", 1), op.integer("block_size", 0)
    op.ignore("saturate", "precision", "output_dtype")
    op.require(0, FLOAT)
    op.require(1, FLOAT)
    scaled = op.emit("Div", op.input(0), _per_slice(op, 1, op.input(1), axis, block))
    zero = _per_slice(op, 2, op.cast(op.input(2), FLOAT), axis, block) if op.has_input(2) else ""
    return _narrow(op, scaled, zero, op.output_dtype())


@family.converts("DequantizeLinear")
def dequantize(op: Op) -> str:
    axis, block = op.integer("axis", 1), op.integer("block_size", 0)
    op.ignore("output_dtype")
    op.require(1, FLOAT)
    if op.output_dtype() != FLOAT:
        op.unsupported(f"numbers of {op.output_dtype().name.lower()} by a scale of another type", code="dtype")
    x = _whole(op, 0)
    if op.has_input(2):
        x = op.emit("Sub", x, _per_slice(op, 2, _whole(op, 2), axis, block))
    return op.emit("Mul", op.cast(x, FLOAT), _per_slice(op, 1, op.input(1), axis, block))


def _whole(op: Op, index: int) -> str:
    """An operand in int32."""
    dtype = op.dtype(index)
    if dtype not in (*NARROW, INT32):
        op.unsupported(f"Caffe2 has no tensors of {dtype.name.lower()}", code="dtype")
    return op.input(index) if dtype == INT32 else op.cast(op.input(index), INT32)


def _narrow(op: Op, blob: str, zero: str, dtype: ir.DataType) -> str:
    """Floats rounded, moved by a zero point and cut off at the ends of a narrow type."""
    if dtype not in NARROW:
        op.unsupported(f"Caffe2 has no tensors of {dtype.name.lower()}", code="dtype")
    low, high = np.iinfo(dtype.numpy()).min, np.iinfo(dtype.numpy()).max
    whole = round_half_even(op, blob)
    shifted = op.emit("Add", whole, zero) if zero else whole
    return op.cast(op.cast(op.emit("Clip", shifted, min=float(low), max=float(high)), INT32), dtype)


def _per_slice(op: Op, index: int, blob: str, axis: int, block: int) -> str:
    """A scale or zero point so that it broadcasts: of one number, of one a slice of ``axis``, or of one a block."""
    rank = op.rank()
    if op.rank(index) == 0 or rank == 0 or (op.rank(index) == 1 and op.dim(0, index) == 1):
        return blob
    axis = op.axis(axis, rank)
    if op.rank(index) == 1 and not block:
        return op.reshape(blob, [-1, *[1] * (rank - 1 - axis)])
    if not block:
        op.unsupported("scales of blocks without their size", code="invalid-argument")
    return gathered(op, blob, axis, steps(op, count(op, dim_parts(op, 0)[axis])) // block)


@family.converts("MatMulInteger")
def matmul_integer(op: Op) -> str:
    return _product(op, (0, 1), (2, 3))


@family.converts("QLinearMatMul")
def quantized_matmul(op: Op) -> str:
    for index in (1, 4, 6):
        op.require(index, FLOAT)
    product = _product(op, (0, 3), (2, 5))
    scale = op.emit("Mul", _rows(op, 1, op.input(1), 0), op.input(4))
    return _requantized(op, product, scale, 6)


def _product(op: Op, operands: tuple[int, int], zeros: tuple[int, int]) -> str:
    """The product of two matrices of 8-bit numbers less their zero points, int32: in slices that float holds."""
    left, right = operands
    a, b = _eight_bits(op, left), _eight_bits(op, right)
    if op.has_input(zeros[0]):
        a = op.emit("Sub", a, _rows(op, zeros[0], op.cast(op.input(zeros[0]), INT32), left))
    if op.has_input(zeros[1]):
        b = op.emit("Sub", b, op.cast(op.input(zeros[1]), INT32))
    ranks = (op.rank(left), op.rank(right))
    inner = op.dim(-1, left)
    if inner is None:
        return matrix_product(op, a, b, INT32, ranks)
    total = ""
    a, b = op.cast(a, FLOAT), op.cast(b, FLOAT)
    for start in range(0, inner, _MOST_PRODUCTS):
        end = min(start + _MOST_PRODUCTS, inner)
        whole = inner <= _MOST_PRODUCTS
        x = a if whole else cut(op, a, ranks[0] - 1, start, end)
        y = b if whole else cut(op, b, max(ranks[1] - 2, 0), start, end)
        part = op.cast(matrix_product(op, x, y, FLOAT, ranks), INT32)
        total = op.emit("Add", total, part) if total else part
    return total


def _eight_bits(op: Op, index: int) -> str:
    if op.dtype(index) not in (ir.DataType.INT8, ir.DataType.UINT8):
        op.unsupported(f"products of {op.dtype(index).name.lower()}", code="dtype")
    return op.cast(op.input(index), INT32)


def _rows(op: Op, index: int, blob: str, of: int) -> str:
    """One number a row as a column."""
    return op.reshape(blob, [-1, 1]) if op.rank(index) == 1 and op.rank(of) > 1 else blob


def _requantized(op: Op, product: str, scale: str, index: int) -> str:
    """Sums of products in the type of the output: by the operands' scales, and the output's at ``index``."""
    scaled = op.emit("Mul", op.cast(product, FLOAT), op.emit("Div", scale, op.input(index)))
    zero = op.cast(op.input(index + 1), FLOAT) if op.has_input(index + 1) else ""
    return _narrow(op, scaled, zero, op.output_dtype())


@family.converts("ConvInteger")
def conv_integer(op: Op) -> str:
    return _convolution(op, (0, 1), (2, 3))


@family.converts("QLinearConv")
def quantized_conv(op: Op) -> str:
    for index in (1, 4, 6):
        op.require(index, FLOAT)
    sums = _convolution(op, (0, 3), (2, 5))
    behind = [1] * (op.rank() - 2)
    if op.has_input(8):
        sums = op.emit("Add", sums, op.reshape(op.input(8), [-1, *behind]))
    channels = op.reshape(op.input(4), [-1, *behind]) if op.rank(4) else op.input(4)
    return _requantized(op, sums, op.emit("Mul", op.input(1), channels), 6)


def _convolution(op: Op, operands: tuple[int, int], zeros: tuple[int, int]) -> str:
    """The convolution of 8-bit numbers less their zero points, int32: of so many channels at a time as float holds."""
    image, kernel = operands
    window = read_window(op, kernel_shape(op, kernel))
    group, inner = op.integer("group", 1), op.dim(1, kernel)
    x, w = _eight_bits(op, image), _eight_bits(op, kernel)
    if op.has_input(zeros[0]):
        x = op.emit("Sub", x, op.cast(op.input(zeros[0]), INT32))
    if op.has_input(zeros[1]):
        zero = op.cast(op.input(zeros[1]), INT32)
        w = op.emit("Sub", w, op.reshape(zero, [-1, *[1] * (window.rank + 1)]) if op.rank(zeros[1]) else zero)
    each = _MOST_PRODUCTS // math.prod(window.kernel)
    if inner is None or not each:
        op.unsupported("a kernel of unknown size, or of more entries than float adds up exactly", code="needs-shape")
    x, w, total = op.cast(x, FLOAT), op.cast(w, FLOAT), ""
    for start in range(0, inner, each):
        some = np.arange(start, min(start + each, inner))
        channels = (np.arange(group)[:, None] * inner + some).reshape(-1)
        of_x = x if inner <= each else op.emit("Gather", x, op.const(channels, np.int64), axis=1)
        of_w = w if inner <= each else op.emit("Gather", w, op.const(some, np.int64), axis=1)
        part = op.cast(convolved(op, of_x, of_w, window, group), INT32)
        total = op.emit("Add", total, part) if total else part
    return total
