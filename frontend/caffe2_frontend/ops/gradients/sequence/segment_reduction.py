"""Gradients of segment reductions: the gradient of a segment goes to each of its rows.

Where rows were looked up by indices, the gradient has one row per index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add, aligned, mul, sub
from caffe2_frontend.emit.operand_checks import (
    INDICES,
    SINGLE,
    require_dtype,
    require_equal,
    require_min_rank,
    require_rank,
    takes,
)
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.rows.segments import (
    count_rows,
    divide_by_counts,
    filled,
    row_segments,
    starts,
    take_rows,
    total,
    vector_operand,
    weigh,
)
from caffe2_frontend.emit.shapes import as_vector, cast, reshape, size, slice_axis, unsqueeze, vector
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("segment_reduction_gradient")

# Caffe2's tensors have fewer dims, and an argument may be any number.
_MAX_RANK: Final = 64
_FLOAT: Final = TensorInfo(ir.DataType.FLOAT)
_WEIGHTS: Final = TensorInfo(ir.DataType.FLOAT, (None,))
_INT32: Final = TensorInfo(ir.DataType.INT32, (None,))
_INT64: Final = TensorInfo(ir.DataType.INT64, (None,))
# Weights, dY, lengths, data, indices.
_WITH_DATA: Final = dict(enumerate((_WEIGHTS, _FLOAT, _INT32, _FLOAT, _INT64)))


By = Literal["lengths", "ids"]


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a gradient, whose operands are [WEIGHTS, ]dY, LENGTHS or SEGMENT_IDS[, ...].

    The weights, or with ``counted`` the operand after the lengths, have as many rows as the gradient.
    """

    reduction: Literal["Sum", "Mean"]
    by: By
    weighted: bool = False
    counted: bool = False


def _forms() -> dict[str, Form]:
    """Return the form of each operator type."""
    forms: dict[str, Form] = {}
    for prefix in ("", "Sparse"):
        for by in ("Lengths", "SortedSegment", "UnsortedSegment", "LengthsIndicesInGradient"):
            name, counted = f"{prefix}{by}", "Indices" in by
            kind: By = "lengths" if by.startswith("Lengths") else "ids"
            forms[f"{name}SumGradient"] = Form("Sum", kind, counted=counted)
            forms[f"{name}MeanGradient"] = Form("Mean", kind, counted=counted)
            if prefix or not counted:
                forms[f"{name}WeightedSumGradient"] = Form("Sum", kind, weighted=True)
    return forms


FORMS: Final[Mapping[str, Form]] = _forms()


def _operand(op: OpView, index: int) -> TensorInfo:
    """Describe the operands by the form of the operator."""
    form = FORMS[op.type]
    if form.weighted and index == 0:
        return _WEIGHTS
    if index == form.weighted + 1:
        return _INT32
    return _INT64 if index > form.weighted + 1 and op.type.startswith("Sparse") else _FLOAT


@family.converts(*FORMS, expects=_operand)
def reduction_gradient(op: Op) -> Value:
    """Give each row the gradient of its segment. <R> is Sum or Mean.

    [Sparse]Lengths<R>Gradient | [Sparse]SortedSegment<R>Gradient | [Sparse]UnsortedSegment<R>Gradient(dY, LENGTHS or
    SEGMENT_IDS) -> dX. SparseLengthsIndicesInGradient<R>Gradient(dY, LENGTHS, INDICES) -> dX, and likewise
    LengthsIndicesInGradient<R>Gradient, with the data as third operand. The gradients of WeightedSum have the weights
    as first operand, and multiply each row by its weight.
    """
    form = FORMS[op.type]
    dy = op.input(int(form.weighted))
    require_dtype(op, dy, SINGLE, "the gradient")
    given = vector_operand(op, form.weighted + 1)
    if form.by == "lengths":
        rows = op.input(0) if form.weighted else op.input(2) if form.counted else None
        ids = _segments(op, given, dy, rows)
    else:
        ids = rows = given
    if form.reduction == "Mean":
        dy = divide_by_counts(op, dy, given if form.by == "lengths" else count_rows(op, given, size(op, dy, 0)))
    dx = _rows(op, dy, ids, rows)
    return weigh(op, dx, op.input(0)) if form.weighted else dx


@family.converts(
    "LengthsWeightedSumWithMainInputGradient", "SparseLengthsWeightedSumWithMainInputGradient",
    "SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient", expects=_WITH_DATA,
)  # fmt: skip
@takes(SINGLE, 0, 1, 3)
@takes(INDICES, 4)
def weighted_sum_gradient(op: Op) -> tuple[Value, Value]:
    """LengthsWeightedSumWithMainInputGradient(WEIGHTS, dY, LENGTHS, DATA) -> dX, dWEIGHTS.

    SparseLengthsWeightedSumWithMainInputGradient | SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient have
    INDICES as fifth operand. The gradient of a weight is the dot product of its row and the gradient of its segment.
    """
    weights, dy, data = op.input(0), op.input(1), op.input(3)
    require_rank(op, weights, 1, "weights")
    if op.type.startswith("Sparse"):
        indices = op.input(4)
        require_rank(op, indices, 1, "indices")
        data = take_rows(op, data, indices)
    ids = _segments(op, vector_operand(op, 2), dy, weights)
    rows = _rows(op, dy, ids, weights)
    products = mul(op, rows, aligned(op, data, rows))
    return weigh(op, rows, weights), reduce_axes(op, "ReduceSum", products, list(range(1, op.rank(dy))))


@family.converts(
    "SortedSegmentRangeSumGradient", "SortedSegmentRangeMeanGradient", "SortedSegmentRangeMaxGradient",
    "SortedSegmentRangeLogSumExpGradient", "SortedSegmentRangeLogMeanExpGradient",
    expects={0: _FLOAT, 1: _FLOAT, 2: _FLOAT, 3: _INT32},
)  # fmt: skip
@takes(SINGLE, 0, 1, 2)
def range_gradient(op: Op) -> Value:
    """SortedSegmentRange<R>Gradient(X, Y, dY, SEGMENT_IDS) -> dX, where <R> is Sum, Mean, Max, LogSumExp or LogMeanExp.

    The gradient of a maximum goes to every element that equals it. That of log-sum-exp is ``dY exp(X - Y)``.
    """
    reduction = op.type.removeprefix("SortedSegmentRange").removesuffix("Gradient")
    x, y, dy = op.input(0), op.input(1), op.input(2)
    ids = vector_operand(op, 3)
    if "Mean" in reduction:
        dy = divide_by_counts(op, dy, count_rows(op, ids, size(op, dy, 0)))
    rows = _rows(op, dy, ids, ids)
    if reduction in ("Sum", "Mean"):
        return rows
    x, result = aligned(op, x, rows), _rows(op, aligned(op, y, dy), ids, ids)
    return _at_maximum(op, rows, x, result) if reduction == "Max" else mul(op, rows, op.emit("Exp", sub(op, x, result)))


@family.converts(
    "LengthsMaxWithMainInputAndForwardOutputGradient", expects={0: _FLOAT, 1: _FLOAT, 2: _INT32, 3: _FLOAT}
)
@takes(SINGLE, 0, 1, 3)
def lengths_max_gradient(op: Op) -> Value:
    """LengthsMaxWithMainInputAndForwardOutputGradient(Y, dY, LENGTHS, X) -> dX: to every element that is a maximum."""
    y, dy, x = op.input(0), op.input(1), op.input(3)
    ids = _segments(op, vector_operand(op, 2), dy, x)
    rows = _rows(op, dy, ids, x)
    return _at_maximum(op, rows, aligned(op, x, rows), _rows(op, aligned(op, y, dy), ids, x))


@family.converts(
    "LengthsTopKGradient",
    expects={0: _INT32, 1: TensorInfo(ir.DataType.INT32, (None, None)), 2: TensorInfo(ir.DataType.FLOAT, (None, None))},
)
@takes(SINGLE, 2)
def top_k_gradient(op: Op) -> Value:
    """LengthsTopKGradient(LENGTHS, INDICES, dVALUES; k) -> dX: the gradients [S, k] at their indices, elsewhere 0.

    The index of an element is that within its segment, and -1 where a segment has fewer than k elements.
    """
    k = op.args.integer("k", default=-1)
    if k < 1:
        op.unsupported(f"k must be positive, not {k}", hint="set k=K", code="invalid-argument")
    lengths, dy = vector_operand(op, 0, any_rank=True), as_vector(op, op.input(2))
    index = op.input(1)
    require_dtype(op, index, (ir.DataType.INT32,), "indices")
    require_min_rank(op, index, 2, "indices")
    count = total(op, lengths)
    rows = op.rank(index) == 2 and op.static_dim(index, 1) == k
    index = cast(op, index if rows else reshape(op, index, [-1, k]), ir.DataType.INT64)
    # The gradients of missing elements go to one more element, which is removed.
    target = op.emit("Add", unsqueeze(op, starts(op, lengths), [1]), index)
    target = op.emit("Where", op.emit("Less", index, op.const(0, index)), count, target)
    zeros = filled(op, dy, [add(op, count, 1)])
    dx = op.emit("ScatterElements", zeros, as_vector(op, target), dy, axis=0)
    return slice_axis(op, dx, 0, 0, -1)


@family.converts(
    "ReduceFrontWeightedSumGradient", expects={0: _FLOAT, 1: _FLOAT, 2: TensorInfo(ir.DataType.INT64, (None,))}
)
@takes(SINGLE, 0, 1)
def weighted_front_gradient(op: Op) -> Value:
    """ReduceFrontWeightedSumGradient(WEIGHTS, dY, SHAPE; num_reduce_dim=1) -> dX: each row of X has a weight.

    SHAPE is that of X, whose first ``num_reduce_dim`` dims are its rows.
    """
    weights, dy, shape = op.input(0), op.input(1), op.input(2)
    require_dtype(op, shape, (ir.DataType.INT64,), "the shape")
    count = op.args.integer("num_reduce_dim", default=1)
    if count < 1:
        op.unsupported(f"num_reduce_dim must be positive, not {count}", code="invalid-argument")
    if count > _MAX_RANK:
        op.unsupported(f"num_reduce_dim ({count}) must not exceed {_MAX_RANK}", code="invalid-argument")
    ones = vector(op, [-1, *[1] * op.rank(dy)])
    products = mul(op, op.emit("Reshape", weights, ones, shape=[None, *[1] * op.rank(dy)]), dy)
    return products if count == 1 else op.emit("Reshape", products, shape, shape=[None] * (count + op.rank(dy)))


def _segments(op: Op, lengths: Value, dy: Value, rows: Value | None) -> Value:
    """Return the segment of each row [N]; ``rows``, if given, is an operand of N rows."""
    require_equal(op, op.static_dim(lengths, 0), op.static_dim(dy, 0), "lengths and rows of the gradient")
    return row_segments(op, lengths, None if rows is None else size(op, rows, 0))


def _rows(op: Op, x: Value, ids: Value, rows: Value | None) -> Value:
    """Return the rows of ``x`` [S, ...] at segment ids [N], of which there are as many as ``rows`` has rows."""
    count = op.shape(ids if rows is None else rows)[0]
    return op.emit("Gather", x, ids, axis=0, shape=[count, *op.shape(x)[1:]])


def _at_maximum(op: Op, dy: Value, x: Value, maximum: Value) -> Value:
    """Return the gradient where ``x`` is the maximum of its segment, else 0."""
    return op.emit("Where", op.emit("Equal", x, maximum), dy, op.const(0.0, dy))
