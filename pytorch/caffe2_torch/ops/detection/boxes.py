"""Boxes of detections: transformed by predicted deltas, proposed, suppressed and limited."""

from __future__ import annotations

import math

import torch

from caffe2_torch.evaluation.boxes import box_arguments, clipped, overlaps, suppress, transformed
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("boxes")


@family.converts("BBoxTransform")
def bbox_transform(op: Op) -> tuple[Value, Value]:
    """Compute boxes in the coordinates of the unscaled image, and multiply them by the scale with apply_scale."""
    op.args.ignore("correct_transform_coords")
    weights = op.args.numbers("weights", default=(1.0,) * 4)
    how = box_arguments(op, rotated=op.args.flag("rotated", default=False))
    apply_scale = op.args.flag("apply_scale", default=True)
    rois, deltas, info = op.tensors
    images = rois[:, 0].to(torch.int64) if rois.shape[1] > how.dims else torch.zeros(rois.shape[0], dtype=torch.int64)
    # Caffe2 counts the rows of each image and then takes the rows in order, whatever image they name.
    counts = torch.bincount(images, minlength=info.shape[0])
    height, width, scale = (v.reshape(-1, 1) for v in info[torch.sort(images)[0]].unbind(1))
    height, width = torch.floor(height / scale + 0.5), torch.floor(width / scale + 0.5)
    boxes = rois[:, -how.dims :].unsqueeze(1)
    factor = torch.cat([scale.expand(-1, 4), torch.ones_like(scale)], dim=1)[:, : how.dims].unsqueeze(1)
    by_class = deltas.reshape(deltas.shape[0], deltas.shape[1] // how.dims, how.dims)
    moved = clipped(transformed(boxes / factor, by_class, weights, how), height, width, how)
    moved = moved * factor if apply_scale else moved
    return moved.reshape(deltas.shape), counts.to(torch.float32)


@family.converts("GenerateProposals", "GenerateProposalsCPP")
def generate_proposals(op: Op) -> tuple[Value, Value]:
    op.args.ignore("nms_thres", "correct_transform_coords")
    scores, deltas, info, anchors = op.tensors
    how = box_arguments(op, rotated=anchors.shape[1] == 5)
    stride = 1 / op.args.number("spatial_scale", default=1 / 16)
    before, after = op.args.integer("pre_nms_topN", default=6000), op.args.integer("post_nms_topN", default=300)
    threshold, least = op.args.number("nms_thresh", default=0.7), op.args.number("min_size", default=16.0)
    count, height, width = scores.shape[1:]
    pixel = torch.arange(height * width)
    x, y = (pixel % width).to(torch.float32) * stride, (pixel // width).to(torch.float32) * stride
    zero = torch.zeros_like(x)
    shift = torch.stack([x, y, zero, zero, zero] if how.rotated else [x, y, x, y], dim=1)
    every = (anchors.unsqueeze(1) + shift).reshape(-1, how.dims)
    rois, kept_scores = [], []
    for image in range(scores.shape[0]):
        moves = deltas[image].reshape(count, how.dims, -1).transpose(1, 2).reshape(-1, how.dims)
        best, order = torch.sort(scores[image].reshape(-1), descending=True, stable=True)
        best, order = (v[:before] if before > 0 else v for v in (best, order))
        moved = transformed(every[order], moves[order], (1.0,) * 4, how)
        own = info[image]
        # Caffe2 clips to the integer size of the image, but compares centers with the real one.
        moved = clipped(moved, torch.trunc(own[0]), torch.trunc(own[1]), how)
        sides = moved[:, 2:4] if how.rotated else moved[:, 2:] - moved[:, :2] + how.pixel
        center = moved[:, :2] if how.rotated else moved[:, :2] + sides / 2
        good = (sides >= least * own[2]).all(1) & (center < own[:2].flip(0)).all(1)
        moved, best = moved[good], best[good]
        kept = suppress(op, moved, best, threshold, how.pixel, after)
        rois.append(torch.cat([torch.full((kept.numel(), 1), float(image)), moved[kept]], dim=1))
        kept_scores.append(best[kept])
    return torch.cat(rois), torch.cat(kept_scores)


@family.converts("BoxWithNMSLimit")
def box_with_nms_limit(op: Op) -> tuple[Value, ...]:
    scores, boxes = (x.reshape(x.shape[:2]) for x in op.tensors[:2])
    args = op.args
    if args.flag("rotated", default=False):
        op.refuse("non-maximum suppression of rotated boxes is not supported")
    first_class = 1 if args.flag("output_classes_include_bg_cls", default=True) else 0
    splits = op.tensor(2).to(torch.int64).tolist() if op.has(2) else [scores.shape[0]]
    results = [
        _image(op, own, own_boxes)
        for own, own_boxes in zip(torch.split(scores, splits), torch.split(boxes, splits), strict=True)
    ]
    found = [torch.cat(parts) for parts in list(zip(*results, strict=True))[:4]]
    counts = torch.stack([result[4] for result in results])
    totals = torch.tensor([float(result[0].shape[0]) for result in results])
    return found[0], found[1], found[2] + first_class, totals, found[3].to(torch.int32), counts.to(torch.int32)


def _image(op: Op, scores: torch.Tensor, boxes: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return scores, boxes, foreground classes and rows of the detections of an image, and their number by class."""
    args = op.args
    least, maximum = args.number("score_thresh", default=0.05), args.integer("detections_per_im", default=100)
    agnostic = args.flag("cls_agnostic_bbox_reg", default=False)
    background_first = args.flag("input_boxes_include_bg_cls", default=True)
    classes = scores.shape[1] - 1
    # What the suppression reads is read also where there is nothing to suppress.
    _suppression(op)
    by_class = boxes.reshape(boxes.shape[0], boxes.shape[1] // 4, 4)
    kept: list[tuple[float, int, int]] = []
    for index in range(classes):
        own = scores[:, index + background_first]
        column = 0 if agnostic else index + background_first
        candidates = (own > least).nonzero().reshape(-1)
        chosen = _selected(op, by_class[candidates, column], own[candidates], maximum)
        kept += [(value, index, int(candidates[row])) for row, value in zip(*chosen, strict=True)]
    if 0 < maximum < len(kept):
        best = sorted(range(len(kept)), key=lambda i: -kept[i][0])[:maximum]
        kept = [kept[i] for i in sorted(best)]
    rows = torch.tensor([row for _, _, row in kept], dtype=torch.int64)
    groups = torch.tensor([index for _, index, _ in kept], dtype=torch.int64)
    columns = torch.zeros_like(groups) if agnostic else groups + background_first
    counts = torch.bincount(groups + 1, minlength=classes + 1)
    values = torch.tensor([value for value, _, _ in kept], dtype=torch.float32)
    return values, by_class[rows, columns], groups.to(torch.float32), rows, counts


def _suppression(op: Op) -> tuple[float, float, str, float, float]:
    """Return the arguments of suppression: overlap, pixel of sides, and the method, width and least score if soft."""
    args = op.args
    args.ignore("soft_nms_enabled")
    return (
        args.number("nms", default=0.3),
        1.0 if args.flag("legacy_plus_one", default=True) else 0.0,
        args.text("soft_nms_method", default="linear"),
        args.number("soft_nms_sigma", default=0.5),
        args.number("soft_nms_min_score_thres", default=0.001),
    )


def _selected(op: Op, boxes: torch.Tensor, scores: torch.Tensor, maximum: int) -> tuple[list[int], list[float]]:
    """Return the rows that suppression keeps, and their scores, which soft suppression lowers."""
    threshold, pixel, method, sigma, lowest = _suppression(op)
    if not op.args.flag("soft_nms_enabled", default=False):
        kept = suppress(op, boxes, scores, threshold, pixel, maximum)
        return kept.tolist(), scores[kept].tolist()
    if method not in ("linear", "gaussian"):
        op.refuse(f"soft_nms_method must be linear or gaussian, not {method!r}")
    area = (boxes[:, 2] - boxes[:, 0] + pixel) * (boxes[:, 3] - boxes[:, 1] + pixel)
    left, now = list(range(scores.shape[0])), scores.clone()
    rows, values = [], []
    while left:
        best = left[int(torch.argmax(now[left]))]
        rows.append(best)
        values.append(float(now[best]))
        others = torch.tensor([row for row in left if row != best], dtype=torch.int64)
        overlap = overlaps(boxes, area, best, others, pixel)
        if method == "linear":
            weight = torch.where(overlap > threshold, 1.0 - overlap, torch.ones_like(overlap))
        else:
            weight = torch.exp(-(overlap**2) / sigma)
        now[others] = now[others] * weight
        left = others[now[others] >= lowest].tolist()
    return rows, values


@family.converts("CollectRpnProposals")
def collect(op: Op) -> Value:
    return _collected(op)


def _collected(op: Op) -> torch.Tensor:
    """Return the best proposals of all levels, by descending score."""
    low, high = op.args.integer("rpn_min_level", default=2), op.args.integer("rpn_max_level", default=6)
    maximum, levels = op.args.integer("rpn_post_nms_topN", default=2000), high - low + 1
    if op.count != 2 * levels:
        op.refuse(f"levels {low} to {high} require {2 * levels} inputs, not {op.count}")
    rois, scores = torch.cat(op.tensors[:levels]), torch.cat([v.reshape(-1) for v in op.tensors[levels:]])
    order = torch.sort(scores, descending=True, stable=True)[1]
    return rois[order[:maximum] if maximum > 0 else order]


def _distributed(op: Op, rois: torch.Tensor, others: int) -> tuple[Value, ...]:
    """Return the boxes of each level, and the index of each box in the concatenation of the levels."""
    low, high = op.args.integer("roi_min_level", default=2), op.args.integer("roi_max_level", default=5)
    if high - low + 1 != op.output_count - others:
        op.refuse(f"levels {low} to {high} do not have {op.output_count} outputs")
    scale = op.args.integer("roi_canonical_scale", default=224)
    canonical = op.args.integer("roi_canonical_level", default=4)
    pixel = 1.0 if op.args.flag("legacy_plus_one", default=True) else 0.0
    sides = rois[:, -2:] - rois[:, -4:-2] + pixel
    ratio = torch.sqrt(sides.prod(1)) / scale + 1e-6
    level = torch.floor(torch.log(ratio) / math.log(2.0) + canonical).nan_to_num(nan=low).clamp(low, high)
    rows = [(level == number).nonzero().reshape(-1) for number in range(low, high + 1)]
    restore = torch.argsort(torch.cat(rows))
    return *(rois[each] for each in rows), restore.to(torch.int32)


@family.converts("DistributeFpnProposals")
def distribute(op: Op) -> tuple[Value, ...]:
    rois = op.tensor(0)
    if rois.shape[1] == 4:
        rois = torch.cat([rois.new_zeros((rois.shape[0], 1)), rois], dim=1)
    return _distributed(op, rois, 1)


@family.converts("CollectAndDistributeFpnRpnProposals")
def collect_and_distribute(op: Op) -> tuple[Value, ...]:
    rois = _collected(op)
    return rois, *_distributed(op, rois, 2)


@family.converts("BatchPermutation")
def batch_permutation(op: Op) -> Value:
    return op.tensor(0)[op.tensor(1).to(torch.int64)]
