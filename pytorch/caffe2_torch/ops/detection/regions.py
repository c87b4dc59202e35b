"""Features of regions of interest (RoIs): by bilinear interpolation (RoIAlign), and maxima (RoIPool)."""

from __future__ import annotations

import numpy as np
import torch

from caffe2_torch.evaluation.box_options import region_options
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.layout import channels_last, move_first, move_last
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions.regions import align_regions, interpolate, sample_points

family = Family("regions")

_LOWEST = torch.finfo(torch.float32).min


@family.converts("RoIAlign", "RoIAlignRotated")
def roi_align(op: Op) -> Value:
    """Take RoIs [R, 5] (image, x1, y1, x2, y2) or without the image; rotated ones have centers, sides and degrees."""
    last, options, rotated = channels_last(op), region_options(op.args), op.type == "RoIAlignRotated"
    x, rois = move_first(op.tensor(0), when=last), op.tensor(1)
    dims = 5 if rotated else 4
    if rois.shape[1] not in (dims, dims + 1):
        op.refuse(f"RoIs must have {dims} or {dims + 1} columns")
    if not bool(torch.isfinite(rois).all()):
        op.refuse("RoIs must be finite")
    return move_last(_align_rotated(x, rois, **options) if rotated else align_regions(x, rois, **options), when=last)


def _align_rotated(
    x: torch.Tensor, rois: torch.Tensor, *, height: int, width: int, scale: float, samples: int, aligned: bool
) -> torch.Tensor:
    """Average features as :func:`align_regions` does, at points that are turned around the center of their region."""
    results = [x.new_zeros((0, x.shape[1], height, width))]
    for roi in rois:
        center, sides = roi[-5:-3] * scale - (0.5 if aligned else 0.0), roi[-3:-1] * scale
        sides = sides if aligned else sides.clamp(min=1.0)
        down, along = (
            sample_points(side * -0.5, side, count, samples) for side, count in ((sides[1], height), (sides[0], width))
        )
        angle = roi[-1] * float(np.float32(np.pi) / np.float32(180))
        cos, sin = torch.cos(angle), torch.sin(angle)
        y, x_ = down.reshape(-1, 1), along.reshape(1, -1)
        columns, rows = x_ * cos + y * sin + center[0], y * cos - x_ * sin + center[1]
        values = interpolate(x[int(roi[0]) if rois.shape[1] > 5 else 0], rows, columns)
        results.append(values.reshape(1, x.shape[1], height, down.shape[1], width, along.shape[1]).mean((3, 5)))
    return torch.cat(results)


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
