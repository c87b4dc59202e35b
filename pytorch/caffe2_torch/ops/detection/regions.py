"""Features of regions of interest (RoIs): by bilinear interpolation (RoIAlign), and maxima (RoIPool)."""

from __future__ import annotations

import math

import numpy as np
import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.layout import channels_last, move_first, move_last
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("regions")

_LOWEST = torch.finfo(torch.float32).min


@family.converts("RoIAlign", "RoIAlignRotated")
def roi_align(op: Op) -> Value:
    """Take RoIs [R, 5] (image, x1, y1, x2, y2) or without the image; rotated ones have centers, sides and degrees."""
    args, last = op.args, channels_last(op)
    height, width = args.integer("pooled_h", default=1), args.integer("pooled_w", default=1)
    scale, samples = args.number("spatial_scale", default=1.0), max(args.integer("sampling_ratio", default=-1), 0)
    aligned = args.flag("aligned", default=False)
    x, rois = move_first(op.tensor(0), when=last), op.tensor(1)
    rotated = op.type == "RoIAlignRotated"
    dims = 5 if rotated else 4
    if rois.shape[1] not in (dims, dims + 1) or min(height, width) < 1 or scale <= 0:
        op.refuse(f"RoIs must have {dims} or {dims + 1} columns, and pooled_h, pooled_w and spatial_scale be positive")
    if not bool(torch.isfinite(rois).all()):
        op.refuse("RoIs must be finite")
    results = []
    for roi in rois:
        image = x[int(roi[0]) if rois.shape[1] > dims else 0]
        box = roi[-dims:]
        results.append(_region(image, box, (height, width), scale, samples, aligned=aligned))
    pooled = torch.stack(results) if results else x.new_zeros((0, x.shape[1], height, width))
    return move_last(pooled, when=last)


def _region(
    image: torch.Tensor, box: torch.Tensor, bins: tuple[int, int], scale: float, samples: int, *, aligned: bool
) -> torch.Tensor:
    """Return the pooled features of one region, [C, height, width]."""
    offset, rotated = 0.5 if aligned else 0.0, box.shape[0] == 5
    scaled = box[:4] * scale
    if rotated:
        center, sides = scaled[:2] - offset, scaled[2:].flip(0)
    else:
        start = (scaled[:2] - offset).flip(0)
        sides = (scaled[2:] - offset).flip(0) - start
    sides = sides if aligned else sides.clamp(min=1.0)
    axes, counts = [], []
    for axis in (0, 1):
        part = sides[axis] / bins[axis]
        count = samples or max(math.ceil(float(part)), 0)
        index = torch.arange(bins[axis] * count)
        at = torch.div(index, max(count, 1), rounding_mode="floor") * part
        begin = sides[axis] * -0.5 if rotated else start[axis]
        axes.append(begin + at + ((index % max(count, 1)) + 0.5) * part / max(count, 1))
        counts.append(count)
    down, along = axes[0].unsqueeze(1), axes[1].unsqueeze(0)
    if rotated:
        angle = box[4] * float(np.float32(np.pi) / np.float32(180))
        cos, sin = torch.cos(angle), torch.sin(angle)
        columns, rows = along * cos + down * sin + center[0], down * cos - along * sin + center[1]
    else:
        rows, columns = down.expand(-1, along.shape[1]), along.expand(down.shape[0], -1)
    values = _bilinear(image, rows, columns)
    total = values.reshape(image.shape[0], bins[0], counts[0], bins[1], counts[1]).sum((2, 4))
    return total / (counts[0] * counts[1])


def _bilinear(image: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Interpolate an image [C, H, W] at points; those more than one pixel outside count as 0."""
    inside, axes = torch.ones_like(y, dtype=torch.bool), []
    for position, limit in ((y, image.shape[1]), (x, image.shape[2])):
        inside = inside & (position >= -1.0) & (position <= limit)
        start = torch.where(inside, position, torch.zeros_like(position)).clamp(min=0)
        low = start.to(torch.int64).clamp(max=limit - 1)
        fraction = torch.where(low >= limit - 1, torch.zeros_like(start), start - low)
        axes.append((low, (low + 1).clamp(max=limit - 1), fraction))
    (y0, y1, fy), (x0, x1, fx) = axes
    top = image[:, y0, x0] * (1 - fx) + image[:, y0, x1] * fx
    bottom = image[:, y1, x0] * (1 - fx) + image[:, y1, x1] * fx
    # Outside Caffe2 reads the first pixel with the weight 0.
    return torch.where(inside, top * (1 - fy) + bottom * fy, (image[:, 0, 0] * 0).reshape(-1, 1, 1))


@family.converts("RoIPool")
def roi_pool(op: Op) -> tuple[Value, ...]:
    """Return the maxima, and the index of each in its channel's pixels, -1 where there is none."""
    x, rois = op.tensor(0), op.tensor(1)
    height, width = (op.args.integer(f"pooled_{side}", default=1) for side in "hw")
    scale, test = op.args.number("spatial_scale", default=1.0), op.args.flag("is_test", default=False)
    if channels_last(op) or op.output_count != (1 if test else 2):
        op.refuse("order must be NCHW, and there is one output with is_test=1 and two without")
    pooled = x.new_zeros((rois.shape[0], x.shape[1], height, width))
    found = torch.full(pooled.shape, -1, dtype=torch.int32)
    for index, roi in enumerate(rois):
        image = x[int(roi[0])]
        rows, columns = (
            _cells(roi[2], roi[4], height, scale, x.shape[2]),
            _cells(roi[1], roi[3], width, scale, x.shape[3]),
        )
        for i, (top, bottom) in enumerate(rows):
            for j, (left, right) in enumerate(columns):
                if top < bottom and left < right:
                    cell = image[:, top:bottom, left:right].reshape(x.shape[1], -1)
                    # A maximum starts from the lowest number: neither that nor a NaN is found.
                    cell = torch.where(cell > _LOWEST, cell, torch.full_like(cell, _LOWEST))
                    value, place = cell.max(1)
                    row, column = place // (right - left) + top, place % (right - left) + left
                    pooled[index, :, i, j] = value
                    found[index, :, i, j] = torch.where(value > _LOWEST, row * x.shape[3] + column, -1).to(torch.int32)
    return (pooled,) if test else (pooled, found)


def _cells(start: torch.Tensor, end: torch.Tensor, count: int, scale: float, limit: int) -> list[tuple[int, int]]:
    """Return the first pixel of each cell of a region along a side, and the one after the last."""
    first, last = (torch.trunc(v * scale + torch.sign(v) * 0.5) for v in (start, end))
    cell = (last - first + 1.0).clamp(min=1.0) / count
    bounds = [(torch.floor(cell * i) + first, torch.ceil(cell * (i + 1)) + first) for i in range(count)]
    return [(min(max(int(a), 0), limit), min(max(int(b), 0), limit)) for a, b in bounds]
