"""Converters of object-detection operators."""

from typing import Final

# The modules that define a family of converters; scripts/operators writes their index.
FAMILIES: Final = (
    "box_limit",
    "box_transform",
    "focal_loss",
    "fpn",
    "keypoint",
    "position_sensitive",
    "proposals",
    "roi_align",
    "roi_pool",
    "samples",
    "smooth_l1",
)
