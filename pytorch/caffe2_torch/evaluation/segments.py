"""Operands that are lengths of segments."""

from __future__ import annotations

import torch

from caffe2_torch.evaluation.op import Op


def lengths_of(op: Op, index: int) -> torch.Tensor:
    """Return operand ``index`` as int64 lengths [S], none negative."""
    lengths = op.tensor(index).to(torch.int64)
    if lengths.dim() != 1 or (lengths.numel() and int(lengths.min()) < 0):
        op.refuse(f"input {index} must be a vector of lengths")
    return lengths


def require_rows(op: Op, lengths: torch.Tensor, x: torch.Tensor) -> None:
    """Refuse lengths that do not sum to the number of rows."""
    if int(lengths.sum()) != x.shape[0]:
        op.refuse(f"the lengths must sum to the number of rows ({x.shape[0]}), not {int(lengths.sum())}")
