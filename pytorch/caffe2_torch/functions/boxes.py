"""Upright boxes [x1, y1, x2, y2], the last dim of a tensor.

``pixel``, 0 or 1, is added to a difference of coordinates to get a side.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 - as the source has it


def move_boxes(
    boxes: torch.Tensor, deltas: torch.Tensor, weights: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0), pixel: float = 1.0
) -> torch.Tensor:
    """Apply predicted deltas (dx, dy, dw, dh), divided by weights, to boxes [x1, y1, x2, y2].

    The center moves in units of the sides, which grow by the exponentials of dw and dh. The difference of two
    coordinates is a side less one pixel.
    """
    dx, dy, dw, dh = (deltas[..., i] / weights[i] for i in range(4))
    dw, dh = (v.clamp(max=math.log(1000.0 / 16.0)) for v in (dw, dh))
    x1, y1, x2, y2 = boxes.unbind(-1)
    width, height = x2 - x1 + pixel, y2 - y1 + pixel
    x, y = dx * width + (x1 + width * 0.5), dy * height + (y1 + height * 0.5)
    half_width, half_height = torch.exp(dw) * width * 0.5, torch.exp(dh) * height * 0.5
    corners = (x - half_width, y - half_height, x + half_width - pixel, y + half_height - pixel)
    return torch.stack(corners, dim=-1)


def clip_boxes(boxes: torch.Tensor, height: torch.Tensor, width: torch.Tensor, pixel: float = 1.0) -> torch.Tensor:
    """Clip boxes to an image."""
    limits = (width - pixel, height - pixel) * 2
    clipped = [torch.minimum(v, limit).clamp(min=0) for v, limit in zip(boxes.unbind(-1), limits, strict=True)]
    return torch.stack(clipped, dim=-1)


def areas(boxes: torch.Tensor, pixel: float) -> torch.Tensor:
    """Return the areas of boxes [n, 4]."""
    return (boxes[:, 2] - boxes[:, 0] + pixel) * (boxes[:, 3] - boxes[:, 1] + pixel)


def overlaps(boxes: torch.Tensor, area: torch.Tensor, one: int, many: torch.Tensor, pixel: float) -> torch.Tensor:
    """Return the intersection of a box with others, over their union; the boxes are given by their indices."""
    start = torch.maximum(boxes[one, :2], boxes[many, :2])
    end = torch.minimum(boxes[one, 2:], boxes[many, 2:])
    inter = (end - start + pixel).clamp(min=0).prod(-1)
    return inter / (area[one] + area[many] - inter)


def suppress(
    boxes: torch.Tensor, scores: torch.Tensor, threshold: float, pixel: float = 1.0, limit: int = 0
) -> torch.Tensor:
    """Return the indices of boxes [n, 4] that non-maximum suppression keeps, by descending score.

    Of boxes that overlap by more than the threshold the best is kept; with a limit above 0 so many boxes at most.
    """
    order, area = torch.sort(scores, descending=True, stable=True)[1], areas(boxes, pixel)
    kept: list[int] = []
    while order.numel() and (limit <= 0 or len(kept) < limit):
        best, rest = int(order[0]), order[1:]
        kept.append(best)
        # Of two boxes of area 0 the overlap is NaN, and the second is dropped.
        order = rest[overlaps(boxes, area, best, rest, pixel) <= threshold]
    return torch.tensor(kept, dtype=torch.int64, device=boxes.device)


def suppress_softly(
    boxes: torch.Tensor, scores: torch.Tensor, threshold: float, pixel: float, method: str, sigma: float, least: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lower the scores of boxes [n, 4] that overlap better ones; return the indices that are left, and their scores.

    The method is "linear" (for overlaps above the threshold) or "gaussian" (of the width sigma).
    """
    area, now = areas(boxes, pixel), scores.clone()
    left, kept = torch.arange(scores.shape[0], device=boxes.device), []
    while left.numel():
        best = int(left[torch.argmax(now[left])])
        kept.append(best)
        others = left[left != best]
        overlap = overlaps(boxes, area, best, others, pixel)
        if method == "linear":
            now[others] *= torch.where(overlap > threshold, 1.0 - overlap, 1.0)
        else:
            now[others] *= torch.exp(-(overlap**2) / sigma)
        left = others[now[others] >= least]
    rows = torch.tensor(kept, dtype=torch.int64, device=boxes.device)
    return rows, now[rows]


def generate_proposals(
    scores: torch.Tensor, deltas: torch.Tensor, images: torch.Tensor, anchors: torch.Tensor, *,
    stride: float, before: int, after: int, threshold: float, least: float, pixel: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Propose regions: move the anchors of all pixels, drop small boxes and those outside, and suppress the rest.

    The arguments are scores [N, A, H, W], deltas [N, 4 * A, H, W], images [N, 3] (height, width, scale) and anchors
    [A, 4] of the first pixel, in pixels of the image; ``stride`` is the distance of two pixels of the features. Before
    and after the suppression so many boxes are kept at most. Returns boxes [n, 5] with the index of the image first,
    and their scores [n].
    """
    count, height, width = scores.shape[1:]
    place = torch.arange(height * width, device=scores.device)
    x, y = (place % width).float() * stride, (place // width).float() * stride
    every = (anchors.unsqueeze(1) + torch.stack([x, y, x, y], dim=1)).reshape(-1, 4)
    rois, kept_scores = [], []
    for image, own in enumerate(images):
        moves = deltas[image].reshape(count, 4, -1).transpose(1, 2).reshape(-1, 4)
        best, order = torch.sort(scores[image].reshape(-1), descending=True, stable=True)
        best, order = (v[:before] if before > 0 else v for v in (best, order))
        moved = move_boxes(every[order], moves[order], pixel=pixel)
        # Caffe2 clips to the integer size of the image, but compares centers with the real one.
        moved = clip_boxes(moved, torch.trunc(own[0]), torch.trunc(own[1]), pixel)
        sides = moved[:, 2:] - moved[:, :2] + pixel
        center = moved[:, :2] + sides / 2
        good = (sides >= least * own[2]).all(1) & (center < own[:2].flip(0)).all(1)
        moved, best = moved[good], best[good]
        kept = suppress(moved, best, threshold, pixel, after)
        rois.append(torch.cat([moved.new_full((kept.numel(), 1), float(image)), moved[kept]], dim=1))
        kept_scores.append(best[kept])
    return torch.cat(rois), torch.cat(kept_scores)


def transform_boxes(
    rois: torch.Tensor, deltas: torch.Tensor, images: torch.Tensor, *,
    weights: tuple[float, ...], apply_scale: bool = True, pixel: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Move regions [R, 4 or 5] by deltas [R, 4 * classes], and clip them to their images [N, 3] (height, width, scale).

    Boxes are moved in the unscaled image, and multiplied by the scale with ``apply_scale``. Returns boxes
    [R, 4 * classes], and the number of each image's.
    """
    index = rois[:, 0].long() if rois.shape[1] > 4 else torch.zeros_like(rois[:, 0], dtype=torch.int64)
    counts = torch.bincount(index, minlength=images.shape[0])
    # Caffe2 counts the rows of each image and then takes the rows in order, whatever image they name.
    height, width, scale = (v.reshape(-1, 1) for v in images[torch.sort(index)[0]].unbind(1))
    height, width = torch.floor(height / scale + 0.5), torch.floor(width / scale + 0.5)
    scale = scale.unsqueeze(1)
    moved = move_boxes(rois[:, -4:].unsqueeze(1) / scale, deltas.unflatten(1, (-1, 4)), weights, pixel)
    moved = clip_boxes(moved, height, width, pixel)
    return (moved * scale if apply_scale else moved).reshape(deltas.shape), counts.float()


def limit_detections(
    scores: torch.Tensor, boxes: torch.Tensor, splits: torch.Tensor | None = None, *,
    threshold: float = 0.3, least: float = 0.05, limit: int = 100, pixel: float = 1.0, agnostic: bool = False,
    background_first: bool = True, first_class: int = 1,
    soft: tuple[str, float, float] | None = None,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """Choose the detections of each image: scores [R, classes] above the least, suppressed within their class.

    ``boxes`` are [R, 4 * classes], or [R, 4] for all classes with ``agnostic``; ``splits`` [N] has the rows of each
    image. Of an image the best of all classes are kept, up to the limit. ``soft`` has the method, the width and the
    least score of soft suppression. Returns scores [n], boxes [n, 4], classes [n], the detections of each image [N],
    the row of each detection [n], and detections by image and class.
    """
    scores, boxes = scores.reshape(scores.shape[:2]), boxes.reshape(boxes.shape[:2]).unflatten(1, (-1, 4))
    sizes = [scores.shape[0]] if splits is None else splits.long().tolist()
    no_rows = torch.zeros(0, dtype=torch.int64, device=scores.device)
    nothing = (scores.new_zeros(0), boxes.new_zeros((0, 4)), no_rows, no_rows)
    found, counts = [nothing], [no_rows]
    for own_scores, own_boxes in zip(scores.split(sizes), boxes.split(sizes), strict=True):
        parts = [nothing]
        for group in range(scores.shape[1] - 1):
            column = group + background_first
            candidates = (own_scores[:, column] > least).nonzero().flatten()
            of_class = own_boxes[candidates, 0 if agnostic else column]
            values = own_scores[candidates, column]
            if soft is None:
                rows = suppress(of_class, values, threshold, pixel, limit)
                values = values[rows]
            else:
                rows, values = suppress_softly(of_class, values, threshold, pixel, *soft)
            parts.append((values, of_class[rows], torch.full_like(rows, group), candidates[rows]))
        values, chosen, groups, rows = (torch.cat(part) for part in zip(*parts, strict=True))
        if 0 < limit < values.numel():
            kept = torch.sort(torch.sort(values, descending=True, stable=True)[1][:limit])[0]
            values, chosen, groups, rows = values[kept], chosen[kept], groups[kept], rows[kept]
        found.append((values, chosen, groups, rows))
        counts.append(torch.bincount(groups + 1, minlength=scores.shape[1]))
    values, chosen, groups, rows = (torch.cat(part) for part in zip(*found, strict=True))
    by_class = torch.cat(counts).reshape(-1, scores.shape[1]).int()
    return values, chosen, groups.float() + first_class, by_class.sum(1).float(), rows.int(), by_class


def collect_proposals(rois: list[torch.Tensor], scores: list[torch.Tensor], limit: int) -> torch.Tensor:
    """Return the best proposals [n, 5] of all levels, by descending score."""
    order = torch.sort(torch.cat([v.flatten() for v in scores]), descending=True, stable=True)[1]
    return torch.cat(rois)[order[:limit] if limit > 0 else order]


def distribute_proposals(
    rois: torch.Tensor, low: int, high: int, canonical_scale: int, canonical_level: int, pixel: float = 1.0
) -> tuple[torch.Tensor, ...]:
    """Return the regions [n, 5] of each level of a pyramid, by size, and the index of each in their concatenation.

    Regions [n, 4] are those of the first image.
    """
    rois = F.pad(rois, (1, 0)) if rois.shape[1] == 4 else rois
    sides = rois[:, -2:] - rois[:, -4:-2] + pixel
    ratio = torch.sqrt(sides.prod(1)) / canonical_scale + 1e-6
    level = torch.floor(torch.log(ratio) / math.log(2.0) + canonical_level).nan_to_num(nan=low).clamp(low, high)
    rows = [(level == number).nonzero().flatten() for number in range(low, high + 1)]
    return *(rois[each] for each in rows), torch.argsort(torch.cat(rows)).int()


def collect_and_distribute(
    rois: list[torch.Tensor], scores: list[torch.Tensor], limit: int, *,
    low: int, high: int, canonical_scale: int, canonical_level: int, pixel: float = 1.0,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """Return the best proposals of all levels, and what distribute_proposals makes of them."""
    best = collect_proposals(rois, scores, limit)
    return best, *distribute_proposals(best, low, high, canonical_scale, canonical_level, pixel)
