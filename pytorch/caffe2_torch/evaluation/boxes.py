"""Boxes of the detection operators: upright [x1, y1, x2, y2], or rotated [center x, center y, width, height, degrees].

Boxes are the last dim of a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from caffe2_torch.evaluation.op import Op

_MAX_GROWTH: Final = math.log(1000.0 / 16.0)


@dataclass(frozen=True, slots=True)
class BoxArguments:
    """The interpretation of boxes; ``pixel`` is added to a difference of coordinates to get a side."""

    rotated: bool
    pixel: float
    bound_angles: bool
    lowest: int
    highest: int
    upright_angle: float

    @property
    def dims(self) -> int:
        """The number of elements of a box."""
        return 5 if self.rotated else 4


def box_arguments(op: Op, *, rotated: bool) -> BoxArguments:
    """Read the arguments of an operator that transforms boxes."""
    how = BoxArguments(
        rotated,
        1.0 if op.args.flag("legacy_plus_one", default=True) else 0.0,
        op.args.flag("angle_bound_on", default=True),
        op.args.integer("angle_bound_lo", default=-90),
        op.args.integer("angle_bound_hi", default=90),
        op.args.number("clip_angle_thresh", default=1.0),
    )
    period = how.highest - how.lowest
    if rotated and how.bound_angles and (period <= 0 or period % 180):
        op.refuse(f"angle_bound_hi - angle_bound_lo must be a positive multiple of 180, not {period}")
    return how


def transformed(boxes: torch.Tensor, deltas: torch.Tensor, weights: Sequence[float], how: BoxArguments) -> torch.Tensor:
    """Apply predicted deltas (dx, dy, dw, dh[, radians]), divided by ``weights``, to boxes."""
    dx, dy, dw, dh = (delta / weight for delta, weight in zip(deltas.unbind(-1), weights, strict=False))
    dw, dh = dw.clamp(max=_MAX_GROWTH), dh.clamp(max=_MAX_GROWTH)
    if how.rotated:
        x, y, width, height, angle = boxes.unbind(-1)
        turned = deltas[..., 4] * (180.0 / math.pi) + angle
        if how.bound_angles:
            period = float(how.highest - how.lowest)
            lowered = torch.where(turned > how.highest, turned - period, turned)
            turned = torch.where(turned < how.lowest, turned + period, lowered)
        moved = (dx * width + x, dy * height + y, torch.exp(dw) * width, torch.exp(dh) * height, turned)
        return torch.stack(moved, dim=-1)
    x1, y1, x2, y2 = boxes.unbind(-1)
    width, height = x2 - x1 + how.pixel, y2 - y1 + how.pixel
    x, y = dx * width + (x1 + width * 0.5), dy * height + (y1 + height * 0.5)
    half_width, half_height = torch.exp(dw) * width * 0.5, torch.exp(dh) * height * 0.5
    corners = (x - half_width, y - half_height, x + half_width - how.pixel, y + half_height - how.pixel)
    return torch.stack(corners, dim=-1)


def clipped(boxes: torch.Tensor, height: torch.Tensor, width: torch.Tensor, how: BoxArguments) -> torch.Tensor:
    """Clip boxes to an image; of rotated boxes only those that are nearly upright."""
    if not how.rotated:
        limits = (width - how.pixel, height - how.pixel) * 2
        parts = [torch.minimum(v, limit).clamp(min=0) for v, limit in zip(boxes.unbind(-1), limits, strict=True)]
        return torch.stack(parts, dim=-1)
    x, y, w, h, angle = boxes.unbind(-1)
    half_w, half_h = (w - how.pixel) / 2, (h - how.pixel) / 2
    upright = BoxArguments(False, how.pixel, False, 0, 0, 0)  # noqa: FBT003 - a record
    corners = torch.stack((x - half_w, y - half_h, x + half_w, y + half_h), dim=-1)
    x1, y1, x2, y2 = clipped(corners, height, width, upright).unbind(-1)
    inside = torch.stack(((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1 + how.pixel, y2 - y1 + how.pixel, angle), dim=-1)
    return torch.where((angle.abs() <= how.upright_angle).unsqueeze(-1), inside, boxes)


def suppress(
    op: Op, boxes: torch.Tensor, scores: torch.Tensor, threshold: float, pixel: float, limit: int
) -> torch.Tensor:
    """Return the indices of upright boxes [n, 4] that non-maximum suppression keeps, by descending score."""
    if boxes.shape[-1] != 4:
        op.refuse("non-maximum suppression of rotated boxes is not supported")
    order = torch.sort(scores, descending=True, stable=True)[1].tolist()
    area = (boxes[:, 2] - boxes[:, 0] + pixel) * (boxes[:, 3] - boxes[:, 1] + pixel)
    kept: list[int] = []
    while order and (limit <= 0 or len(kept) < limit):
        best, rest = order[0], torch.tensor(order[1:], dtype=torch.int64)
        kept.append(best)
        # Of two boxes of area 0 the overlap is NaN, and the second is dropped.
        order = rest[overlaps(boxes, area, best, rest, pixel) <= threshold].tolist()
    return torch.tensor(kept, dtype=torch.int64)


def overlaps(boxes: torch.Tensor, area: torch.Tensor, one: int, many: torch.Tensor, pixel: float) -> torch.Tensor:
    """Return the intersection of a box with others, over their union."""
    start = torch.maximum(boxes[one, :2], boxes[many, :2])
    end = torch.minimum(boxes[one, 2:], boxes[many, 2:])
    inter = (end - start + pixel).clamp(min=0).prod(-1)
    return inter / (area[one] + area[many] - inter)
