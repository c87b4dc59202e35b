"""Transformations of features."""

from __future__ import annotations

import torch


def box_cox(x: torch.Tensor, power: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """Apply the Box-Cox transformation to columns: a power, or for the power 0 the logarithm."""
    shifted = (x + shift).clamp(min=1e-6)
    divisor = torch.where(power == 0, torch.ones_like(power), power)
    return torch.where(power == 0, torch.log(shifted), (torch.pow(shifted, divisor) - 1.0) / divisor)
