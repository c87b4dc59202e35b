"""Histograms: counts of elements in bins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul, sub
from caffe2_frontend.emit.operand_checks import FLOATS, require_dtype
from caffe2_frontend.emit.rows.binary_search import search
from caffe2_frontend.emit.shapes import cast, concat_flat, reshape, slice_axis
from caffe2_frontend.interop.types import INT64
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("histogram")


def _elements(op: Op) -> Value:
    """Return the elements of all operands as a vector."""
    for x in op.inputs:
        require_dtype(op, x, FLOATS, "an operand")
    return concat_flat(op, op.inputs)


def _counts(op: Op, bins: Value, count: int) -> Value:
    """Return the number of occurrences of each of ``count`` bins, int64 [count]."""
    ones = op.emit("Expand", op.const([1], np.int64), op.emit("Shape", bins))
    return op.emit(
        "ScatterElements", op.const(np.zeros(op.bounded(count)), np.int64), bins, ones, axis=0, reduction="add"
    )


@family.converts("Histogram")
def histogram(op: Op) -> Value:
    """Histogram(X0, X1, ...; bin_edges) -> histogram.

    Bins include their lower edge; elements outside of all bins are not counted.
    """
    edges = op.args.numbers("bin_edges")
    if len(edges) < 2:
        op.unsupported(
            f"Number of bin edges must be greater than or equal to 2, not {len(edges)}", code="invalid-argument"
        )
    if any(a >= b for a, b in pairwise(edges)):
        op.unsupported(
            f"bin_edges must be a strictly increasing sequence of values, not {list(edges)}", code="invalid-argument"
        )
    x = _elements(op)
    bin_index = search(op, op.const(np.array(edges, np.float32), x), x, "right")
    return slice_axis(op, _counts(op, bin_index, len(edges) + 1), 0, 1, len(edges))


@family.converts("SelfBinningHistogram")
def self_binning_histogram(op: Op) -> tuple[Value, Value]:
    """SelfBinningHistogram(X0, X1, ...; num_bins, bin_spacing="linear", logspace_start=1e-24, abs=0) -> edges, counts.

    Bins from the minimum to slightly above the maximum, spaced evenly or logarithmically. Both outputs have
    ``num_bins + 1`` elements, the last count being 0. If the edges coincide, the first bin holds all elements.
    """
    bins = op.args.integer("num_bins", default=0)
    spacing = op.args.text("bin_spacing", default="linear")
    start = op.args.number("logspace_start", default=1e-24)
    # A misspelling of the former that Caffe2 does not read.
    op.args.ignore("logspacing_start")
    if bins < 1:
        op.unsupported(
            f"Number of bins must be greater than or equal to 1. num_bins is {bins}", code="invalid-argument"
        )
    if spacing not in ("linear", "logarithmic") or start <= 0:
        op.unsupported(
            f"logspace_start ({start}) must be positive, and bin_spacing ({spacing!r}) must be linear or logarithmic",
            code="invalid-argument",
        )
    x = _elements(op)
    if op.args.flag("abs", default=False):
        x = op.emit("Abs", x)
    # Minimum and maximum of no elements are undefined: append a zero then, and none else.
    nonempty = op.emit("Min", op.emit("Shape", x), op.const([1], np.int64))
    filler = op.emit("Expand", op.const([0.0], x), op.emit("Sub", op.const([1], np.int64), nonempty))
    filled = op.emit("Concat", x, filler, axis=0)
    low, high = (op.emit(kind, filled, keepdims=1, shape=[1]) for kind in ("ReduceMin", "ReduceMax"))
    steps = op.const(np.arange(op.bounded(bins + 1)) / op.dtype(x).numpy().type(bins), x)
    if spacing == "linear":
        top = add(op, low, mul(op, sub(op, high, low), 1.0001))
        edges = add(op, low, mul(op, steps, sub(op, top, low)))
    else:
        low, high = (op.emit("Max", v, op.const([start], x)) for v in (low, high))
        top = add(op, low, mul(op, sub(op, high, low), 1.0001))
        factor = sub(op, op.emit("Log", top), op.emit("Log", low))
        edges = mul(op, low, op.emit("Exp", mul(op, factor, steps)))
    bin_index = op.emit("Sub", search(op, edges, x, "right"), op.const([1], np.int64))
    counts = _counts(op, op.emit("Max", bin_index, op.const([0], np.int64)), bins + 1)
    counts = op.emit("Concat", slice_axis(op, counts, 0, 0, bins), op.const([0], np.int64), axis=0)
    inner, last = slice_axis(op, edges, 0, 0, bins), slice_axis(op, edges, 0, bins, bins + 1)
    # Where the range is too small for the float type, the last edge does not exceed the maximum.
    degenerate = op.emit("LessOrEqual", last, high)
    in_first = mul(op, op.emit("Size", x), op.const(np.arange(bins + 1) == 0, np.int64))
    counts = op.emit("Where", degenerate, in_first, counts)
    edges = op.emit("Concat", inner, op.emit("Where", degenerate, top, last), axis=0)
    return mul(op, edges, cast(op, nonempty, op.dtype(x))), counts


@family.converts("AccumulateHistogram")
def accumulate_histogram(op: Op) -> tuple[Value, Value]:
    """AccumulateHistogram(X; lower_bound=0.0, upper_bound=1.0, num_buckets=1) -> histogram, accumulated.

    ``num_buckets`` even buckets, and one at each end for the elements beyond the bounds. Caffe2's second output
    accumulates over all runs of a net; an exported model has no state, and returns what the first run would.
    """
    low, high = op.args.number("lower_bound", default=0.0), op.args.number("upper_bound", default=1.0)
    buckets = op.args.integer("num_buckets", default=1)
    if buckets < 1:
        op.unsupported(f"num_buckets must be positive, not {buckets}", code="invalid-argument")
    require_dtype(op, op.input(0), [ir.DataType.FLOAT], "the operand")
    x = reshape(op, op.input(0), [-1])
    width = (np.float32(high) - np.float32(low)) / np.float32(buckets)
    inside = add(op, cast(op, div(op, sub(op, x, low), float(width)), INT64), op.const(1, np.int64))
    above = op.emit("Where", op.emit("GreaterOrEqual", x, op.const(high, x)), op.const(buckets + 1, np.int64), inside)
    bucket = op.emit("Where", op.emit("Less", x, op.const(low, x)), op.const(0, np.int64), above)
    counts = _counts(op, bucket, buckets + 2)
    return counts, counts
