"""Deviations of operators on images, boxes and regions."""

from __future__ import annotations

from typing import Final

from fuzz.exact.deviations.causes import is_not_finite, is_resized_otherwise
from fuzz.exact.deviations.deviation import Deviation
from fuzz.exact.deviations.images import (
    divides_by_nearly_zero,
    has_a_part_of_a_block,
    has_boxes_without_area,
    has_empty_regions,
    has_equal_scores,
    has_flat_boxes,
    has_other_columns,
    has_regions_elsewhere,
    has_regions_without_level,
    has_uncounted_sizes,
    has_windows_beyond,
    reflects_twice,
)
from fuzz.exact.deviations.unchecked import CONVOLUTIONS

IMAGES: Final = (
    Deviation(
        "a window of Caffe's legacy pooling that starts beyond the image, in which Caffe2 reads out of bounds, or an "
        "image that ends a stride before its first window",
        frozenset(f"{kind}Pool{dims}" for kind in ("Max", "Average", "Lp") for dims in ("", "1D", "2D", "3D"))
        | {"Int8MaxPool", "Int8AveragePool"}
        | frozenset(CONVOLUTIONS),
        has_windows_beyond,
        may_fail=True,
    ),
    Deviation(
        "as many pads of mode reflect as pixels, or more: Caffe2 reflects once at each end, then reads out of bounds",
        frozenset({"PadImage", "PadImageGradient"}),
        reflects_twice,
        may_fail=True,
    ),
    Deviation(
        "a number of images that is not a multiple of the pixels of a block, of which Caffe2 writes some over others",
        frozenset({"BatchToSpace"}),
        has_a_part_of_a_block,
        may_fail=True,
    ),
    Deviation(
        "a region of an image that does not exist, or one whose samples 32 bits do not count: Caffe2 reads out of "
        "bounds",
        frozenset(
            {"RoIAlign", "RoIAlignRotated", "RoIPool", "Int8RoIAlign", "RoIAlignGradient", "RoIAlignRotatedGradient"}
        ),
        has_regions_elsewhere,
        may_fail=True,
    ),
    Deviation(
        "a region without an area, of whose samples there are none: Caffe2 divides 0 by 0",
        frozenset({"RoIAlign"}),
        has_empty_regions,
    ),
    Deviation(
        "a region whose level is a NaN or not within 32 bits, of which Caffe2's vector instructions yield the lowest "
        "level, others the highest or none",
        frozenset({"DistributeFpnProposals", "CollectAndDistributeFpnRpnProposals"}),
        has_regions_without_level,
    ),
    Deviation(
        "proposals that do not have five columns, whose elements Caffe2 reads in rows of five",
        frozenset({"CollectRpnProposals", "CollectAndDistributeFpnRpnProposals"}),
        has_other_columns,
        may_fail=True,
    ),
    Deviation(
        "equal scores, or one that is not finite: an unstable sort decides which is first, and this what is suppressed",
        frozenset({"GenerateProposals", "GenerateProposalsCPP", "BoxWithNMSLimit"}),
        has_equal_scores,
    ),
    Deviation(
        "coordinates of boxes that are not finite, whose overlap is a NaN",
        frozenset({"GenerateProposals", "GenerateProposalsCPP", "BoxWithNMSLimit"}),
        is_not_finite,
    ),
    Deviation(
        "boxes without an area, or that end before they start: Caffe2 divides 0 by 0 where two areas add up to 0, and "
        "intersects those that end before they start with none",
        frozenset({"GenerateProposals", "GenerateProposalsCPP", "BoxWithNMSLimit"}),
        has_boxes_without_area,
    ),
    Deviation(
        "the size of an image beyond 32 bits, which Caffe2 casts to an integer",
        frozenset({"GenerateProposals", "GenerateProposalsCPP", "BBoxTransform"}),
        has_uncounted_sizes,
    ),
    Deviation(
        "rotated boxes without a width and height that coordinates resolve, of whose overlap rounding decides",
        frozenset({"GenerateProposals", "GenerateProposalsCPP", "BoxWithNMSLimit"}),
        has_flat_boxes,
    ),
    Deviation(
        "a gradient that does not have the sizes of the resized image, or a scale that is not positive",
        frozenset({"ResizeNearestGradient", "ResizeNearest3DGradient"}),
        is_resized_otherwise,
        may_fail=True,
    ),
    Deviation(
        "the result of an LpPool that is so small that a gradient divided by it is infinite: Caffe2 multiplies first",
        frozenset({"LpPoolGradient"}),
        divides_by_nearly_zero,
    ),
)
