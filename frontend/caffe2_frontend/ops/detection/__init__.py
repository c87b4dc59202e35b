"""Converters of object-detection operators."""

from typing import Final

# The modules that define a family of converters; scripts/operators writes their index.
FAMILIES: Final = (
    "box_limit",
    "box_transform",
    "fpn",
    "keypoint",
    "proposals",
    "roi_align",
    "roi_pool",
)
