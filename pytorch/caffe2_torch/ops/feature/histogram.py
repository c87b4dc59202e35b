"""Histograms: counts of elements in bins."""

from __future__ import annotations

from itertools import pairwise

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("histogram")


@family.converts("Histogram")
def histogram(op: Op) -> Value:
    """Count elements by bins that include their lower edge, but none outside of all bins."""
    edges = op.args.numbers("bin_edges")
    if len(edges) < 2 or any(a >= b for a, b in pairwise(edges)):
        op.refuse("bin_edges must be a strictly increasing sequence of at least two values")
    x = torch.cat([each.reshape(-1) for each in op.tensors])
    index = torch.searchsorted(torch.tensor(edges, dtype=torch.float32).to(x.dtype), x, right=True)
    return torch.bincount(index, minlength=len(edges) + 1)[1 : len(edges)]


@family.converts("SelfBinningHistogram")
def self_binning_histogram(op: Op) -> tuple[Value, Value]:
    """Count by bins from the minimum to slightly above the maximum; where edges coincide, the first holds all."""
    bins, spacing = op.args.integer("num_bins", default=0), op.args.text("bin_spacing", default="linear")
    start = op.args.number("logspace_start", default=1e-24)
    op.args.ignore("logspacing_start")
    if bins < 1 or spacing not in ("linear", "logarithmic"):
        op.refuse(f"num_bins must be positive ({bins}), and bin_spacing linear or logarithmic")
    x = torch.cat([each.reshape(-1) for each in op.tensors])
    x = x.abs() if op.args.flag("abs", default=False) else x
    low, high = (x.min(), x.max()) if x.numel() else (x.new_zeros(()), x.new_zeros(()))
    steps = torch.arange(bins + 1, dtype=x.dtype) / bins
    if spacing == "linear":
        top = low + (high - low) * 1.0001
        edges = low + steps * (top - low)
    else:
        low, high = low.clamp(min=start), high.clamp(min=start)
        top = low + (high - low) * 1.0001
        edges = low * torch.exp((torch.log(top) - torch.log(low)) * steps)
    index = (torch.searchsorted(edges, x, right=True) - 1).clamp(min=0)
    counts = torch.bincount(index, minlength=bins + 1)
    counts[bins] = 0
    if edges[bins] <= high:
        counts = torch.zeros_like(counts)
        counts[0] = x.numel()
        edges = torch.cat([edges[:bins], top.reshape(1)])
    return edges, counts
