"""Rotated boxes [center x, center y, width, height, degrees], the last dim of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from caffe2_torch.evaluation.box_options import pixel
from caffe2_torch.evaluation.op import Op
from caffe2_torch.functions.boxes import clip_boxes

_MAX_GROWTH: Final = math.log(1000.0 / 16.0)


@dataclass(frozen=True, slots=True)
class BoxArguments:
    """The interpretation of boxes; ``pixel`` is added to a difference of coordinates to get a side."""

    pixel: float
    bound_angles: bool
    lowest: int
    highest: int
    upright_angle: float


def box_arguments(op: Op) -> BoxArguments:
    """Read the arguments of an operator that transforms boxes."""
    how = BoxArguments(
        pixel(op.args),
        op.args.flag("angle_bound_on", default=True),
        op.args.integer("angle_bound_lo", default=-90),
        op.args.integer("angle_bound_hi", default=90),
        op.args.number("clip_angle_thresh", default=1.0),
    )
    period = how.highest - how.lowest
    if how.bound_angles and (period <= 0 or period % 180):
        op.refuse(f"angle_bound_hi - angle_bound_lo must be a positive multiple of 180, not {period}")
    return how


def transformed(boxes: torch.Tensor, deltas: torch.Tensor, weights: Sequence[float], how: BoxArguments) -> torch.Tensor:
    """Apply predicted deltas (dx, dy, dw, dh, radians), divided by ``weights``, to rotated boxes."""
    dx, dy, dw, dh = (delta / weight for delta, weight in zip(deltas.unbind(-1), weights, strict=False))
    dw, dh = dw.clamp(max=_MAX_GROWTH), dh.clamp(max=_MAX_GROWTH)
    x, y, width, height, angle = boxes.unbind(-1)
    turned = deltas[..., 4] * (180.0 / math.pi) + angle
    if how.bound_angles:
        period = float(how.highest - how.lowest)
        lowered = torch.where(turned > how.highest, turned - period, turned)
        turned = torch.where(turned < how.lowest, turned + period, lowered)
    moved = (dx * width + x, dy * height + y, torch.exp(dw) * width, torch.exp(dh) * height, turned)
    return torch.stack(moved, dim=-1)


def clipped(boxes: torch.Tensor, height: torch.Tensor, width: torch.Tensor, how: BoxArguments) -> torch.Tensor:
    """Clip those of rotated boxes that are nearly upright to an image."""
    x, y, w, h, angle = boxes.unbind(-1)
    half_w, half_h = (w - how.pixel) / 2, (h - how.pixel) / 2
    corners = torch.stack((x - half_w, y - half_h, x + half_w, y + half_h), dim=-1)
    x1, y1, x2, y2 = clip_boxes(corners, height, width, how.pixel).unbind(-1)
    inside = torch.stack(((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1 + how.pixel, y2 - y1 + how.pixel, angle), dim=-1)
    return torch.where((angle.abs() <= how.upright_angle).unsqueeze(-1), inside, boxes)
