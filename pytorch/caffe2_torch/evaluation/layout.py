"""The order of an image's dims."""

from __future__ import annotations

import torch

from caffe2_torch.evaluation.op import Op


def channels_last(op: Op) -> bool:
    """Whether the argument ``order`` is NHWC."""
    order = op.args.text("order", default="NCHW")
    if order not in ("NCHW", "NHWC"):
        op.refuse(f"order must be NCHW or NHWC, not {order!r}")
    return order == "NHWC"


def move_first(x: torch.Tensor, *, when: bool = True) -> torch.Tensor:
    """[N, ..., C] as [N, C, ...]."""
    return x.movedim(-1, 1) if when else x


def move_last(x: torch.Tensor, *, when: bool = True) -> torch.Tensor:
    """[N, C, ...] as [N, ..., C]."""
    return x.movedim(1, -1) if when else x


def over_channels(v: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return a vector [C] that broadcasts over ``x`` [N, C, ...]."""
    return v.reshape(1, -1, *[1] * (x.dim() - 2))
