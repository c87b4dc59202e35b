"""Rows in segments, by lengths."""

from __future__ import annotations

import torch

from caffe2_torch.evaluation.op import Op


def lengths_of(op: Op, index: int) -> torch.Tensor:
    """Return operand ``index`` as int64 lengths [S], none negative."""
    lengths = op.tensor(index).to(torch.int64)
    if lengths.dim() != 1 or (lengths.numel() and int(lengths.min()) < 0):
        op.refuse(f"input {index} must be a vector of lengths")
    return lengths


def starts(lengths: torch.Tensor) -> torch.Tensor:
    """Return the first row of each segment, [S]."""
    return lengths.cumsum(0) - lengths


def segment_ids(lengths: torch.Tensor) -> torch.Tensor:
    """Return the segment of each row, [N]."""
    return torch.repeat_interleave(torch.arange(lengths.shape[0], device=lengths.device), lengths)


def positions(lengths: torch.Tensor) -> torch.Tensor:
    """Return the index of each row within its segment, [N]."""
    ids = segment_ids(lengths)
    return torch.arange(ids.shape[0], device=lengths.device) - starts(lengths)[ids]


def range_rows(start: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """Return the rows of ranges, concatenated."""
    return start[segment_ids(length)] + positions(length)


def padded_rows(x: torch.Tensor, lengths: torch.Tensor, width: int, value: float = 0) -> torch.Tensor:
    """Return rows [N, ...] as [S, width, ...]: longer segments are cut, shorter ones padded with ``value``."""
    present, rows = grid(lengths, width)
    result = x.new_full((*present.shape, *x.shape[1:]), value)
    return result.masked_scatter(_over(present, result), x[rows[present]]) if x.shape[0] else result


def grid(lengths: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return where segments have rows, and which, both [S, width]."""
    column = torch.arange(width, device=lengths.device)
    return column < lengths.unsqueeze(1), starts(lengths).unsqueeze(1) + column


def _over(mask: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return mask.reshape(*mask.shape, *[1] * (x.dim() - mask.dim())).expand_as(x)


def require_rows(op: Op, lengths: torch.Tensor, x: torch.Tensor) -> None:
    """Refuse lengths that do not sum to the number of rows."""
    if int(lengths.sum()) != x.shape[0]:
        op.refuse(f"the lengths must sum to the number of rows ({x.shape[0]}), not {int(lengths.sum())}")
