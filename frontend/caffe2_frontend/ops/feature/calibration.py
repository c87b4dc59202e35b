"""Transforms of features: piecewise linear functions, percentiles, Box-Cox, and dequantization of bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add, div, mul, reshape_like, sub
from caffe2_frontend.emit.operand_checks import FLOATS, require_dtype, require_equal, require_rank
from caffe2_frontend.emit.rows.binary_search import append_zero, search
from caffe2_frontend.emit.rows.segments import ends, lengths_vector, starts
from caffe2_frontend.emit.shapes import (
    as_vector,
    cast,
    indices,
    reshape,
    size,
    size_vector,
    slice_axis,
    squeeze,
    unsqueeze,
    vector,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("calibration")

_FLOATS = TensorInfo(ir.DataType.FLOAT, (None,))
_MATRIX = TensorInfo(ir.DataType.FLOAT, (None, None))
_LENGTHS = TensorInfo(ir.DataType.INT32, (None,))
_TABLES = ("bounds", "slopes", "intercepts")


def _piecewise_operand(op: OpView, index: int) -> TensorInfo:
    """Describe operands: X (a matrix unless ``binary``), and the tables as vectors."""
    if index:
        return _FLOATS
    return TensorInfo(ir.DataType.FLOAT, None if op.args.flag("binary", default=False) else (None, None))


@family.converts("PiecewiseLinearTransform", expects=_piecewise_operand)
def piecewise_linear_transform(op: Op) -> Value:
    """PiecewiseLinearTransform(X[, bounds, slopes, intercepts]; bounds, slopes, intercepts, binary=0) -> Y.

    Each column has bounds, slopes and intercepts of its own; beyond the bounds the function is constant. With
    ``binary`` there is one function, applied to the last column; if there are two, the first becomes one minus the
    last.
    """
    x = op.input(0)
    op.args.ignore("pieces")
    tables = _tables(op)
    if not op.args.flag("binary", default=False):
        require_rank(op, x, 2, "the operand")
        return _piecewise(op, x, tables, size(op, x, 1))
    if op.rank(x) == 1:
        return squeeze(op, _piecewise(op, unsqueeze(op, x, [1]), tables, 1), [1])
    require_rank(op, x, 2, "the operand")
    width = op.static_dim(x, 1)
    if width not in (None, 1, 2):
        op.unsupported(f"X must have one or two columns with binary=1, not {width}", code="invalid-operands")
    last = _piecewise(op, slice_axis(op, x, 1, -1, np.iinfo(np.int64).max), tables, 1)
    if width == 1:
        return last
    both = op.emit("Concat", sub(op, 1.0, last), last, axis=1)
    if width == 2:
        return both
    # The width is known only when the model runs: keep the last one or two columns.
    first = op.emit("Neg", size_vector(op, x, 1))
    return op.emit("Slice", both, first, op.const([2], np.int64), op.const([1], np.int64), shape=op.shape(x))


def _tables(op: Op) -> list[Value]:
    """Return bounds, slopes and intercepts, from arguments or operands: the tables of all functions concatenated."""
    tables = [op.args.numbers(name, default=()) for name in _TABLES]
    count = 1 if any(tables) else 1 + len(_TABLES)
    if len(op.inputs) != count:
        op.unsupported(
            f"the operator must have {count} inputs {'with' if any(tables) else 'without'} the arguments "
            f"{', '.join(_TABLES)}, not {len(op.inputs)}",
            code="invalid-operands",
        )
    if not any(tables):
        return [as_vector(op, table) for table in op.inputs[1:4]]
    groups = len(tables[0]) - len(tables[1])
    if len(tables[1]) != len(tables[2]) or groups < 1 or not tables[1] or len(tables[1]) % groups:
        op.unsupported(
            "slopes and intercepts must have equally many elements, and bounds one more per function",
            code="invalid-argument",
        )
    for bounds in np.reshape(tables[0], (groups, -1)):
        if (np.diff(bounds) < 0).any():
            op.unsupported("the bounds of a function must be sorted in ascending order", code="invalid-argument")
    return [op.const(values, np.float32) for values in tables]


def _piecewise(op: Op, x: Value, tables: Sequence[Value], groups: int | Value) -> Value:
    """Apply M functions to the columns of ``x`` [N, M].

    A function with P pieces has P + 1 bounds and P slopes and intercepts. The piece of an element is found by binary
    search between the function's bounds, and clamped to [0, P - 1]; the element is clamped to the bounds, so that the
    function is constant beyond them.
    """
    bounds, slopes, intercepts = tables
    columns = indices(op, groups)
    pieces = op.emit("Div", size_vector(op, slopes, 0), vector(op, [groups]))
    first = op.emit("Mul", columns, op.emit("Add", pieces, op.const([1], np.int64)))
    last = op.emit("Add", first, pieces)
    low, high = (op.emit("Gather", bounds, index) for index in (first, last))
    end = op.emit("Add", last, op.const([1], np.int64))
    piece = op.emit("Sub", search(op, bounds, x, "left", first, end), op.emit("Add", first, op.const([1], np.int64)))
    piece = op.emit("Max", piece, op.const([0], np.int64))
    piece = op.emit("Min", piece, op.emit("Sub", pieces, op.const([1], np.int64)))
    piece = op.emit("Add", piece, op.emit("Mul", columns, pieces))
    clamped = op.emit("Min", op.emit("Max", x, low), high)
    return add(op, mul(op, op.emit("Gather", slopes, piece), clamped), op.emit("Gather", intercepts, piece))


@family.converts("Percentile", expects={0: _MATRIX, 1: _MATRIX, 2: _LENGTHS})
def percentile(op: Op) -> Value:
    """Percentile(X, value_to_pct, lengths) -> Y.

    Each column has ``length`` sorted pairs (value, percentile), between which the percentile is interpolated. Below the
    first value the result is 0, above the last one 1.
    """
    x, pairs = op.input(0), op.input(1)
    for value, what in ((x, "the operand"), (pairs, "the pairs")):
        require_rank(op, value, 2, what)
    require_equal(op, op.static_dim(pairs, 1), 2, "the width of the pairs")
    lengths = lengths_vector(op, op.input(2))
    begin, end = starts(op, lengths), ends(op, lengths)
    values, percentiles = (squeeze(op, slice_axis(op, pairs, 1, i, i + 1), [1]) for i in range(2))
    # The first value that is not below the element; if it is the first or beyond the last, the result is 0 or 1.
    upper = search(op, values, x, "left", begin, end)
    values, percentiles = append_zero(op, values), append_zero(op, percentiles)
    lower = op.emit("Max", op.emit("Sub", upper, op.const([1], np.int64)), op.const([0], np.int64))
    upper_value, lower_value = (op.emit("Gather", values, index) for index in (upper, lower))
    upper_percentile, lower_percentile = (op.emit("Gather", percentiles, index) for index in (upper, lower))
    fraction = div(op, sub(op, x, lower_value), sub(op, upper_value, lower_value))
    interpolated = add(op, lower_percentile, mul(op, fraction, sub(op, upper_percentile, lower_percentile)))
    result = op.emit("Where", op.emit("Equal", upper, begin), op.const(0.0, x), interpolated)
    result = op.emit("Where", op.emit("Equal", upper_value, x), upper_percentile, result)
    return op.emit("Where", op.emit("Equal", upper, end), op.const(1.0, x), result)


@family.converts("BisectPercentile", expects={0: _MATRIX})
def bisect_percentile(op: Op) -> Value:
    """BisectPercentile(X; percentile_raw, percentile_mapping, percentile_lower, percentile_upper, lengths) -> Y.

    As Percentile, with the tables of all columns concatenated in arguments. At a raw value the result is its
    ``mapping``; between two, it is interpolated from the ``upper`` of the one below to the ``lower`` of the one above.
    """
    x = op.input(0)
    require_rank(op, x, 2, "the operand")
    names = ("percentile_raw", "percentile_mapping", "percentile_lower", "percentile_upper")
    tables = [op.args.numbers(name, default=()) for name in names]
    lengths = op.args.integers("lengths", default=())
    if len({len(table) for table in tables}) != 1 or sum(lengths) != len(tables[0]) or min(lengths, default=0) < 1:
        op.unsupported(
            "the percentile tables must have equally many elements, and lengths must be positive and sum to that",
            code="invalid-argument",
        )
    require_equal(op, op.static_dim(x, 1), len(lengths), "columns and lengths")
    raw, mapping, lower, upper = (op.const(table, np.float32) for table in tables)
    ends_ = np.cumsum(lengths)
    first, last = op.const(ends_ - lengths, np.int64), op.const(ends_ - 1, np.int64)
    # The last raw value that is not above the element, and the one after it.
    below = sub(op, search(op, raw, x, "right", first, op.const(ends_, np.int64)), 1)
    below = op.emit("Max", below, first)
    above = op.emit("Min", add(op, below, 1), last)
    value_below, value_above = (op.emit("Gather", raw, index) for index in (below, above))
    fraction = div(op, sub(op, x, value_below), add(op, sub(op, value_above, value_below), 1e-10))
    interpolated = add(
        op,
        mul(op, sub(op, 1.0, fraction), op.emit("Gather", upper, below)),
        mul(op, fraction, op.emit("Gather", lower, above)),
    )
    result = op.emit("Where", op.emit("Equal", value_below, x), op.emit("Gather", mapping, below), interpolated)
    result = op.emit("Where", op.emit("Greater", x, op.emit("Gather", raw, last)), op.const(1.0, x), result)
    return op.emit("Where", op.emit("Less", x, op.emit("Gather", raw, first)), op.const(0.0, x), result)


@family.converts("BatchBoxCox", expects={0: _MATRIX, 1: _FLOATS, 2: _FLOATS})
def batch_box_cox(op: Op) -> Value:
    """BatchBoxCox(data, lambda1, lambda2; min_block_size) -> Y.

    For each column ``ln(s)`` if ``lambda1`` is 0, else ``(s ** lambda1 - 1) / lambda1``, where ``s`` is
    ``max(x + lambda2, 1e-6)``. Data of another rank has the columns of its first axis' rows: [N] has one.
    """
    data, power, shift = op.input(0), op.input(1), op.input(2)
    op.args.ignore("naive", "min_block_size")
    require_dtype(op, data, FLOATS, "the data")
    for value, what in ((power, "lambda1"), (shift, "lambda2")):
        require_rank(op, value, 1, what)
    if not op.rank(data):
        op.unsupported("the data must not be a scalar", code="invalid-operands")
    x = data if op.rank(data) == 2 else op.emit("Flatten", data, axis=1)
    shifted = op.emit("Max", add(op, x, shift), op.const(1e-6, x))
    zero = op.emit("Equal", power, op.const(0.0, x))
    divisor = op.emit("Where", zero, op.const(1.0, x), power)
    powered = div(op, sub(op, op.emit("Pow", shifted, divisor), 1.0), divisor)
    y = op.emit("Where", zero, op.emit("Log", shifted), powered)
    return y if x is data else reshape_like(op, y, data)


@family.converts("ByteWeightDequant", expects={0: TensorInfo(ir.DataType.UINT8)})
def byte_weight_dequant(op: Op) -> Value:
    """ByteWeightDequant(X; min=-3.0, max=3.0, shape) -> Y.

    Byte b becomes ``min + b * (max - min) / 255``. Elements beyond the size of ``shape`` are dropped.
    """
    x = op.input(0)
    require_dtype(op, x, [ir.DataType.UINT8], "the operand")
    low, high = op.args.number("min", default=-3.0), op.args.number("max", default=3.0)
    shape = op.args.integers("shape", default=())
    step = np.float32((np.float32(high) - np.float32(low)) / 255.0)
    flat = slice_axis(op, op.emit("Reshape", x, op.const([-1], np.int64)), 0, 0, math.prod(shape))
    return add(op, mul(op, cast(op, reshape(op, flat, shape), ir.DataType.FLOAT), float(step)), low)
