"""The largest elements of rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as the source has it


def top_k(x: torch.Tensor, k: int, axis: int = -1) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest elements along an axis and their indices, the first of equal ones first.

    Where the axis is shorter, zeros and the index -1 fill up.
    """
    values, index = (v[..., :k] for v in torch.sort(x.movedim(axis, -1), descending=True, stable=True))
    pads = (0, k - values.shape[-1])
    return F.pad(values, pads).movedim(-1, axis), F.pad(index, pads, value=-1).movedim(-1, axis)


def accuracy(scores: torch.Tensor, labels: torch.Tensor, top_k: int = 1) -> torch.Tensor:
    """Return the share of rows in which fewer than top_k classes precede the label's, by score and then by index."""
    label = labels.long().unsqueeze(1)
    own, classes = scores.gather(1, label), torch.arange(scores.shape[1], device=scores.device)
    before = ((scores > own) | ((scores == own) & (classes < label))).sum(1)
    return (before < top_k).float().mean()
