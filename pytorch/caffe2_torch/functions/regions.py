"""Features of regions of interest."""

from __future__ import annotations

import math

import torch


def align_regions(
    x: torch.Tensor, rois: torch.Tensor, *, height: int, width: int, scale: float, samples: int = 0,
    aligned: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Average the features [N, C, H, W] over the cells of regions, to [R, C, height, width].

    A region is [x1, y1, x2, y2], after the index of its image if there are five columns, in pixels of the image;
    ``scale`` makes pixels of the features of them. A cell has samples * samples points, with 0 one for each pixel.
    ``aligned`` takes the centers of pixels for their coordinates.
    """
    results = [x.new_zeros((0, x.shape[1], height, width))]
    for roi in rois:
        left, top, right, bottom = roi[-4:] * scale - (0.5 if aligned else 0.0)
        sides = (bottom - top, right - left)
        if not aligned:
            sides = tuple(side.clamp(min=1.0) for side in sides)
        y, x_ = (
            sample_points(start, side, count, samples)
            for start, side, count in zip((top, left), sides, (height, width), strict=True)
        )
        features = x[int(roi[0]) if len(roi) > 4 else 0]
        values = interpolate(features, y.reshape(-1, 1), x_.reshape(1, -1))
        results.append(values.reshape(1, x.shape[1], height, y.shape[1], width, x_.shape[1]).mean((3, 5)))
    return torch.cat(results)


def sample_points(start: torch.Tensor, side: torch.Tensor, count: int, samples: int) -> torch.Tensor:
    """Return points along a side that is divided into cells, [count, samples]; with 0 samples one for each pixel."""
    cell = side / count
    samples = samples or max(math.ceil(float(cell)), 0)
    index = torch.arange(samples, device=side.device)
    return start + torch.arange(count, device=side.device).unsqueeze(1) * cell + (index + 0.5) * cell / max(samples, 1)


def interpolate(image: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Interpolate an image [C, H, W] at points; those more than one pixel outside count as 0."""
    y, x = torch.broadcast_tensors(y, x)
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
