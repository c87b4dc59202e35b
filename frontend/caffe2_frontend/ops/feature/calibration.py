"""Transforms of features: piecewise linear functions, percentiles, bytes, Box and Cox."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add, div, mul, sub
from caffe2_frontend.emit.binary_search import search, with_guard
from caffe2_frontend.emit.operand_checks import FLOATS, require_dtype, require_equal, require_rank
from caffe2_frontend.emit.segments import ends, lengths_vector, starts
from caffe2_frontend.emit.shapes import (
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
    if index:
        return _FLOATS
    return TensorInfo(ir.DataType.FLOAT, None if op.args.flag("binary", default=False) else (None, None))


@family.converts("PiecewiseLinearTransform", expects=_piecewise_operand)
def piecewise_linear_transform(op: Op) -> Value:
    """Each column has bounds, slopes and intercepts of its own; beyond the bounds the function is constant.

    With ``binary`` there is one function: for the last column, and of two the first is one minus the last.
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
        op.unsupported(f"a binary transform has one or two columns, not {width}", code="invalid-operands")
    last = _piecewise(op, slice_axis(op, x, 1, -1, np.iinfo(np.int64).max), tables, 1)
    if width == 1:
        return last
    both = op.emit("Concat", sub(op, 1.0, last), last, axis=1)
    if width == 2:
        return both
    first = op.emit("Neg", size_vector(op, x, 1))
    return op.emit("Slice", both, first, op.const([2], np.int64), op.const([1], np.int64), shape=op.shape(x))


def _tables(op: Op) -> list[Value]:
    """Bounds, slopes and intercepts, one function's after another's."""
    given = [op.args.numbers(name, default=()) for name in _TABLES]
    if not any(given):
        return [op.input(1), op.input(2), op.input(3)]
    groups = len(given[0]) - len(given[1])
    if len(given[1]) != len(given[2]) or groups < 1 or not given[1] or len(given[1]) % groups:
        op.unsupported("bounds, slopes and intercepts do not fit each other", code="invalid-argument")
    for bounds in np.reshape(given[0], (groups, -1)):
        if (np.diff(bounds) < 0).any():
            op.unsupported("the bounds of a function must not fall", code="invalid-argument")
    return [op.const(values, np.float32) for values in given]


def _piecewise(op: Op, x: Value, tables: Sequence[Value], groups: int | Value) -> Value:
    """The columns of ``x`` [N, M] through M functions."""
    bounds, slopes, intercepts = tables
    columns = indices(op, groups)
    pieces = op.emit("Div", size_vector(op, slopes, 0), vector(op, [groups]))
    first = op.emit("Mul", columns, op.emit("Add", pieces, op.const([1], np.int64)))
    last = op.emit("Add", first, pieces)
    low, high = (op.emit("Gather", bounds, places) for places in (first, last))
    behind = op.emit("Add", last, op.const([1], np.int64))
    place = op.emit("Sub", search(op, bounds, x, "left", first, behind), op.emit("Add", first, op.const([1], np.int64)))
    place = op.emit("Max", place, op.const([0], np.int64))
    place = op.emit("Min", place, op.emit("Sub", pieces, op.const([1], np.int64)))
    place = op.emit("Add", place, op.emit("Mul", columns, pieces))
    inside = op.emit("Min", op.emit("Max", x, low), high)
    return add(op, mul(op, op.emit("Gather", slopes, place), inside), op.emit("Gather", intercepts, place))


@family.converts("Percentile", expects={0: _MATRIX, 1: _MATRIX, 2: _LENGTHS})
def percentile(op: Op) -> Value:
    """Each column has sorted pairs of value and percentile, as many as its length; between them, it is linear.

    Below the first value the result is 0, above the last one 1.
    """
    x, pairs = op.input(0), op.input(1)
    for value, what in ((x, "the operand"), (pairs, "the pairs")):
        require_rank(op, value, 2, what)
    require_equal(op, op.static_dim(pairs, 1), 2, "the width of the pairs")
    lengths = lengths_vector(op, op.input(2))
    first, behind = starts(op, lengths), ends(op, lengths)
    values, percentiles = (squeeze(op, slice_axis(op, pairs, 1, i, i + 1), [1]) for i in range(2))
    place = search(op, values, x, "left", first, behind)
    values, percentiles = with_guard(op, values), with_guard(op, percentiles)
    before = op.emit("Max", op.emit("Sub", place, op.const([1], np.int64)), op.const([0], np.int64))
    value, value_before = (op.emit("Gather", values, p) for p in (place, before))
    share, share_before = (op.emit("Gather", percentiles, p) for p in (place, before))
    part = div(op, sub(op, x, value_before), sub(op, value, value_before))
    between = add(op, share_before, mul(op, part, sub(op, share, share_before)))
    inner = op.emit("Where", op.emit("Equal", place, first), op.const(0.0, x), between)
    inner = op.emit("Where", op.emit("Equal", value, x), share, inner)
    return op.emit("Where", op.emit("Equal", place, behind), op.const(1.0, x), inner)


@family.converts("BisectPercentile", expects={0: _MATRIX})
def bisect_percentile(op: Op) -> Value:
    """As Percentile, with tables in arguments: ``mapping`` at a value, from ``upper`` to the next ``lower`` between."""
    x = op.input(0)
    require_rank(op, x, 2, "the operand")
    names = ("percentile_raw", "percentile_mapping", "percentile_lower", "percentile_upper")
    tables = [op.args.numbers(name, default=()) for name in names]
    lengths = op.args.integers("lengths", default=())
    if len({len(table) for table in tables}) != 1 or sum(lengths) != len(tables[0]) or min(lengths, default=0) < 1:
        op.unsupported("the percentile tables and lengths do not fit each other", code="invalid-argument")
    require_equal(op, op.static_dim(x, 1), len(lengths), "the number of columns and of lengths")
    raw, mapping, lower, upper = (op.const(table, np.float32) for table in tables)
    behind = np.cumsum(lengths)
    first, last = op.const(behind - lengths, np.int64), op.const(behind - 1, np.int64)
    one = op.const([1], np.int64)
    place = op.emit("Sub", search(op, raw, x, "right", first, op.const(behind, np.int64)), one)
    place = op.emit("Max", place, first)
    after = op.emit("Min", op.emit("Add", place, one), last)
    value, value_after = (op.emit("Gather", raw, p) for p in (place, after))
    part = div(op, sub(op, x, value), add(op, sub(op, value_after, value), 1e-10))
    between = add(
        op,
        mul(op, sub(op, 1.0, part), op.emit("Gather", upper, place)),
        mul(op, part, op.emit("Gather", lower, after)),
    )
    inner = op.emit("Where", op.emit("Equal", value, x), op.emit("Gather", mapping, place), between)
    inner = op.emit("Where", op.emit("Greater", x, op.emit("Gather", raw, last)), op.const(1.0, x), inner)
    return op.emit("Where", op.emit("Less", x, op.emit("Gather", raw, first)), op.const(0.0, x), inner)


@family.converts("BatchBoxCox", expects={0: _MATRIX, 1: _FLOATS, 2: _FLOATS})
def batch_box_cox(op: Op) -> Value:
    """``ln(x + lambda2)`` where ``lambda1`` is zero, else ``((x + lambda2) ** lambda1 - 1) / lambda1``, by columns.

    The sum is at least 1e-6.
    """
    x, power, shift = op.input(0), op.input(1), op.input(2)
    op.args.ignore("naive", "min_block_size")
    require_dtype(op, x, FLOATS, "the data")
    for value, rank, what in ((x, 2, "the data"), (power, 1, "lambda1"), (shift, 1, "lambda2")):
        require_rank(op, value, rank, what)
    shifted = op.emit("Max", add(op, x, shift), op.const(1e-6, x))
    zero = op.emit("Equal", power, op.const(0.0, x))
    divisor = op.emit("Where", zero, op.const(1.0, x), power)
    powered = div(op, sub(op, op.emit("Pow", shifted, divisor), 1.0), divisor)
    return op.emit("Where", zero, op.emit("Log", shifted), powered)


@family.converts("ByteWeightDequant", expects={0: TensorInfo(ir.DataType.UINT8)})
def byte_weight_dequant(op: Op) -> Value:
    """Bytes as even steps from ``min`` to ``max``, as many as fill ``shape``."""
    x = op.input(0)
    require_dtype(op, x, [ir.DataType.UINT8], "the operand")
    low, high = op.args.number("min", default=-3.0), op.args.number("max", default=3.0)
    shape = op.args.integers("shape", default=())
    step = np.float32((np.float32(high) - np.float32(low)) / 255.0)
    flat = slice_axis(op, op.emit("Reshape", x, op.const([-1], np.int64)), 0, 0, int(np.prod(shape)))
    return add(op, mul(op, cast(op, reshape(op, flat, shape), ir.DataType.FLOAT), float(step)), low)
