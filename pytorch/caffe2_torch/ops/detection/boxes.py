"""Boxes of detections: transformed by predicted deltas, proposed, suppressed and limited."""

from __future__ import annotations

import torch

from caffe2_torch.evaluation.box_options import (
    collection_limit,
    detection_options,
    distribution_options,
    proposal_options,
    transform_options,
)
from caffe2_torch.evaluation.boxes import box_arguments, clipped, transformed
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions.boxes import (
    collect_and_distribute,
    collect_proposals,
    distribute_proposals,
    generate_proposals,
    limit_detections,
    transform_boxes,
)

family = Family("boxes")


@family.converts("BBoxTransform")
def bbox_transform(op: Op) -> tuple[Value, Value]:
    """Compute boxes in the coordinates of the unscaled image, and multiply them by the scale with apply_scale."""
    options = transform_options(op.args)
    if not op.args.flag("rotated", default=False):
        return transform_boxes(*op.tensors, **options)
    how = box_arguments(op)
    rois, deltas, info = op.tensors
    images = rois[:, 0].to(torch.int64) if rois.shape[1] > 5 else torch.zeros(rois.shape[0], dtype=torch.int64)
    counts = torch.bincount(images, minlength=info.shape[0])
    height, width, scale = (v.reshape(-1, 1) for v in info[torch.sort(images)[0]].unbind(1))
    height, width = torch.floor(height / scale + 0.5), torch.floor(width / scale + 0.5)
    factor = torch.cat([scale.expand(-1, 4), torch.ones_like(scale)], dim=1).unsqueeze(1)
    by_class = deltas.reshape(deltas.shape[0], deltas.shape[1] // 5, 5)
    moved = transformed(rois[:, -5:].unsqueeze(1) / factor, by_class, options["weights"], how)
    moved = clipped(moved, height, width, how)
    moved = moved * factor if options["apply_scale"] else moved
    return moved.reshape(deltas.shape), counts.to(torch.float32)


@family.converts("GenerateProposals", "GenerateProposalsCPP")
def proposals(op: Op) -> tuple[Value, Value]:
    if op.tensor(3).shape[1] == 5:
        op.refuse("non-maximum suppression of rotated boxes is not supported")
    return generate_proposals(*op.tensors, **proposal_options(op.args))


@family.converts("BoxWithNMSLimit")
def box_with_nms_limit(op: Op) -> tuple[Value, ...]:
    op.args.ignore("rotated")
    return limit_detections(*op.tensors, **detection_options(op.args))


@family.converts("CollectRpnProposals")
def collect(op: Op) -> Value:
    limit, levels = collection_limit(op.args, op.count), op.count // 2
    return collect_proposals(op.tensors[:levels], op.tensors[levels:], limit)


@family.converts("DistributeFpnProposals")
def distribute(op: Op) -> tuple[Value, ...]:
    return distribute_proposals(op.tensor(0), **distribution_options(op.args, op.output_count - 1))


@family.converts("CollectAndDistributeFpnRpnProposals")
def both(op: Op) -> tuple[Value, ...]:
    limit, levels = collection_limit(op.args, op.count), op.count // 2
    options = distribution_options(op.args, op.output_count - 2)
    return collect_and_distribute(op.tensors[:levels], op.tensors[levels:], limit, **options)


@family.converts("BatchPermutation")
def batch_permutation(op: Op) -> Value:
    return op.tensor(0)[op.tensor(1).to(torch.int64)]
