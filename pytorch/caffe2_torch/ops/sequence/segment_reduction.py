"""Segment reductions: rows of a tensor, or of a table looked up by indices, reduced by lengths or segment ids."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.segments import lengths_of, positions, require_rows, segment_ids
from caffe2_torch.evaluation.values import Value

family = Family("segment_reduction")

_LOWEST: Final = torch.finfo(torch.float32).min

Reduction = Literal["Sum", "Mean", "Max", "LogSumExp", "LogMeanExp"]
By = Literal["lengths", "sorted ids", "ids"]


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an operator, whose operands are DATA[, WEIGHTS][, INDICES], and lengths or segment ids."""

    reduction: Reduction
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
            forms[f"{name}Sum"] = Form("Sum", by, sparse=sparse)
            forms[f"{name}Mean"] = Form("Mean", by, sparse=sparse)
            forms[f"{name}WeightedSum"] = Form("Sum", by, weighted=True, sparse=sparse)
    ranges: tuple[Reduction, ...] = ("Sum", "Mean", "Max", "LogSumExp", "LogMeanExp")
    forms |= {f"SortedSegmentRange{reduction}": Form(reduction, "sorted ids") for reduction in ranges}
    return forms | {"LengthsMax": Form("Max", "lengths")}


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
        return reduce_rows(x, segment_ids(lengths), lengths.shape[0], form.reduction, by_lengths=True)
    ids = op.tensor(last).to(torch.int64)
    count = op.args.integer("num_segments", default=-1) if form.by == "ids" else -1
    if ids.shape[0] != x.shape[0]:
        op.refuse("there must be one segment id for each row")
    if count == -1:
        count = int(ids.max()) + 1 if ids.numel() else 0
    return reduce_rows(x, ids, count, form.reduction)


@family.converts("SparseLengthsPositionalWeightedSum")
def positional_weighted_sum(op: Op) -> Value:
    """Weight each row by its index within its segment."""
    lengths = lengths_of(op, 3)
    x = take_rows(op, op.tensor(0), op.tensor(2)).to(op.context.real)
    require_rows(op, lengths, x)
    return reduce_rows(_weighed(op, x, op.tensor(1)[positions(lengths)]), segment_ids(lengths), lengths.shape[0], "Sum")


def take_rows(op: Op, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return the rows of ``x`` at an index [N]."""
    index = index.to(torch.int64)
    op.require_within(index, 0, x.shape[0], f"indices must be from 0 to {x.shape[0] - 1}")
    return x[index]


def _weighed(op: Op, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    if weights.shape[0] < x.shape[0]:
        op.refuse(f"there must be a weight for each of {x.shape[0]} rows, not {weights.shape[0]}")
    return x * weights.reshape(-1)[: x.shape[0]].reshape(-1, *[1] * (x.dim() - 1))


def reduce_rows(
    x: torch.Tensor, ids: torch.Tensor, count: int, reduction: Reduction, *, by_lengths: bool = False
) -> torch.Tensor:
    """Reduce rows [N, ...] to one a segment, [count, ...]; no rows to 0, or what Caffe2 starts from."""
    target = x.new_zeros((count, *x.shape[1:]))
    sizes = torch.bincount(ids, minlength=count).reshape(-1, *[1] * (x.dim() - 1))
    if reduction in ("Sum", "Mean"):
        total = target.index_add(0, ids, x)
        return total / sizes.clamp(min=1) if reduction == "Mean" else total
    index = ids.reshape(-1, *[1] * (x.dim() - 1)).expand_as(x)
    low = -math.inf if by_lengths else _LOWEST
    maximum = torch.full_like(target, low).scatter_reduce(0, index, x, "amax")
    if reduction == "Max":
        return torch.where(sizes == 0, torch.zeros_like(maximum), maximum) if by_lengths else maximum
    total = target.index_add(0, ids, torch.exp(x - maximum[ids]))
    if reduction == "LogMeanExp":
        total = total / sizes.clamp(min=1)
    return torch.log(total) + maximum
