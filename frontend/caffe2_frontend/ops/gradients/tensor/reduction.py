"""Gradients of reductions: over axes, over the first or the last dims, and over all elements."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add, binary, div, mul, reshape_like, scalar, sub
from caffe2_frontend.emit.layout import channels_last
from caffe2_frontend.emit.operand_checks import (
    INDICES,
    NUMBERS,
    REALS,
    SINGLE,
    require_dtype,
    require_min_rank,
    require_rank,
    takes,
)
from caffe2_frontend.emit.selection import by_sign, select
from caffe2_frontend.emit.shapes import (
    Size,
    broadcast_over_channels,
    cast,
    indices,
    product,
    reshape,
    size,
    sizes,
    unsqueeze,
    vector,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("reduction_gradient")

_FLOATS: Final = {index: TensorInfo(ir.DataType.FLOAT) for index in range(4)}
# Elements up to this, and norms below it, count as 0.
_EPSILON: Final = 1e-12


def _listed_axes(op: Op, rank: int) -> list[int]:
    """Return the reduced axes in ascending order; all if there are none. Refuse one that is listed twice."""
    axes = sorted(op.axis(axis, rank) for axis in op.args.integers("axes", default=()))
    if len(set(axes)) < len(axes):  # Caffe2 reduces over all, and reads gradients of one of the later dims
        op.unsupported(f"axes must not be listed twice, as in {axes}", code="invalid-argument")
    return axes or list(range(rank))


def _count(op: Op, x: Value, axes: list[int]) -> Size:
    """Return the number of elements that one result was reduced from."""
    return product(op, [size(op, x, axis) for axis in axes])


def _divided(op: Op, x: Value, count: Size) -> Value:
    """Return ``x`` divided by a number of elements."""
    return div(op, x, count if isinstance(count, int) else cast(op, scalar(op, count), op.dtype(x)))


def _with_ones(op: Op, y: Value, x: Value, axes: list[int]) -> Value:
    """Return ``y``, which is ``x`` reduced over ``axes``, with the reduced dims as 1."""
    if op.rank(y) == op.rank(x):
        return y
    require_rank(op, y, op.rank(x) - len(axes), "the result and its gradient")
    return unsqueeze(op, y, axes)


def _spread(op: Op, y: Value, x: Value) -> Value:
    """Return ``y`` broadcast to the shape of ``x``."""
    return op.emit("Expand", y, op.emit("Shape", x), shape=op.shape(x))


@family.converts(
    "ReduceSumGradient", "ReduceMeanGradient", "ReduceL1Gradient", "ReduceL2Gradient", "ReduceMaxGradient",
    "ReduceMinGradient", expects=_FLOATS,
)  # fmt: skip
def over_axes(op: Op) -> Value:
    """ReduceSumGradient(dY, X, Y; axes=[]) -> dX, and likewise for ReduceMean, L1, L2, Max and Min.

    The gradients of extremes go to every element that equals the result. The gradient of an L2 norm below 1e-12 is dY,
    and that of an L1 norm is 0 for elements up to 1e-12.
    """
    op.args.ignore("keepdims")
    dy, x = op.input(0), op.input(1)
    kind = op.type.removeprefix("Reduce").removesuffix("Gradient")
    require_dtype(op, dy, REALS if kind in ("Mean", "L1", "L2") else NUMBERS, "the gradient")
    rank = op.rank(x)
    axes = _listed_axes(op, rank)
    dy = _with_ones(op, dy, x, axes)
    if kind == "Sum":
        return _spread(op, dy, x)
    if kind == "Mean":
        return _spread(op, _divided(op, dy, _count(op, x, axes)), x)
    if kind == "L1":
        return by_sign(op, x, dy, _EPSILON)
    y = _with_ones(op, op.input(2), x, axes)
    if kind == "L2":
        return op.emit("Where", binary(op, "Less", y, _EPSILON), dy, div(op, mul(op, dy, x), y))
    return select(op, op.emit("Equal", x, y), dy, op.const(0, dy))


def _legacy_operand(op: OpView, index: int) -> TensorInfo:
    """Describe operands: dY, X, Y of maxima, and int32 lengths."""
    lengths = 3 if "Max" in op.type else 2
    return TensorInfo(ir.DataType.INT32, (None,)) if index == lengths else TensorInfo(ir.DataType.FLOAT)


@family.converts(
    "ReduceFrontSumGradient", "ReduceFrontMeanGradient", "ReduceFrontMaxGradient", "ReduceBackSumGradient",
    "ReduceBackMeanGradient", "ReduceBackMaxGradient", expects=_legacy_operand,
)  # fmt: skip
def front_or_back(op: Op) -> Value:
    """ReduceFrontSumGradient(dY, X[, lengths]; num_reduce_dim=1) -> dX, and likewise for Mean and ReduceBack.

    ReduceFrontMaxGradient | ReduceBackMaxGradient(dY, X, Y[, lengths]; num_reduce_dim=1) -> dX. Instead of X, Sum and
    Mean take its shape too (int64). With lengths, elements from the length on get 0.
    """
    front = op.type.startswith("ReduceFront")
    kind = op.type.removeprefix("ReduceFront").removeprefix("ReduceBack").removesuffix("Gradient")
    dy, x = op.input(0), op.input(1)
    require_dtype(op, dy, SINGLE if kind == "Max" else NUMBERS, "the gradient")
    count = op.args.integer("num_reduce_dim", default=1)
    dims = _dims(op, x, op.rank(dy) + count) if kind != "Max" else sizes(op, x)
    rank = len(dims)
    if not 0 <= count <= rank:
        op.unsupported(f"num_reduce_dim must be between 0 and the rank ({rank}), not {count}", code="invalid-argument")
    axes = list(range(count)) if front else list(range(rank - count, rank))
    ones = [1 if axis in axes else dim for axis, dim in enumerate(dims)]
    lengths, length_index = None, 3 if kind == "Max" else 2
    if op.has_input(length_index):
        if count != 1:
            op.unsupported(f"num_reduce_dim must be 1 with lengths, not {count}", code="invalid-argument")
        require_dtype(op, op.input(length_index), INDICES, "lengths")
        lengths = reshape(op, op.input(length_index), ones)
    dy = reshape(op, dy, ones)
    if kind == "Mean":
        reduced = product(op, [dims[axis] for axis in axes])
        dy = _divided(op, dy, reduced) if lengths is None else div(op, dy, cast(op, lengths, op.dtype(dy)))
    if kind == "Max":
        is_maximum = op.emit("Equal", x, reshape(op, op.input(2), ones))
        dx = select(op, is_maximum, dy, op.const(0, dy))
    else:
        dx = op.emit("Expand", dy, vector(op, dims), shape=[dim if isinstance(dim, int) else None for dim in dims])
    return dx if lengths is None else _before(op, dx, lengths, dims[axes[0]], axes[0])


def _dims(op: Op, x: Value, rank: int) -> list[Size]:
    """Return the dims of X: of the operand itself, or its elements where it is a shape, as old nets give it."""
    if op.rank(x) != 1 or op.dtype(x) != ir.DataType.INT64:
        return sizes(op, x)
    known = op.known(x)
    if known is not None:
        return [int(dim) for dim in known]
    parts = op.emit("Split", x, axis=0, num_outputs=rank, outputs=rank) if rank > 1 else (x,)
    return list(parts)


def _before(op: Op, dx: Value, lengths: Value, count: Size, axis: int) -> Value:
    """Return ``dx`` with the elements from index ``length`` along ``axis`` on as 0."""
    index = reshape(op, indices(op, count), [-1, *[1] * (op.rank(dx) - 1 - axis)])
    kept = op.emit("Less", index, cast(op, lengths, ir.DataType.INT64))
    return op.emit("Where", kept, dx, op.const(0, dx))


@family.converts("SumElementsGradient", "AveragedLossGradient", expects=_FLOATS)
@takes(SINGLE, 0, 1)
def of_all_elements(op: Op) -> Value:
    """SumElementsGradient(X, dY; average=0) | AveragedLossGradient(X, dY) -> dX.

    The first element of dY, divided by the number of elements of X for an average.
    """
    x, dy = op.input(0), op.input(1)
    if op.rank(dy):
        dy = op.emit("Gather", reshape(op, dy, [-1]), op.const(0, ir.DataType.INT64))
    if op.type == "AveragedLossGradient" or op.args.flag("average", default=False):
        dy = _divided(op, dy, _count(op, x, list(range(op.rank(x)))))
    return _spread(op, dy, x)


@family.converts("RowwiseMaxGradient", "ColwiseMaxGradient", expects=_FLOATS)
@takes(SINGLE, 0, 1, 2)
def matrix_max_gradient(op: Op) -> Value:
    """RowwiseMaxGradient | ColwiseMaxGradient(X, Y, dY) -> dX: to every element that equals its maximum."""
    x = op.input(0)
    require_min_rank(op, x, 3, "X")
    axis = 2 if op.type.startswith("Row") else 1
    y, dy = (unsqueeze(op, op.input(index), [axis]) for index in (1, 2))
    return select(op, op.emit("Equal", x, y), dy, op.const(0, dy))


@family.converts("MomentsGradient", expects=_FLOATS)
@takes(REALS, 0, 1, 2, 3)
def moments_gradient(op: Op) -> Value:
    """MomentsGradient(dmean, dvariance, X, mean; axes=[]) -> dX: ``(dmean + 2 (X - mean) dvariance) / count``."""
    op.args.ignore("keepdims")
    x = op.input(2)
    rank = op.rank(x)
    axes = _listed_axes(op, rank)
    of_mean, of_variance, mean = (_with_ones(op, op.input(index), x, axes) for index in (0, 1, 3))
    spread = mul(op, sub(op, x, mean), mul(op, of_variance, 2.0))
    return _divided(op, add(op, of_mean, spread), _count(op, x, axes))


@family.converts("BatchMomentsGradient", expects=_FLOATS)
@takes(SINGLE, 0, 1, 2)
def batch_moments_gradient(op: Op) -> Value:
    """BatchMomentsGradient(dmean, dsquare, X; order="NCHW") -> dX: ``(dmean + 2 X dsquare) / (N H W)``.

    The second moment is that of X itself, not of its deviation from the mean.
    """
    x = op.input(2)
    rank, last = op.rank(x), channels_last(op)
    channel = rank - 1 if last else 1
    of_mean, of_square = (
        op.input(index) if last else broadcast_over_channels(op, op.input(index), x) for index in (0, 1)
    )
    axes = [axis for axis in range(rank) if axis != channel]
    moment = add(op, of_mean, mul(op, mul(op, x, 2.0), reshape_like(op, of_square, of_mean)))
    return _divided(op, moment, _count(op, x, axes))
