"""Converters of object-detection operators."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.detection import (
    box_limit,
    box_transform,
    fpn,
    keypoint,
    proposals,
    roi_align,
    roi_pool,
)

FAMILIES: tuple[Family, ...] = (
    box_limit.family,
    box_transform.family,
    fpn.family,
    keypoint.family,
    proposals.family,
    roi_align.family,
    roi_pool.family,
)
