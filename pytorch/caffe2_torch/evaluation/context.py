"""What all operators of a run share."""

from __future__ import annotations

from dataclasses import dataclass

import torch


def is_exporting() -> bool:
    """Whether a program is being recorded by ``torch.export``."""
    return bool(torch.compiler.is_exporting())


@dataclass(frozen=True, slots=True)
class Context:
    """Where a run creates tensors, the element type of those that Caffe2 creates as float, and whether it trains."""

    device: torch.device | None = None
    real: torch.dtype = torch.float32
    training: bool = True
