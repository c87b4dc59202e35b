"""Boxes of detections, and features of regions."""

from __future__ import annotations

from caffe2_torch.evaluation.box_options import (
    collection_limit,
    detection_options,
    distribution_options,
    proposal_options,
    region_options,
    transform_options,
)
from caffe2_torch.source.emitters.image import oriented
from caffe2_torch.source.op import Family, FirstOfMany, Source, SourceOp, Unpacked

family = Family("detection")


@family.emits("BBoxTransform")
def transform(op: SourceOp) -> Source:
    if op.args.flag("rotated", default=False):
        op.refuse("rotated boxes are not supported")
    return FirstOfMany(op.call("transform_boxes", *op.operands, **transform_options(op.args)))


@family.emits("GenerateProposals", "GenerateProposalsCPP")
def proposals(op: SourceOp) -> Source:
    return Unpacked(op.call("generate_proposals", *op.operands, **proposal_options(op.args)))


@family.emits("BoxWithNMSLimit")
def box_with_nms_limit(op: SourceOp) -> Source:
    op.args.ignore("rotated")
    return FirstOfMany(op.call("limit_detections", *op.operands, **detection_options(op.args)))


def _levels(op: SourceOp) -> list[str]:
    """Return the lists of boxes and of scores of all levels, and how many boxes to keep."""
    limit, levels = collection_limit(op.args, op.count), op.count // 2
    return [f"[{', '.join(part)}]" for part in (op.operands[:levels], op.operands[levels:])] + [str(limit)]


@family.emits("CollectRpnProposals")
def collect(op: SourceOp) -> Source:
    return op.call("collect_proposals", *_levels(op))


@family.emits("DistributeFpnProposals")
def distribute(op: SourceOp) -> Source:
    options = distribution_options(op.args, op.output_count - 1)
    return Unpacked(op.call("distribute_proposals", op.x(0), **options))


@family.emits("CollectAndDistributeFpnRpnProposals")
def collect_and_distribute(op: SourceOp) -> Source:
    options = distribution_options(op.args, op.output_count - 2)
    return Unpacked(op.call("collect_and_distribute", *_levels(op), **options))


@family.emits("BatchPermutation")
def batch_permutation(op: SourceOp) -> Source:
    return f"{op.x(0)}[{op.index(1)}]"


@family.emits("RoIAlign")
def roi_align(op: SourceOp) -> Source:
    last = op.args.text("order", default="NCHW") == "NHWC"
    call = op.call("align_regions", "{x}", op.x(1), **region_options(op.args))
    return oriented(op.x(0), call, channels_last=last)
