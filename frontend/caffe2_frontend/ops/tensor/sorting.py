"""Order: the greatest elements, and quantiles by bisection."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, mul, sub
from caffe2_frontend.emit.operand_checks import FLOATS, require_dtype, require_rank_from
from caffe2_frontend.emit.shapes import cast, indices, product, reshape, size, sizes, unsqueeze, vector
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.interop.types import INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("sorting")


@family.converts("TopK")
def top_k(op: Op) -> tuple[Value | None, ...]:
    """An axis shorter than ``k`` is padded with zeros, and its indices with -1.

    The third output has the indices into the flattened operand, in the order of the second one's elements.
    """
    x, k = op.input(0), op.args.integer("k", default=-1)
    if k < 1:
        op.unsupported(f"k must be positive, not {k}", code="invalid-argument")
    rank = op.rank(x)
    axis = op.axis(op.args.integer("axis", default=-1), rank)
    length = size(op, x, axis)
    if isinstance(length, int):
        count = op.const([min(k, length)], np.int64)
    else:
        count = op.emit("Min", length, op.const([k], np.int64))
    values, places = op.emit("TopK", x, count, axis=axis, outputs=2)
    flat = _flattened_places(op, x, places, axis) if op.wants(2) else None
    if not isinstance(length, int) or length < k:
        missing = op.emit("Sub", op.const([k], np.int64), count)
        values = _padded(op, values, missing, axis, k, 0)
        places = _padded(op, places, missing, axis, k, -1)
        flat = None if flat is None else _padded(op, flat, missing, axis, k, -1)
    return values, places, None if flat is None else reshape(op, flat, [-1])


def _padded(op: Op, x: Value, missing: Value, axis: int, k: int, fill: int) -> Value:
    """``x`` made ``k`` long along ``axis``."""
    nothing = op.const([0], np.int64)
    pads = op.emit("Concat", nothing, missing, axis=0)
    shape = [k if i == axis else dim for i, dim in enumerate(op.shape(x))]
    return op.emit("Pad", x, pads, op.const(fill, x), op.const([axis], np.int64), shape=shape)


def _flattened_places(op: Op, x: Value, places: Value, axis: int) -> Value:
    """Indices along ``axis`` as indices into the flattened ``x``."""
    flat = op.emit("Mul", places, _stride(op, x, axis))
    for other in range(op.rank(x)):
        if other != axis:
            offsets = op.emit("Mul", indices(op, size(op, x, other)), _stride(op, x, other))
            flat = op.emit("Add", flat, unsqueeze(op, offsets, range(1, op.rank(x) - other)))
    return flat


def _stride(op: Op, x: Value, axis: int) -> Value:
    """How far neighbours along ``axis`` are apart in the flattened ``x``, [1]."""
    return vector(op, [product(op, sizes(op, x, axis + 1))])


@family.converts("FlexibleTopK", expects={1: TensorInfo(INT64)})
def flexible_top_k(op: Op) -> tuple[Value, Value]:
    """Each row along the last axis has its own ``k``; what they give comes one after another, in vectors."""
    x = op.input(0)
    require_rank_from(op, x, 1, "the operand")
    length = size(op, x, op.rank(x) - 1)
    ordered = op.emit("TopK", x, vector(op, [length]), axis=-1, outputs=2)
    k = reshape(op, op.input(1), [-1, 1])
    chosen = reshape(op, op.emit("Less", indices(op, length), k), [-1])
    values, places = (op.emit("Compress", reshape(op, v, [-1]), chosen, axis=0, shape=[None]) for v in ordered)
    return values, places


@family.converts("ArgMax", "ArgMin")
def arg_extreme(op: Op) -> Value:
    x = op.input(0)
    axis = op.args.integer("axis", default=-1)
    if axis < -1:
        op.unsupported(f"axis {axis} is negative", code="invalid-argument")
    axis = op.axis(axis, op.rank(x))
    return op.emit(op.type, x, axis=axis, keepdims=int(op.args.flag("keepdims", default=True)))


@family.converts("Quantile")
def quantile(op: Op) -> Value:
    """Bisection between the least and the greatest element until the two ends are within ``tol`` of each other."""
    share = op.args.number("quantile", default=-1.0)
    tolerance = op.args.number("tol", default=1e-3)
    if not 0 <= share <= 1 or tolerance <= 0:
        op.unsupported(f"quantile {share} or tol {tolerance} is out of range", code="invalid-argument")
    require_dtype(op, op.input(0), FLOATS, "the operand")
    parts = [reshape(op, x, [-1]) for x in op.inputs]
    x = parts[0] if len(parts) == 1 else op.emit("Concat", *parts, axis=0)
    if op.args.flag("abs", default=True):
        x = op.emit("Abs", x)
    low, high = (op.emit(kind, x, keepdims=0, shape=[]) for kind in ("ReduceMin", "ReduceMax"))
    total = op.emit("Size", x)
    # Caffe2 counts in float32.
    asked = op.emit("Ceil", mul(op, cast(op, total, ir.DataType.FLOAT), share))
    target = cast(op, asked, INT64)
    at_low = op.emit("GreaterOrEqual", _count_to(op, x, low), target)
    at_high = op.emit("Equal", target, total)
    edge = op.emit("Or", at_low, at_high)

    def halve(inside: Op, states: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        lo, hi = states
        middle = add(inside, lo, mul(inside, sub(inside, hi, lo), 0.5))
        below = _count_to(inside, x, middle)
        short = inside.emit("Less", below, target)
        new_lo, new_hi = inside.emit("Where", short, middle, lo), inside.emit("Where", short, hi, middle)
        # Two ends that no number is between are as close as they get.
        moved = inside.emit("Equal", inside.emit("Where", short, lo, hi), middle)
        stop = inside.emit("Or", inside.emit("Equal", below, target), moved)
        go = inside.emit("And", inside.emit("Not", stop), _apart(inside, new_lo, new_hi, tolerance))
        return [go, new_lo, new_hi], []

    start = op.emit("And", op.emit("Not", edge), _apart(op, low, high, tolerance))
    (_, found), _ = loop(op, None, start, [low, high], halve)
    # The greatest element is asked for before the least one is looked at, unless nothing is.
    none = op.emit("Equal", target, op.const(0, np.int64))
    least = op.emit("Or", none, op.emit("And", at_low, op.emit("Not", at_high)))
    return reshape(op, op.emit("Where", least, low, found), [1])


def _count_to(op: Op, x: Value, limit: Value) -> Value:
    """How many elements are not above the limit, a scalar."""
    return op.emit("ReduceSum", cast(op, op.emit("LessOrEqual", x, limit), INT64), keepdims=0, shape=[])


def _apart(op: Op, low: Value, high: Value, tolerance: float) -> Value:
    """Whether two numbers differ by more than ``tolerance`` of their magnitude."""
    magnitude = add(op, op.emit("Abs", high), op.emit("Abs", low))
    return op.emit("Greater", op.emit("Abs", sub(op, high, low)), mul(op, magnitude, float(np.float32(tolerance))))
