"""Keypoints at the maxima of heatmaps, with subpixel accuracy; and the regions of R-MAC."""

from __future__ import annotations

import math

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("keypoint")

_MAX_STEP = 1.5
_FLAT = 1e-4
_LARGEST = 1e15  # whose square is finite


@family.converts("HeatmapMaxKeypoint")
def heatmap_max_keypoint(op: Op) -> Value:
    """Refine the maximum pixel by the maximum of a quadratic surface through its neighbours."""
    with_probability = op.args.flag("should_output_softmax", default=False)
    maps, boxes = op.tensors
    if not bool((maps.abs() < _LARGEST).all()):
        op.refuse(f"heatmaps must be less than {_LARGEST:g}")
    if maps.shape[2] < 2 or maps.shape[2] != maps.shape[3]:
        op.refuse("heatmaps must be squares of at least 2 pixels")
    side = maps.shape[2]
    flat = maps.flatten(2)
    index = torch.sort(flat, dim=2, descending=True, stable=True)[1][:, :, :1]
    y, x = index // side, index % side
    f = [[flat.gather(2, row * side + column) for column in _mirrored(x, side)] for row in _mirrored(y, side)]
    dx, dy, score = _refined(f)
    parts = []
    for pixel, delta, first, last in ((x, dx, boxes[:, 0], boxes[:, 2]), (y, dy, boxes[:, 1], boxes[:, 3])):
        length = (last - first).clamp(min=1.0).reshape(-1, 1, 1)
        parts.append((pixel + delta + 0.5) / side * length + first.reshape(-1, 1, 1))
    exponents = torch.exp(flat)
    probability = torch.exp(f[1][1]) / exponents.sum(2, keepdim=True) if with_probability else torch.zeros_like(score)
    return torch.cat([*parts, score, probability], dim=2).transpose(1, 2)


def _mirrored(center: torch.Tensor, side: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    before, after = center - 1, center + 1
    return torch.where(before < 0, after, before), center, torch.where(after >= side, center - 1, after)


def _refined(f: list[list[torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return one Newton step from the middle of 3 x 3 values to the maximum of a quadratic surface, and its height."""
    bx, by = (f[1][2] - f[1][0]) * -0.5, (f[2][1] - f[0][1]) * -0.5
    xx, yy = f[1][0] - 2 * f[1][1] + f[1][2], f[0][1] - 2 * f[1][1] + f[2][1]
    xy = (f[2][2] + f[0][0] - (f[2][0] + f[0][2])) * 0.25
    determinant = xx * yy - xy * xy
    is_flat = determinant.abs() < _FLAT
    safe = torch.where(is_flat, torch.ones_like(determinant), determinant)
    dx, dy = (torch.where(is_flat, torch.zeros_like(safe), v / safe) for v in (yy * bx - xy * by, xx * by - xy * bx))
    largest = torch.maximum(dx.abs(), dy.abs())
    factor = torch.where(largest > _MAX_STEP, _MAX_STEP / largest.clamp(min=1e-30), torch.ones_like(largest))
    dx, dy = dx * factor, dy * factor
    bend = xx * dx * dx + 2 * xy * dx * dy + yy * dy * dy
    return dx, dy, f[1][1] - (bx * dx + by * dy) + bend * 0.5


@family.converts("RMACRegions")
def rmac_regions(op: Op) -> Value:
    """Return squares of ``scales`` sizes that cover each image, rows (image, x1, y1, x2, y2)."""
    x, scales = op.tensor(0), op.args.integer("scales", default=3)
    overlap = op.args.number("overlap", default=0.4)
    n, c, h, w = x.shape
    short, long = min(h, w), max(h, w)
    if short == 0 or c == 0:
        op.refuse("images must have pixels")
    step = torch.tensor(float(long - short)) / torch.arange(1.0, 7.0)
    area = float(short * short)
    best = int(torch.argmin(((area - step * short) / area - overlap).abs())) + 1 if math.isfinite(overlap) else 0
    along_w, along_h = best * (w > h), best * (h > w)
    squares = []
    for level in range(1, scales + 1):
        side = 2 * short // (level + 1)
        if side == 0:
            continue
        for left in _starts(w, side, along_w + level):
            squares += [(left, top, left + side - 1, top + side - 1) for top in _starts(h, side, along_h + level)]
    rows = [(float(image), *map(float, square)) for image in range(n) for square in squares]
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, 5)


def _starts(length: int, side: int, count: int) -> list[int]:
    """Return the first pixels of ``count`` regions of ``side`` pixels, evenly spaced over ``length``."""
    gap = torch.tensor(float(length - side)) / max(count - 1, 1)
    return (torch.arange(count, dtype=torch.float32) * gap).to(torch.int64).tolist()
