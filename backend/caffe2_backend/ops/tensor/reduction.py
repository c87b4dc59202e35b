"""Reductions along axes, and normalisation of a whole axis."""

from __future__ import annotations

from functools import reduce as fold

import numpy as np
from onnx_ir import DataType

from caffe2_backend.emit.dynamic import chosen_dims, combined, mask_of, named_axes, parted, product_of, resized, without
from caffe2_backend.emit.shapes import (
    LARGEST,
    NUMBERS,
    along_last,
    concat,
    dim_of,
    joined,
    moved,
    narrowed,
    scalar,
    widened,
)
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import BOOL, DOUBLE, FLOAT, INT32, INT64, Op
from caffe2_backend.ops.tensor.shape import full

family = Family("reduction")


# The axes to reduce: a list, None for no reduction at all, or, where they are computed at run time, a mask over all.
Axes = list[int] | str | None


def _axes(op: Op) -> Axes:
    idle = op.integer("noop_with_empty_axes", 0)
    rank = op.rank()
    attribute = op.integers("axes")
    known = op.known(1) if op.has_input(1) else None
    count = op.dim(0, 1) if op.has_input(1) else 0
    if rank and known is None and count != 0:
        mask = mask_of(op, named_axes(op, 1, rank), rank)
        if count is not None or idle:
            return mask
        empty = op.emit("EQ", op.emit("Shape", op.input(1)), op.const([0], np.int64))
        return op.emit("Or", mask, empty)
    named = (attribute or []) if known is None else [int(axis) for axis in known.reshape(-1)]
    if not named:
        return None if idle else list(range(rank))
    return sorted(op.axis(axis, rank) for axis in named)


def _reduced(op: Op, kind: str, blob: str, axes: Axes, keep: int) -> str:
    if not axes:
        return op.emit("Copy", blob)
    if isinstance(axes, list):
        return _of_something(op, kind, op.emit(kind, blob, axes=axes, keepdims=keep), axes)
    rank = op.rank()
    split = parted(op, blob, axes, rank)
    made = _of_something(op, kind, op.emit(kind, split, axes=list(range(0, 2 * rank, 2)), keepdims=0), axes)
    return made if keep else without(op, made, axes)


def _of_something(op: Op, kind: str, made: str, axes: Axes) -> str:
    """The greatest of no floats at all is minus infinity, for which Caffe2 gives the lowest number."""
    sizes = [op.dim(axis) for axis in (axes if isinstance(axes, list) else range(op.rank()))]
    if kind not in ("ReduceMax", "ReduceMin") or all(sizes) or op.dtype() not in (FLOAT, DOUBLE):
        return made
    dtype = op.dtype()
    empty = op.emit("EQ", op.emit("Size", op.input(0)), scalar(op, 0, INT64))
    far = scalar(op, -np.inf if kind == "ReduceMax" else np.inf, dtype)
    return op.emit("Add", made, op.emit("Where", empty, far, scalar(op, 0, dtype)))


def _dropped(op: Op, blob: str, axes: Axes, keep: int) -> str:
    """What was reduced with its dims kept, without them where the operator does not keep them."""
    if keep or not axes:
        return blob
    return without(op, blob, axes) if isinstance(axes, str) else op.emit("Squeeze", blob, dims=axes)


@family.converts("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2")
def reduce(op: Op) -> str:
    keep, axes = op.integer("keepdims", 1), _axes(op)
    norm = op.type in ("ReduceL1", "ReduceL2")
    if op.dtype() == BOOL:
        return _of_bools(op, axes, keep)
    if axes is None and not norm:
        return op.input(0)
    accepted: tuple[DataType, ...] = NUMBERS if op.type in ("ReduceSum", "ReduceMax", "ReduceMin") else (FLOAT, DOUBLE)
    blob, _ = widened(op, 0, (FLOAT,) if norm else accepted)
    made = op.emit("Abs", blob) if norm and not axes else _reduced(op, op.type, blob, axes, keep)
    return narrowed(op, made, op.dtype())


def _of_bools(op: Op, axes: Axes, keep: int) -> str:
    """Whether any is true, or whether none is false."""
    if op.type not in ("ReduceMax", "ReduceMin"):
        op.require(0, *NUMBERS)
    if axes is None:
        return op.input(0)
    least = op.type == "ReduceMin"
    counted = op.cast(op.emit("Not", op.input(0)) if least else op.input(0), INT32)
    found = op.emit("GT", _reduced(op, "ReduceSum", counted, axes, keep), scalar(op, 0, INT32))
    return op.emit("Not", found) if least else found


@family.converts("ReduceSumSquare")
def sum_of_squares(op: Op) -> str:
    keep, axes = op.integer("keepdims", 1), _axes(op)
    blob, _ = widened(op, 0)
    square = op.emit("Mul", blob, blob)
    return narrowed(op, square if axes is None else _reduced(op, "ReduceSum", square, axes, keep), op.dtype())


@family.converts("ReduceLogSum")
def log_of_sum(op: Op) -> str:
    keep, axes = op.integer("keepdims", 1), _axes(op)
    op.require(0, FLOAT)
    blob = op.input(0)
    return op.emit("Log", blob if axes is None else _reduced(op, "ReduceSum", blob, axes, keep))


@family.converts("ReduceLogSumExp")
def log_of_sum_of_exponentials(op: Op) -> str:
    """The greatest is taken out first, so that no exponential overflows; one that is infinite leaves no NaN."""
    keep, axes = op.integer("keepdims", 1), _axes(op)
    op.require(0, FLOAT)
    if axes is None:
        return op.input(0)
    top = op.emit("Clip", _reduced(op, "ReduceMax", op.input(0), axes, 1), min=-LARGEST, max=LARGEST)
    grown = op.emit("Exp", op.emit("Sub", op.input(0), top))
    kept = op.emit("Add", op.emit("Log", _reduced(op, "ReduceSum", grown, axes, 1)), top)
    return _dropped(op, kept, axes, keep)


@family.converts("ReduceProd")
def product_of_all(op: Op) -> str:
    """Slices of each axis, multiplied; where their number is not known, halves of all, again and again."""
    keep, axes = op.integer("keepdims", 1), _axes(op)
    blob, dtype = widened(op, 0)
    if isinstance(axes, list) and all(0 < (op.dim(axis) or 0) <= _MOST_SLICES for axis in axes):
        for axis in axes:
            size = op.dim(axis) or 0
            if size > 1:
                parts = op.emit("Split", blob, outputs=size, axis=axis)
                blob = fold(lambda a, b: op.emit("Mul", a, b), parts)
    elif axes:
        blob = _multiplied(op, blob, dtype, axes)
    return narrowed(op, _dropped(op, blob, axes, keep), op.dtype())


def _multiplied(op: Op, blob: str, dtype: DataType, axes: Axes) -> str:
    rank = op.rank()
    mask = axes if isinstance(axes, str) else op.const(np.isin(np.arange(rank), axes or []))
    split = parted(op, blob, mask, rank)
    inside, outside = chosen_dims(op, blob, mask, rank)
    first = moved(op, split, [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)])
    rows = resized(op, first, concat(op, [product_of(op, inside, rank), outside], 0))
    ones = resized(op, full(op, [outside], dtype, 1), joined(op, [1, outside]))
    return resized(op, combined(op, "Mul", rows, ones), outside)


_MOST_SLICES = 64


@family.converts("Softmax")
def softmax(op: Op) -> str:
    rank = op.rank()
    axis = op.axis(op.integer("axis", -1), rank)
    op.require(0, FLOAT)
    return along_last(op, op.input(0), axis, rank, lambda last: op.emit("Softmax", last, axis=rank - 1))


@family.converts("LogSoftmax")
def log_softmax(op: Op) -> str:
    axis = op.axis(op.integer("axis", -1), op.rank())
    op.require(0, FLOAT)
    moved_ = op.emit("Sub", op.input(0), _reduced(op, "ReduceMax", op.input(0), [axis], 1))
    return op.emit("Sub", moved_, op.emit("Log", _reduced(op, "ReduceSum", op.emit("Exp", moved_), [axis], 1)))


@family.converts("Hardmax")
def hardmax(op: Op) -> str:
    rank = op.rank()
    axis = op.axis(op.integer("axis", -1), rank)
    op.require(0, FLOAT)

    def compute(last: str) -> str:
        first = op.emit("ArgMax", last, axis=rank - 1, keepdims=1)
        size = op.dim(axis)
        end = op.const([size], np.int64) if size is not None else dim_of(op, op.input(0), axis)
        places = op.emit("Range", op.const([0], np.int64), end, op.const([1], np.int64))
        return op.cast(op.emit("EQ", first, places), FLOAT)

    return along_last(op, op.input(0), axis, rank, compute)


@family.converts("MeanVarianceNormalization")
def mean_variance(op: Op) -> str:
    axes = [op.axis(axis, op.rank()) for axis in op.integers("axes") or [0, 2, 3]]
    op.require(0, FLOAT)
    centred = op.emit("Sub", op.input(0), _reduced(op, "ReduceMean", op.input(0), axes, 1))
    spread = op.emit("Sqrt", _reduced(op, "ReduceMean", op.emit("Sqr", centred), axes, 1))
    return op.emit("Div", centred, op.emit("Add", spread, scalar(op, 1e-9, FLOAT)))


@family.converts("LpNormalization")
def lp_normalization(op: Op) -> str:
    """Where the norm is zero, so are all its entries, and what is given."""
    axis = op.axis(op.integer("axis", -1), op.rank())
    op.require(0, FLOAT)
    kind = "ReduceL1" if op.integer("p", 2) == 1 else "ReduceL2"
    norm = _reduced(op, kind, op.input(0), [axis], 1)
    none = op.cast(op.emit("LE", norm, scalar(op, 0, FLOAT)), FLOAT)  # zeros of no norm stay zeros
    return op.emit("Div", op.input(0), op.emit("Add", norm, none))


@family.converts("LayerNormalization")
def layer_normalization(op: Op) -> tuple[str, str, str]:
    """(x - mean) / sqrt(variance + epsilon), times scale, plus bias, over the last axes; mean and inverse deviation."""
    rank = op.rank()
    axis = op.axis(op.integer("axis", -1), rank)
    epsilon = op.number("epsilon", 1e-5)
    op.ignore("stash_type")
    op.require(0, FLOAT)
    axes = list(range(axis, rank))
    mean = _reduced(op, "ReduceMean", op.input(0), axes, 1)
    centred = op.emit("Sub", op.input(0), mean)
    variance = _reduced(op, "ReduceMean", op.emit("Sqr", centred), axes, 1)
    deviation = op.emit("Sqrt", op.emit("Add", variance, scalar(op, epsilon, FLOAT)))
    scaled = op.emit("Mul", op.emit("Div", centred, deviation), op.input(1))
    made = op.emit("Add", scaled, op.input(2)) if op.has_input(2) else scaled
    return made, mean, op.emit("Reciprocal", deviation) if op.wants(2) else ""


@family.converts("RMSNormalization")
def root_mean_square_normalization(op: Op) -> str:
    """X / sqrt(mean of squares + epsilon) over the last axes, times scale."""
    rank = op.rank()
    axis = op.axis(op.integer("axis", -1), rank)
    epsilon = op.number("epsilon", 1e-5)
    op.ignore("stash_type")
    op.require(0, FLOAT)
    op.require(1, FLOAT)
    square = _reduced(op, "ReduceMean", op.emit("Sqr", op.input(0)), list(range(axis, rank)), 1)
    size = op.emit("Sqrt", op.emit("Add", square, scalar(op, epsilon, FLOAT)))
    return op.emit("Mul", op.emit("Div", op.input(0), size), op.input(1))
