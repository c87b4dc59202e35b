"""Segment reductions: rows of a tensor, or of a table looked up by indices, reduced by lengths or segment ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.segments import lengths_of, require_rows
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions.segments import (
    log_mean_exp_rows,
    log_sum_exp_rows,
    max_rows,
    max_rows_or_zero,
    mean_rows,
    positions,
    segment_count,
    segment_ids,
    sum_rows,
)

family = Family("segment_reduction")

Reduce: TypeAlias = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
By: TypeAlias = Literal["lengths", "sorted ids", "ids"]


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an operator, whose operands are DATA[, WEIGHTS][, INDICES], and lengths or segment ids."""

    reduce: Reduce
    by: By
    weighted: bool = False
    sparse: bool = False


def _forms() -> dict[str, Form]:
    forms: dict[str, Form] = {}
    prefixes: tuple[tuple[str, By], ...] = (
        ("Lengths", "lengths"), ("SortedSegment", "sorted ids"), ("UnsortedSegment", "ids")
    )  # fmt: skip
    for prefix, by in prefixes:
        for sparse in (False, True):
            name = f"{'Sparse' * sparse}{prefix}"
            forms[f"{name}Sum"] = Form(sum_rows, by, sparse=sparse)
            forms[f"{name}Mean"] = Form(mean_rows, by, sparse=sparse)
            forms[f"{name}WeightedSum"] = Form(sum_rows, by, weighted=True, sparse=sparse)
    ranges: dict[str, Reduce] = {
        "Sum": sum_rows, "Mean": mean_rows, "Max": max_rows, "LogSumExp": log_sum_exp_rows,
        "LogMeanExp": log_mean_exp_rows,
    }  # fmt: skip
    forms |= {f"SortedSegmentRange{name}": Form(reduce, "sorted ids") for name, reduce in ranges.items()}
    return forms | {"LengthsMax": Form(max_rows_or_zero, "lengths")}


FORMS: Final = _forms()


@family.converts(*FORMS)
def reduce_segments(op: Op) -> Value:
    form, x = FORMS[op.type], op.tensor(0)
    if form.weighted:
        op.args.ignore("grad_on_weights")
    if form.sparse:
        x = take_rows(op, x, op.tensor(1 + form.weighted)).to(op.context.real)
    if form.weighted:
        x = _weighed(op, x, op.tensor(1))
    last = 1 + form.weighted + form.sparse
    if form.by == "lengths":
        lengths = lengths_of(op, last)
        require_rows(op, lengths, x)
        return form.reduce(x, segment_ids(lengths), lengths.shape[0])
    ids = op.tensor(last).to(torch.int64)
    count = op.args.integer("num_segments", default=-1) if form.by == "ids" else -1
    if ids.shape[0] != x.shape[0]:
        op.refuse("there must be one segment id for each row")
    return form.reduce(x, ids, segment_count(ids) if count == -1 else count)


@family.converts("SparseLengthsPositionalWeightedSum")
def positional_weighted_sum(op: Op) -> Value:
    """Weight each row by its index within its segment."""
    lengths = lengths_of(op, 3)
    x = take_rows(op, op.tensor(0), op.tensor(2)).to(op.context.real)
    require_rows(op, lengths, x)
    return sum_rows(_weighed(op, x, op.tensor(1)[positions(lengths)]), segment_ids(lengths), lengths.shape[0])


def take_rows(op: Op, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return the rows of ``x`` at an index [N]."""
    index = index.to(torch.int64)
    op.require_within(index, 0, x.shape[0], f"indices must be from 0 to {x.shape[0] - 1}")
    return x[index]


def _weighed(op: Op, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    if weights.shape[0] < x.shape[0]:
        op.refuse(f"there must be a weight for each of {x.shape[0]} rows, not {weights.shape[0]}")
    return x * weights.reshape(-1)[: x.shape[0]].reshape(-1, *[1] * (x.dim() - 1))
