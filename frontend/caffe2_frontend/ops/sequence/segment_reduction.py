"""Segment reductions: rows of a tensor, or of a table looked up by indices, reduced by lengths or segment ids.

The sum and the maximum are scattered into one row per segment; mean, log-sum-exp and log-mean-exp follow from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.operand_checks import INDICES, require_dtype, require_equal, require_min_rank, require_rank
from caffe2_frontend.emit.rows.segments import (
    count_rows,
    divide_by_counts,
    row_positions,
    row_segments,
    scatter_rows,
    segment_count,
    take_rows,
    vector_operand,
    weigh,
)
from caffe2_frontend.emit.shapes import Size, broadcast_over_rows, cast, size
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("segment_reduction")

_FLOAT, _FLOAT16, _INT32 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.INT32
_LOWEST: Final = float(np.finfo(np.float32).min)


@dataclass(frozen=True, slots=True)
class Segments:
    """The segment of each row, [N], the number of segments S, and the rows of each, [S], if they are given."""

    ids: Value
    count: Size
    lengths: Value | None = None

    def counts(self, op: Op) -> Value:
        """Return the number of rows of each segment, [S]."""
        return count_rows(op, self.ids, self.count) if self.lengths is None else self.lengths


Reduction = Literal["Sum", "Mean", "Max", "LogSumExp", "LogMeanExp"]
By = Literal["lengths", "sorted ids", "ids"]


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an operator, whose operands are DATA[, WEIGHTS][, INDICES], and lengths or segment ids.

    With ``weighted`` each row is multiplied by a weight; with ``sparse`` the rows are DATA[INDICES].
    """

    reduction: Reduction
    by: By
    weighted: bool = False
    sparse: bool = False

    @property
    def indices(self) -> int:
        """The index of the operand INDICES, if there is one."""
        return 1 + self.weighted

    @property
    def segments(self) -> int:
        """The index of the operand of lengths or segment ids."""
        return 1 + self.weighted + self.sparse


_PREFIXES: Final[Mapping[str, By]] = {"Lengths": "lengths", "SortedSegment": "sorted ids", "UnsortedSegment": "ids"}


def _forms() -> dict[str, Form]:
    """Return the form of each operator type."""
    forms: dict[str, Form] = {}
    for prefix, by in _PREFIXES.items():
        for sparse in (False, True):
            name = f"{'Sparse' * sparse}{prefix}"
            forms[f"{name}Sum"] = Form("Sum", by, sparse=sparse)
            forms[f"{name}Mean"] = Form("Mean", by, sparse=sparse)
            forms[f"{name}WeightedSum"] = Form("Sum", by, weighted=True, sparse=sparse)
    ranges: tuple[Reduction, ...] = ("Sum", "Mean", "Max", "LogSumExp", "LogMeanExp")
    forms |= {f"SortedSegmentRange{reduction}": Form(reduction, "sorted ids") for reduction in ranges}
    return forms | {"LengthsMax": Form("Max", "lengths")}


FORMS: Final = _forms()


def _operand(op: OpView, index: int) -> TensorInfo:
    """Describe the operands by the form of the operator."""
    form = FORMS[op.type]
    if index == form.segments:
        return TensorInfo(_INT32, (None,))
    if form.weighted and index == 1:
        return TensorInfo(_FLOAT, (None,))
    if form.sparse and index == form.indices:
        return TensorInfo(ir.DataType.INT64, (None,))
    # Tables that are looked up by lengths may be float16 too.
    return TensorInfo() if form.sparse and form.by == "lengths" else TensorInfo(_FLOAT)


@family.converts(*FORMS, expects=_operand)
def reduce_segments(op: Op) -> Value:
    """Reduce rows by segment. <R> is Sum or Mean, <Range> one of Sum, Mean, Max, LogSumExp and LogMeanExp.

    Lengths<R> | LengthsMax(DATA, LENGTHS) -> OUTPUT.
    SortedSegment<R> | SortedSegmentRange<Range>(DATA, SEGMENT_IDS) -> OUTPUT.
    UnsortedSegment<R>(DATA, SEGMENT_IDS; num_segments=-1) -> OUTPUT.
    <Form>WeightedSum(DATA, WEIGHTS, LENGTHS or SEGMENT_IDS) -> OUTPUT, for each of the three forms.
    Sparse<Form><R> | Sparse<Form>WeightedSum(DATA[, WEIGHTS], INDICES, LENGTHS or SEGMENT_IDS) -> OUTPUT.

    An empty segment is reduced to zeros, but by SortedSegmentRangeMax to the lowest float and by the logarithms to
    -inf. There are num_segments segments; if that is -1, as many as the maximum id plus one. Float16 tables that are
    looked up by lengths are reduced to float.
    """
    form = FORMS[op.type]
    if form.weighted:
        op.args.ignore("grad_on_weights")
    x = op.input(0)
    require_dtype(op, x, (_FLOAT, _FLOAT16) if form.sparse and form.by == "lengths" else (_FLOAT,), "data")
    require_min_rank(op, x, 1, "data")
    if form.sparse:
        indices = op.input(form.indices)
        require_dtype(op, indices, INDICES, "indices")
        require_rank(op, indices, 1, "indices")
        x = cast(op, take_rows(op, x, indices), _FLOAT)
    if form.weighted:
        x = weigh(op, x, op.input(1))
    return reduce_rows(op, x, _segments(op, form, x), form.reduction)


@family.converts(
    "SparseLengthsPositionalWeightedSum",
    expects={
        1: TensorInfo(_FLOAT, (None,)),
        2: TensorInfo(ir.DataType.INT64, (None,)),
        3: TensorInfo(_INT32, (None,)),
    },
)
def positional_weighted_sum(op: Op) -> Value:
    """SparseLengthsPositionalWeightedSum(DATA, WEIGHT, INDICES, LENGTHS) -> OUTPUT.

    The weight of a row is ``WEIGHT[index of the row within its segment]``.
    """
    x, weights, indices = op.input(0), op.input(1), op.input(2)
    require_dtype(op, x, (_FLOAT, _FLOAT16), "data")
    require_dtype(op, indices, INDICES, "indices")
    require_rank(op, indices, 1, "indices")
    x = cast(op, take_rows(op, x, indices), _FLOAT)
    lengths = vector_operand(op, 3)
    segments = segments_by_lengths(op, lengths, x)
    position = row_positions(op, lengths, segments.ids)
    return reduce_rows(op, weigh(op, x, op.emit("Gather", weights, position, axis=0)), segments, "Sum")


def segments_by_lengths(op: Op, lengths: Value, x: Value) -> Segments:
    """Return the segments of the rows of ``x`` by ``lengths`` [S]."""
    return Segments(row_segments(op, lengths, size(op, x, 0)), size(op, lengths, 0), lengths)


def _segments(op: Op, form: Form, x: Value) -> Segments:
    """Return the segments of the rows of ``x`` by the operand of the operator."""
    given = vector_operand(op, form.segments)
    if form.by == "lengths":
        return segments_by_lengths(op, given, x)
    require_equal(op, op.static_dim(given, 0), op.static_dim(x, 0), "segment ids and rows")
    count = op.args.integer("num_segments", default=-1) if form.by == "ids" else -1
    return Segments(given, segment_count(op, given) if count == -1 else count)


def reduce_rows(op: Op, x: Value, segments: Segments, reduction: Reduction) -> Value:
    """Reduce the rows of ``x`` [N, ...] to one row per segment, [S, ...]."""
    if reduction in ("Sum", "Mean"):
        total = scatter_rows(op, x, segments.ids, segments.count, "add")
        return divide_by_counts(op, total, segments.counts(op)) if reduction == "Mean" else total
    if reduction == "Max" and segments.lengths is not None:
        maximum = scatter_rows(op, x, segments.ids, segments.count, "max", -np.inf)
        empty = op.emit("Equal", segments.lengths, op.const(0, np.int64))
        return op.emit("Where", broadcast_over_rows(op, empty, maximum), op.const(0.0, x), maximum)
    maximum = scatter_rows(op, x, segments.ids, segments.count, "max", _LOWEST)
    if reduction == "Max":
        return maximum
    # log(sum(exp(x))) = log(sum(exp(x - max))) + max does not overflow.
    scaled = op.emit("Exp", op.emit("Sub", x, op.emit("Gather", maximum, segments.ids, axis=0)))
    total = scatter_rows(op, scaled, segments.ids, segments.count, "add")
    if reduction == "LogMeanExp":
        total = divide_by_counts(op, total, segments.counts(op))
    return op.emit("Add", op.emit("Log", total), maximum)
