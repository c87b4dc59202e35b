"""Rows reduced by segment: segments given as lengths or ids, of rows as they are or looked up in a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.operand_checks import INDICES, require_dtype, require_equal, require_min_rank, require_rank
from caffe2_frontend.emit.segments import (
    count_rows,
    row_positions,
    row_segments,
    scatter_rows,
    segment_count,
    take_rows,
    vector_operand,
)
from caffe2_frontend.emit.shapes import Size, cast, size, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("segment_reduction")

_FLOAT, _FLOAT16, _INT32 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.INT32
_LOWEST: Final = float(np.finfo(np.float32).min)


@dataclass(frozen=True, slots=True)
class Segments:
    """The segment of each row [N], how many segments there are, and how many rows each has [S], where that is known."""

    ids: Value
    count: Size
    lengths: Value | None = None

    def counts(self, op: Op) -> Value:
        """How many rows each segment has, float and at least 1, [S]."""
        counts = count_rows(op, self.ids, self.count) if self.lengths is None else self.lengths
        return cast(op, op.emit("Max", counts, op.const([1], np.int64)), _FLOAT)


Reduction = Literal["Sum", "Mean", "Max", "LogSumExp", "LogMeanExp"]
By = Literal["lengths", "sorted ids", "ids"]


@dataclass(frozen=True, slots=True)
class Form:
    """One of the operators: its operands are the data, a weight a row, the rows looked up, and the segments."""

    reduction: Reduction
    by: By
    weighted: bool = False
    sparse: bool = False

    @property
    def indices(self) -> int:
        """The position of the operand that says which rows are looked up, where there is one."""
        return 1 + self.weighted

    @property
    def segments(self) -> int:
        """The position of the operand that says the segments."""
        return 1 + self.weighted + self.sparse


_PREFIXES: Final[Mapping[str, By]] = {"Lengths": "lengths", "SortedSegment": "sorted ids", "UnsortedSegment": "ids"}


def _forms() -> dict[str, Form]:
    forms: dict[str, Form] = {}
    prefixes: tuple[tuple[str, By], ...] = (
        ("Lengths", "lengths"),
        ("SortedSegment", "sorted ids"),
        ("UnsortedSegment", "ids"),
    )
    for prefix, by in prefixes:
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
    form = FORMS[op.type]
    if index == form.segments:
        return TensorInfo(_INT32, (None,))
    if form.weighted and index == 1:
        return TensorInfo(_FLOAT, (None,))
    if form.sparse and index == form.indices:
        return TensorInfo(ir.DataType.INT64, (None,))
    # Tables of halves are looked up too.
    return TensorInfo() if form.sparse and form.by == "lengths" else TensorInfo(_FLOAT)


@family.converts(*FORMS, expects=_operand)
def reduce_segments(op: Op) -> Value:
    """A segment without rows is zeros. Looked up halves are reduced, and given out, as floats."""
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
    "SparseLengthsPositionalWeightedSum", expects={1: TensorInfo(_FLOAT, (None,)), 3: TensorInfo(_INT32, (None,))}
)
def positional_weighted_sum(op: Op) -> Value:
    """The weight of a row is that of its position in its segment."""
    x, weights, indices = op.input(0), op.input(1), op.input(2)
    require_dtype(op, x, (_FLOAT, _FLOAT16), "data")
    require_dtype(op, indices, INDICES, "indices")
    require_rank(op, indices, 1, "indices")
    x = cast(op, take_rows(op, x, indices), _FLOAT)
    lengths = vector_operand(op, 3)
    segments = segments_by_lengths(op, lengths, x)
    position = row_positions(op, lengths, segments.ids)
    return reduce_rows(op, weigh(op, x, op.emit("Gather", weights, position, axis=0)), segments, "Sum")


def weigh(op: Op, x: Value, weights: Value) -> Value:
    """Each row of ``x`` times its weight."""
    require_rank(op, weights, 1, "weights")
    require_equal(op, op.static_dim(weights, 0), op.static_dim(x, 0), "weights and rows")
    return op.emit("Mul", x, unsqueeze(op, weights, range(1, op.rank(x))))


def segments_by_lengths(op: Op, lengths: Value, x: Value) -> Segments:
    """The segments that ``lengths`` cut the rows of ``x`` into."""
    return Segments(row_segments(op, lengths, size(op, x, 0)), size(op, lengths, 0), lengths)


def _segments(op: Op, form: Form, x: Value) -> Segments:
    given = vector_operand(op, form.segments)
    if form.by == "lengths":
        return segments_by_lengths(op, given, x)
    require_equal(op, op.static_dim(given, 0), op.static_dim(x, 0), "segment ids and rows")
    count = op.args.integer("num_segments", default=-1) if form.by == "ids" else -1
    return Segments(given, segment_count(op, given) if count == -1 else count)


def reduce_rows(op: Op, x: Value, segments: Segments, reduction: Reduction) -> Value:
    """The rows of ``x`` reduced into one row a segment."""
    if reduction in ("Sum", "Mean"):
        total = scatter_rows(op, x, segments.ids, segments.count, "add")
        return _per_row(op, total, segments) if reduction == "Mean" else total
    if reduction == "Max" and segments.lengths is not None:
        greatest = scatter_rows(op, x, segments.ids, segments.count, "max", -np.inf)
        empty = op.emit("Equal", segments.lengths, op.const(0, np.int64))
        return op.emit("Where", _as_column(op, empty, greatest), op.const(0.0, x), greatest)
    greatest = scatter_rows(op, x, segments.ids, segments.count, "max", _LOWEST)
    if reduction == "Max":
        return greatest
    scaled = op.emit("Exp", op.emit("Sub", x, op.emit("Gather", greatest, segments.ids, axis=0)))
    total = scatter_rows(op, scaled, segments.ids, segments.count, "add")
    if reduction == "LogMeanExp":
        total = _per_row(op, total, segments)
    return op.emit("Add", op.emit("Log", total), greatest)


def _per_row(op: Op, total: Value, segments: Segments) -> Value:
    return op.emit("Div", total, _as_column(op, segments.counts(op), total))


def _as_column(op: Op, values: Value, like: Value) -> Value:
    return unsqueeze(op, values, range(1, op.rank(like)))
