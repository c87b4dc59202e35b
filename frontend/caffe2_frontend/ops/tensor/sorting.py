"""Order: the largest elements, and quantiles by bisection."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, mul, sub
from caffe2_frontend.emit.operand_checks import FLOATS, require_dtype, require_min_rank
from caffe2_frontend.emit.shapes import cast, concat_flat, indices, product, reshape, size, sizes, unsqueeze, vector
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.interop.types import INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("sorting")


@family.converts("TopK")
def top_k(op: Op) -> tuple[Value | None, ...]:
    """TopK(X; k, axis=-1) -> values, indices[, flattened_indices].

    If the axis is shorter than ``k``, values are padded with 0 and indices with -1. The third output holds the same
    indices into the flattened operand.
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
    values, index = op.emit("TopK", x, count, axis=axis, outputs=2)
    flat = _flattened_indices(op, x, index, axis) if op.wants(2) else None
    if not isinstance(length, int) or length < k:
        missing = op.emit("Sub", op.const([k], np.int64), count)
        values = _padded(op, values, missing, axis, k, 0)
        index = _padded(op, index, missing, axis, k, -1)
        flat = None if flat is None else _padded(op, flat, missing, axis, k, -1)
    return values, index, None if flat is None else reshape(op, flat, [-1])


def _padded(op: Op, x: Value, missing: Value, axis: int, k: int, fill: int) -> Value:
    """Pad ``x`` along ``axis`` by ``missing`` elements, to the size ``k``."""
    zero = op.const([0], np.int64)
    pads = op.emit("Concat", zero, missing, axis=0)
    shape = [k if i == axis else dim for i, dim in enumerate(op.shape(x))]
    return op.emit("Pad", x, pads, op.const(fill, x), op.const([axis], np.int64), shape=shape)


def _flattened_indices(op: Op, x: Value, index: Value, axis: int) -> Value:
    """Convert indices along ``axis`` to indices into the flattened ``x``."""
    flat = op.emit("Mul", index, _stride(op, x, axis))
    for other in range(op.rank(x)):
        if other != axis:
            offsets = op.emit("Mul", indices(op, size(op, x, other)), _stride(op, x, other))
            flat = op.emit("Add", flat, unsqueeze(op, offsets, range(1, op.rank(x) - other)))
    return flat


def _stride(op: Op, x: Value, axis: int) -> Value:
    """Return the distance in the flattened ``x`` of neighbours along ``axis``, [1]."""
    return vector(op, [product(op, sizes(op, x, axis + 1))])


@family.converts("FlexibleTopK", expects={1: TensorInfo(INT64, (None,))})
def flexible_top_k(op: Op) -> tuple[Value, Value]:
    """FlexibleTopK(X, k) -> values, indices.

    Each row along the last axis has a ``k`` of its own. The results of all rows are concatenated.
    """
    x = op.input(0)
    require_min_rank(op, x, 1, "the operand")
    length = size(op, x, op.rank(x) - 1)
    ordered = op.emit("TopK", x, vector(op, [length]), axis=-1, outputs=2)
    k = reshape(op, op.input(1), [-1, 1])
    chosen = reshape(op, op.emit("Less", indices(op, length), k), [-1])
    values, index = (op.emit("Compress", reshape(op, v, [-1]), chosen, axis=0, shape=[None]) for v in ordered)
    return values, index


@family.converts("ArgMax", "ArgMin")
def arg_extreme(op: Op) -> Value:
    """ArgMax | ArgMin(X; axis=-1, keepdims=1) -> indices: 0 along an axis that is known to have no elements."""
    x = op.input(0)
    axis = op.args.integer("axis", default=-1)
    if axis < -1:
        op.unsupported(f"axis must be -1 or not negative, not {axis}", code="invalid-argument")
    axis, keep = op.axis(axis, op.rank(x)), op.args.flag("keepdims", default=True)
    if op.static_dim(x, axis) == 0:  # ONNX does not define it
        kept = [1] if keep else []
        dims = [*sizes(op, x, 0, axis), *kept, *sizes(op, x, axis + 1)]
        return op.emit("Expand", op.const(0, np.int64), vector(op, dims))
    return op.emit(op.type, x, axis=axis, keepdims=int(keep))


@family.converts("Quantile")
def quantile(op: Op) -> Value:
    """Quantile(X0, X1, ...; quantile, abs=1, tol=1e-3) -> Y.

    Bisection between the minimum and the maximum of all elements, as Caffe2 does it: the smallest value that at least
    ``ceil(quantile * count)`` elements do not exceed, up to the tolerance ``tol``, which is relative. It stops early
    when exactly as many elements do not exceed the middle.
    """
    fraction = op.args.number("quantile", default=-1.0)
    tolerance = op.args.number("tol", default=1e-3)
    if not 0 <= fraction <= 1 or tolerance <= 0:
        op.unsupported(
            f"quantile must be between 0 and 1 ({fraction}), and tol positive ({tolerance})", code="invalid-argument"
        )
    require_dtype(op, op.input(0), FLOATS, "the operand")
    x = concat_flat(op, op.inputs)
    if op.args.flag("abs", default=True):
        x = op.emit("Abs", x)
    low, high = (op.emit(kind, x, keepdims=0, shape=[]) for kind in ("ReduceMin", "ReduceMax"))
    total = op.emit("Size", x)
    # Caffe2 computes the number of elements in float32.
    wanted = op.emit("Ceil", mul(op, cast(op, total, ir.DataType.FLOAT), fraction))
    target = cast(op, wanted, INT64)
    at_low = op.emit("GreaterOrEqual", _count_to(op, x, low), target)
    at_high = op.emit("Equal", target, total)
    found_at_end = op.emit("Or", at_low, at_high)

    def halve(inside: Op, states: list[Value], _: list[Value]) -> tuple[list[Value], list[Value]]:
        lo, hi = states
        middle = add(inside, lo, mul(inside, sub(inside, hi, lo), 0.5))
        below = _count_to(inside, x, middle)
        too_few = inside.emit("Less", below, target)
        new_lo, new_hi = inside.emit("Where", too_few, middle, lo), inside.emit("Where", too_few, hi, middle)
        # If the middle equals the end that it replaces, no float lies between the two: stop.
        stuck = inside.emit("Equal", inside.emit("Where", too_few, lo, hi), middle)
        stop = inside.emit("Or", inside.emit("Equal", below, target), stuck)
        proceed = inside.emit("And", inside.emit("Not", stop), _apart(inside, new_lo, new_hi, tolerance))
        return [proceed, new_lo, new_hi], []

    start = op.emit("And", op.emit("Not", found_at_end), _apart(op, low, high, tolerance))
    (_, found), _ = loop(op, None, start, [low, high], halve)
    # Caffe2 returns the maximum at once if all elements are wanted, before it tests the minimum; if none are, the
    # minimum.
    none_wanted = op.emit("Equal", target, op.const(0, np.int64))
    is_minimum = op.emit("Or", none_wanted, op.emit("And", at_low, op.emit("Not", at_high)))
    return reshape(op, op.emit("Where", is_minimum, low, found), [1])


def _count_to(op: Op, x: Value, limit: Value) -> Value:
    """Return the number of elements that do not exceed ``limit``, a scalar."""
    return op.emit("ReduceSum", cast(op, op.emit("LessOrEqual", x, limit), INT64), keepdims=0, shape=[])


def _apart(op: Op, low: Value, high: Value, tolerance: float) -> Value:
    """Return whether two scalars differ by more than ``tolerance`` of their magnitude."""
    magnitude = add(op, op.emit("Abs", high), op.emit("Abs", low))
    return op.emit("Greater", op.emit("Abs", sub(op, high, low)), mul(op, magnitude, float(np.float32(tolerance))))
