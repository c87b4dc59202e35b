"""Counts of elements in bins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul, sub
from caffe2_frontend.emit.binary_search import search
from caffe2_frontend.emit.operand_checks import FLOATS, require_dtype
from caffe2_frontend.emit.shapes import cast, reshape, slice_axis
from caffe2_frontend.interop.types import INT64
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("histogram")


def _elements(op: Op) -> Value:
    """The elements of all operands, in a vector."""
    for x in op.inputs:
        require_dtype(op, x, FLOATS, "an operand")
    parts = [reshape(op, x, [-1]) for x in op.inputs]
    return parts[0] if len(parts) == 1 else op.emit("Concat", *parts, axis=0)


def _counts(op: Op, bins: Value, count: int) -> Value:
    """How often each of ``count`` bins comes, [count] int64."""
    ones = op.emit("Expand", op.const([1], np.int64), op.emit("Shape", bins))
    return op.emit("ScatterElements", op.const(np.zeros(count), np.int64), bins, ones, axis=0, reduction="add")


@family.converts("Histogram")
def histogram(op: Op) -> Value:
    """Bins include their lower edge; what is outside all of them is not counted."""
    edges = op.args.numbers("bin_edges")
    if len(edges) < 2 or any(a >= b for a, b in pairwise(edges)):
        op.unsupported("bin_edges must be at least two, and rise", code="invalid-argument")
    x = _elements(op)
    place = search(op, op.const(np.array(edges, np.float32), x), x, "right")
    return slice_axis(op, _counts(op, place, len(edges) + 1), 0, 1, len(edges))


@family.converts("SelfBinningHistogram")
def self_binning_histogram(op: Op) -> tuple[Value, Value]:
    """Bins from the least to just beyond the greatest element, evenly spaced or by a constant factor.

    The outputs are the edges and the counts, whose last one is zero. Where edges are too close to tell apart, the first
    bin has all.
    """
    bins = op.args.integer("num_bins", default=0)
    spacing = op.args.text("bin_spacing", default="linear")
    least = op.args.number("logspace_start", default=1e-24)
    # A misspelling of the former that Caffe2 does not read.
    op.args.ignore("logspacing_start")
    if bins < 1 or spacing not in ("linear", "logarithmic") or least <= 0:
        op.unsupported(f"num_bins {bins}, bin_spacing {spacing!r} or logspace_start is wrong", code="invalid-argument")
    x = _elements(op)
    if op.args.flag("abs", default=False):
        x = op.emit("Abs", x)
    some = op.emit("Min", op.emit("Shape", x), op.const([1], np.int64))
    stand_in = op.emit("Expand", op.const([0.0], x), op.emit("Sub", op.const([1], np.int64), some))
    never_empty = op.emit("Concat", x, stand_in, axis=0)
    low, high = (op.emit(kind, never_empty, keepdims=1, shape=[1]) for kind in ("ReduceMin", "ReduceMax"))
    steps = op.const(np.arange(bins + 1) / op.dtype(x).numpy().type(bins), x)
    if spacing == "linear":
        top = add(op, low, mul(op, sub(op, high, low), 1.0001))
        edges = add(op, low, mul(op, steps, sub(op, top, low)))
    else:
        low, high = (op.emit("Max", v, op.const([least], x)) for v in (low, high))
        top = add(op, low, mul(op, sub(op, high, low), 1.0001))
        factor = sub(op, op.emit("Log", top), op.emit("Log", low))
        edges = mul(op, low, op.emit("Exp", mul(op, factor, steps)))
    place = op.emit("Sub", search(op, edges, x, "right"), op.const([1], np.int64))
    counts = _counts(op, op.emit("Max", place, op.const([0], np.int64)), bins + 1)
    counts = op.emit("Concat", slice_axis(op, counts, 0, 0, bins), op.const([0], np.int64), axis=0)
    inner, last = slice_axis(op, edges, 0, 0, bins), slice_axis(op, edges, 0, bins, bins + 1)
    flat = op.emit("LessOrEqual", last, high)
    in_first = mul(op, op.emit("Size", x), op.const(np.arange(bins + 1) == 0, np.int64))
    counts = op.emit("Where", flat, in_first, counts)
    edges = op.emit("Concat", inner, op.emit("Where", flat, top, last), axis=0)
    return mul(op, edges, cast(op, some, op.dtype(x))), counts


@family.converts("AccumulateHistogram")
def accumulate_histogram(op: Op) -> tuple[Value, Value]:
    """Even buckets between two bounds, and one at each end for what is outside them.

    The second output counts over all runs of a net in Caffe2. ONNX keeps nothing from run to run: it is what the first
    run gives.
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
