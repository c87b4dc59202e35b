"""Reductions of rows by segment, also of rows that are looked up in a table."""

from __future__ import annotations

import torch

from caffe2_torch.ops.quantized.sparse_lengths_rowwise import LOOKUPS
from caffe2_torch.ops.sequence.segment_reduction import FORMS, Form
from caffe2_torch.source.op import Family, Source, SourceOp

family = Family("segments")


@family.emits(*FORMS)
def reduce_segments(op: SourceOp) -> Source:
    form = FORMS[op.type]
    last = 1 + form.weighted + form.sparse
    if form.weighted:
        op.args.ignore("grad_on_weights")
    if form.sparse and form.by == "lengths" and op.rank(0) == 2:
        return _bag(op, form)
    rows = f"{op.x(0)}[{op.index(last - 1)}]" if form.sparse else op.x(0)
    if form.sparse and op.dtype(0) == torch.float16:
        rows = f"{rows}.float()"
    if form.weighted:
        rows = _weighted(op, rows, op.x(1))
    if form.by == "lengths":
        return op.call(form.reduce.__name__, rows, op.call("segment_ids", op.x(last)), f"{op.x(last)}.shape[0]")
    count = op.args.integer("num_segments", default=-1) if form.by == "ids" else -1
    number = op.call("segment_count", op.x(last)) if count == -1 else str(count)
    return op.call(form.reduce.__name__, rows, op.index(last), number)


def _weighted(op: SourceOp, rows: str, weights: str) -> str:
    nones = ", None" * (op.known_rank(0) - 1)
    return f"{rows} * {weights}[:{nones}]" if nones else f"{rows} * {weights}"


def _bag(op: SourceOp, form: Form) -> str:
    """Return a lookup as PyTorch's embedding bag, whose segments are given by their first rows."""
    table, mode = op.constant(0), "mean" if form.reduce.__name__ == "mean_rows" else "sum"
    first = op.call("starts", op.x(2 + form.weighted))
    indices = op.index(1 + form.weighted)
    weights = f"per_sample_weights={op.x(1)}" if form.weighted else ""
    if table is not None and op.owns(0) and table.dtype == torch.float32:
        bag = op.layer(f'nn.EmbeddingBag({table.shape[0]}, {table.shape[1]}, mode="{mode}")', weight=(0, table))
        return f"{bag}({', '.join(filter(None, (indices, first, weights)))})"
    text = op.x(0) if op.dtype(0) == torch.float32 else f"{op.x(0)}.float()"
    parts = (indices, text, first, f'mode="{mode}"', weights)
    return f"F.embedding_bag({', '.join(filter(None, parts))})"


@family.emits("SparseLengthsPositionalWeightedSum")
def positional_weighted_sum(op: SourceOp) -> Source:
    weights = f"{op.x(1)}[{op.call('positions', op.x(3))}]"
    rows = _weighted(op, f"{op.x(0)}[{op.index(2)}]", weights)
    return op.call("sum_rows", rows, op.call("segment_ids", op.x(3)), f"{op.x(3)}.shape[0]")


@family.emits(*(name for name, lookup in LOOKUPS.items() if not lookup.pruned))
def reduce_looked_up(op: SourceOp) -> Source:
    lookup = LOOKUPS[op.type]
    first = 1 + lookup.weighted
    chosen, lengths = f"{op.x(0)}[{op.index(first)}]", op.x(first + 1)
    if lookup.rows is not None:
        weights = [op.x(1)] if lookup.weighted else []
        rows = op.call("decode_rows", chosen, str(lookup.rows.bits), str(lookup.rows.real), *weights)
    else:
        rows = op.call("dequantize_rows", chosen, f"{op.x(first + 2)}[{op.index(first)}]")
        rows = _weighted(op, rows, op.x(1)) if lookup.weighted else rows
    reduce = "mean_rows" if lookup.is_mean else "sum_rows"
    return op.call(reduce, rows, op.call("segment_ids", lengths), f"{lengths}.shape[0]")
