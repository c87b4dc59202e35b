"""Reductions over axes, over the first or the last dims, and over all elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import binary, div, mul, scalar, sqrt, square, sub
from caffe2_frontend.emit.broadcast import align_dims, broadcast_axis, sum_to_operand
from caffe2_frontend.emit.operand_checks import INDICES, NUMBERS, REALS, require_dtype, require_rank, takes
from caffe2_frontend.emit.reductions import mean_of_all, reduce_all, reduce_axes, reduce_each_row, sum_axes
from caffe2_frontend.emit.shapes import (
    broadcast_over_rows,
    cast,
    indices,
    product,
    reshape,
    size,
    sizes,
    squeeze,
    unsqueeze,
    vector,
)
from caffe2_frontend.interop.types import TensorInfo, of_rank
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("reduction")

_FLOAT: Final = {0: TensorInfo(ir.DataType.FLOAT)}


@family.converts("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMin")
def over_axes(op: Op) -> Value:
    """ReduceSum | ReduceMean | ReduceL1 | ReduceL2 | ReduceMax | ReduceMin(X; axes=[], keepdims=1) -> Y.

    Over no elements the mean is 0, the maximum the lowest finite value of the type, and the minimum the highest.
    """
    x = op.input(0)
    require_dtype(op, x, REALS if op.type in ("ReduceMean", "ReduceL1", "ReduceL2") else NUMBERS, "the input")
    rank = op.rank(x)
    axes = {op.axis(axis, rank) for axis in op.args.integers("axes", default=())}
    keep = op.args.flag("keepdims", default=True)
    reduced = sorted(axes) or list(range(rank))
    if op.type == "ReduceSum":
        return sum_axes(op, x, reduced, keep=keep)
    y = reduce_axes(op, op.type, x, reduced, keep=keep)
    if op.type == "ReduceMean":
        return _unless_empty(op, y, x, reduced, 0)
    if op.type in ("ReduceMax", "ReduceMin"):
        dtype = op.dtype(x).numpy()
        limits: Any = np.iinfo(dtype) if dtype.kind == "i" else np.finfo(dtype)
        return _unless_empty(op, y, x, reduced, limits.min if op.type == "ReduceMax" else limits.max)
    return y


def _legacy_operand(op: OpView, index: int) -> TensorInfo:
    """Describe operands: X, and int32 lengths."""
    if index == 1:
        return TensorInfo(ir.DataType.INT32, (None,))
    return TensorInfo(ir.DataType.FLOAT if op.type.endswith("Max") else None)


@family.converts(
    "ReduceFrontSum", "ReduceFrontMean", "ReduceFrontMax", "ReduceBackSum", "ReduceBackMean", "ReduceBackMax",
    expects=_legacy_operand,
)  # fmt: skip
def front_or_back(op: Op) -> Value:
    """ReduceFrontSum | ReduceFrontMean | ReduceFrontMax(X[, lengths]; num_reduce_dim=1) -> Y.

    Likewise ReduceBackSum, ReduceBackMean and ReduceBackMax. The first or last ``num_reduce_dim`` dims are reduced;
    means of integers are rounded towards zero. With lengths one dim is reduced, and each result takes as many of its
    elements as its length says, but at least one; a mean is their sum over the length, even if that is 0. The maximum
    of no elements is 0. Maxima are float32, whatever the type of X.
    """
    x = op.input(0)
    require_dtype(op, x, REALS if op.type.endswith("Max") else NUMBERS, "the input")
    rank, count = op.rank(x), op.args.integer("num_reduce_dim", default=1)
    if not 0 <= count <= rank:
        op.unsupported(f"num_reduce_dim must be between 0 and the rank ({rank}), not {count}", code="invalid-argument")
    front = op.type.startswith("ReduceFront")
    axes = list(range(count)) if front else list(range(rank - count, rank))
    lengths = None
    if op.has_input(1):
        if count != 1:
            op.unsupported(f"num_reduce_dim must be 1 with lengths, not {count}", code="invalid-argument")
        require_dtype(op, op.input(1), INDICES, "lengths")
        lengths = reshape(op, op.input(1), sizes(op, x, 1) if front else sizes(op, x, 0, rank - 1))
        x = _mask_beyond_lengths(op, x, lengths, axes[0])
    kind = op.type.removeprefix("ReduceFront").removeprefix("ReduceBack")
    if kind == "Max":
        return cast(op, _unless_empty(op, reduce_axes(op, "ReduceMax", x, axes), x, axes, 0), ir.DataType.FLOAT)
    if kind == "Mean" and lengths is None and op.dtype(x).is_floating_point():
        return _unless_empty(op, reduce_axes(op, "ReduceMean", x, axes), x, axes, 0)
    if front and rank == count == 1 and lengths is None:
        # As a column: onnxruntime adds rows one after the other, as Caffe2 does, but the elements of vectors in groups.
        total = squeeze(op, sum_axes(op, unsqueeze(op, x, [1]), axes), [0])
    else:
        total = sum_axes(op, x, axes)
    if kind == "Sum":
        return total
    counted = lengths if lengths is not None else scalar(op, vector(op, [product(op, [size(op, x, a) for a in axes])]))
    counted = cast(op, counted, op.dtype(x))
    if lengths is None:
        counted = binary(op, "Max", counted, 1)
    return _unless_empty(op, div(op, total, counted), x, axes, 0)


def _weighted_operand(op: OpView, index: int) -> TensorInfo:
    if index == 0:
        return TensorInfo(ir.DataType.FLOAT)
    rank = op.args.optional_integer("num_reduce_dim", 1)
    return of_rank(max(rank, 0), ir.DataType.FLOAT)


@family.converts("ReduceFrontWeightedSum", expects=_weighted_operand)
@takes(REALS, 0, 1)
def front_weighted_sum(op: Op) -> Value:
    """ReduceFrontWeightedSum(X, weights; num_reduce_dim=1) -> Y: the sum of the rows, each times its weight.

    The first ``num_reduce_dim`` dims of X are reduced; the weights have one dim for each of them, and are read in
    their order in memory.
    """
    op.args.ignore("grad_on_weights")
    x, weights = op.input(0), op.input(1)
    count = op.args.integer("num_reduce_dim", default=1)
    if not 1 <= count <= op.rank(x):
        op.unsupported(f"num_reduce_dim must be from 1 to {op.rank(x)}, not {count}", code="invalid-argument")
    require_rank(op, weights, count, "weights")
    if count == 1:
        weighted = mul(op, x, broadcast_over_rows(op, weights, x))
    else:
        rows = reshape(op, weights, [*sizes(op, x, 0, count), *[1] * (op.rank(x) - count)])
        weighted = mul(op, x, rows)
    return reduce_axes(op, "ReduceSum", weighted, list(range(count)))


@family.converts("Summarize", expects=_FLOAT)
@takes(REALS, 0)
def summarize(op: Op) -> Value:
    """Summarize(X; to_file=0) -> Y.

    Minimum, maximum, mean and standard deviation (with Bessel's correction) of all elements, as a vector. No file is
    written.
    """
    if op.args.integer("to_file", default=0):
        op.note("the summary is not written to a file, because an ONNX model cannot write files")
    x = op.input(0)
    mean = reduce_all(op, "ReduceMean", x)
    count = cast(op, op.emit("Size", x), ir.DataType.FLOAT)
    variance = div(op, reduce_all(op, "ReduceSumSquare", sub(op, x, mean)), binary(op, "Max", sub(op, count, 1.0), 1.0))
    extremes = (reduce_all(op, kind, x) for kind in ("ReduceMin", "ReduceMax"))
    return op.emit("Concat", *(unsqueeze(op, v, [0]) for v in (*extremes, mean, sqrt(op, variance))), axis=0)


@family.converts("SumElements", expects=_FLOAT)
@takes(REALS, 0)
def sum_elements(op: Op) -> Value:
    """SumElements(X; average=0) -> sum."""
    x = op.input(0)
    return mean_of_all(op, x) if op.args.flag("average", default=False) else reduce_all(op, "ReduceSum", x)


@family.converts("SumElementsInt", expects={0: TensorInfo(ir.DataType.INT32)})
def sum_integers(op: Op) -> Value:
    """SumElementsInt(X) -> sum, which wraps around at 2**31."""
    total = reduce_all(op, "ReduceSum", cast(op, op.input(0), ir.DataType.INT64))
    return cast(op, total, ir.DataType.INT32)


@family.converts("SumSqrElements")
def sum_squares(op: Op) -> Value:
    """SumSqrElements(X; average=0) -> sum."""
    if op.args.flag("average", default=False):
        return mean_of_all(op, square(op, op.input(0)))
    return reduce_all(op, "ReduceSumSquare", op.input(0))


@family.converts("AveragedLoss", expects=_FLOAT)
@takes(REALS, 0)
def averaged_loss(op: Op) -> Value:
    """AveragedLoss(X) -> mean."""
    return mean_of_all(op, op.input(0))


@family.converts("ReduceTailSum", expects=_FLOAT)
@takes(REALS, 0)
def tail_sum(op: Op) -> Value:
    """ReduceTailSum(X) -> Y: all dims but the first are reduced. Of a scalar there are no rows."""
    x = op.input(0)
    return reduce_each_row(op, "ReduceSum", x) if op.rank(x) else op.const(np.zeros(0), x)


@family.converts("RowwiseMax", "ColwiseMax", expects={0: TensorInfo(ir.DataType.FLOAT, (None, None, None))})
@takes(REALS, 0)
def matrix_max(op: Op) -> Value:
    """RowwiseMax | ColwiseMax(X) -> Y: the maximum of each row, or column, of matrices [N, R, C]."""
    x = op.input(0)
    require_rank(op, x, 3, "the input")
    return reduce_axes(op, "ReduceMax", x, [2 if op.type == "RowwiseMax" else 1])


@family.converts("SumReduceLike")
def sum_like(op: Op) -> Value:
    """SumReduceLike(X, like; axis=-1, axis_str="", order="NCHW") -> Y.

    Reduced are the dims that ``like`` lacks or has as 1; they align as in legacy broadcasting, whose gradient this is.
    """
    op.args.ignore("broadcast")
    x, like = op.input(0), op.input(1)
    require_dtype(op, x, REALS, "the input")
    axis, rank, rank_like = broadcast_axis(op), op.rank(x), op.rank(like)
    start = rank - rank_like if axis == -1 else axis
    if not 0 <= start <= rank - rank_like and any(isinstance(d, int) and d != 1 for d in op.shape(like)):
        reason = f"the second operand's rank ({rank_like}) must fit into that of X ({rank}) from axis {axis} on"
        op.unsupported(reason, code="invalid-operands")
    return sum_to_operand(op, x, align_dims(op, x, like, axis), like)


def _unless_empty(op: Op, y: Value, x: Value, axes: Sequence[int], value: float) -> Value:
    """Return ``y``, which is ``x`` reduced over ``axes``, or ``value`` if no elements were reduced."""
    count = product(op, [size(op, x, axis) for axis in axes])
    if isinstance(count, int):
        return y if count else op.emit("Expand", op.const(value, y), op.emit("Shape", y))
    return op.emit("Where", binary(op, "Equal", scalar(op, count), 0), op.const(value, y), y)


def _mask_beyond_lengths(op: Op, x: Value, lengths: Value, axis: int) -> Value:
    """Replace the elements of ``x`` from index ``length`` along ``axis`` on by the reduction's neutral element.

    The elements at index 0 are always kept.
    """
    lengths = unsqueeze(op, binary(op, "Max", cast(op, lengths, ir.DataType.INT64), 1), [axis])
    index = reshape(op, indices(op, size(op, x, axis)), [-1, *[1] * (op.rank(x) - 1 - axis)])
    neutral = -np.inf if op.type.endswith("Max") else 0
    return op.emit("Where", op.emit("Less", index, lengths), x, op.const(neutral, x))
