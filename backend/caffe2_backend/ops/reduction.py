"""Reductions along axes, and normalisation of a whole axis."""

from __future__ import annotations

from functools import reduce as fold

from onnx_ir import DataType

from caffe2_backend.family import Family
from caffe2_backend.op import DOUBLE, FLOAT, Op
from caffe2_backend.shapes import NUMBERS, along_last, dim_of, narrowed, scalar, widened

family = Family("reduction")


def _axes(op: Op) -> list[int] | None:
    """The axes to reduce, None for no reduction at all."""
    idle = op.integer("noop_with_empty_axes", 0)
    rank = op.rank()
    attribute = op.integers("axes")
    named = op.integers_of(1, "the list of axes") if op.has_input(1) else attribute or []
    if not named:
        return None if idle else list(range(rank))
    return sorted(op.axis(axis, rank) for axis in named)


def _reduced(op: Op, kind: str, blob: str, axes: list[int], keep: int) -> str:
    if not axes:
        return op.emit("Copy", blob)
    return op.emit(kind, blob, axes=axes, keepdims=keep)


@family.converts("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2")
def reduce(op: Op) -> str:
    keep, axes = op.integer("keepdims", 1), _axes(op)
    if axes is None:
        if op.type in ("ReduceL1", "ReduceL2"):
            op.unsupported("the absolute value of every number, and no reduction")
        return op.input(0)
    accepted: tuple[DataType, ...] = NUMBERS if op.type in ("ReduceSum", "ReduceMax", "ReduceMin") else (FLOAT, DOUBLE)
    if op.type in ("ReduceL1", "ReduceL2"):
        accepted = (FLOAT,)
    blob, _ = widened(op, 0, accepted)
    return narrowed(op, _reduced(op, op.type, blob, axes, keep), op.dtype())


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
    """The greatest is taken out first, so that no exponential overflows."""
    keep, axes = op.integer("keepdims", 1), _axes(op)
    op.require(0, FLOAT)
    if axes is None:
        return op.input(0)
    top = _reduced(op, "ReduceMax", op.input(0), axes, 1)
    grown = op.emit("Exp", op.emit("Sub", op.input(0), top))
    kept = op.emit("Add", op.emit("Log", _reduced(op, "ReduceSum", grown, axes, 1)), top)
    if keep or not axes:
        return kept
    return op.emit("Squeeze", kept, dims=axes)


@family.converts("ReduceProd")
def product_of_all(op: Op) -> str:
    """Slices of each axis, multiplied."""
    keep, axes = op.integer("keepdims", 1), _axes(op)
    blob, _ = widened(op, 0)
    for axis in axes or ():
        size = op.dim(axis)
        if size is None or not 0 < size <= _MOST_SLICES:
            op.unsupported(f"the product of {size or 'an unknown number of'} slices")
        if size > 1:
            parts = op.emit("Split", blob, outputs=size, axis=axis)
            blob = fold(lambda a, b: op.emit("Mul", a, b), parts)
    if axes and not keep:
        blob = op.emit("Squeeze", blob, dims=axes)
    return narrowed(op, blob, op.dtype())


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
        end = op.const([size], "int64") if size is not None else dim_of(op, op.input(0), axis)
        places = op.emit("Range", op.const([0], "int64"), end, op.const([1], "int64"))
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
