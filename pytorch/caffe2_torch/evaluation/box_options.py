"""Arguments of detection operators as those of the functions in :mod:`caffe2_torch.functions.boxes`."""

from __future__ import annotations

from typing import Any

from caffe2_bridge.netdef.views import Args
from caffe2_torch.evaluation.op import RefusedError


def pixel(args: Args) -> float:
    """Return what is added to a difference of coordinates to get a side."""
    return 1.0 if args.flag("legacy_plus_one", default=True) else 0.0


def proposal_options(args: Args) -> dict[str, Any]:
    """Return the options of ``generate_proposals``."""
    args.ignore("nms_thres", "correct_transform_coords", "angle_bound_on", "angle_bound_lo", "angle_bound_hi")
    args.ignore("clip_angle_thresh")
    return {
        "stride": 1 / args.number("spatial_scale", default=1 / 16),
        "before": args.integer("pre_nms_topN", default=6000),
        "after": args.integer("post_nms_topN", default=300),
        "threshold": args.number("nms_thresh", default=0.7),
        "least": args.number("min_size", default=16.0),
        "pixel": pixel(args),
    }


def transform_options(args: Args) -> dict[str, Any]:
    """Return the options of ``transform_boxes``."""
    args.ignore("correct_transform_coords", "angle_bound_on", "angle_bound_lo", "angle_bound_hi", "clip_angle_thresh")
    return {
        "weights": tuple(args.numbers("weights", default=(1.0,) * 4)),
        "apply_scale": args.flag("apply_scale", default=True),
        "pixel": pixel(args),
    }


def detection_options(args: Args) -> dict[str, Any]:
    """Return the options of ``limit_detections``."""
    if args.flag("rotated", default=False):
        raise RefusedError("non-maximum suppression of rotated boxes is not supported")
    method, soft = args.text("soft_nms_method", default="linear"), args.flag("soft_nms_enabled", default=False)
    sigma, lowest = (
        args.number(name, default=default)
        for name, default in (("soft_nms_sigma", 0.5), ("soft_nms_min_score_thres", 0.001))
    )
    if soft and method not in ("linear", "gaussian"):
        raise RefusedError(f"soft_nms_method must be linear or gaussian, not {method!r}")
    return {
        "threshold": args.number("nms", default=0.3),
        "least": args.number("score_thresh", default=0.05),
        "limit": args.integer("detections_per_im", default=100),
        "pixel": pixel(args),
        "agnostic": args.flag("cls_agnostic_bbox_reg", default=False),
        "background_first": args.flag("input_boxes_include_bg_cls", default=True),
        "first_class": 1 if args.flag("output_classes_include_bg_cls", default=True) else 0,
        "soft": (method, sigma, lowest) if soft else None,
    }


def collection_limit(args: Args, inputs: int) -> int:
    """Return the number of proposals to collect, of levels that have two inputs each."""
    low, high = args.integer("rpn_min_level", default=2), args.integer("rpn_max_level", default=6)
    if inputs != 2 * (high - low + 1):
        raise RefusedError(f"levels {low} to {high} require {2 * (high - low + 1)} inputs, not {inputs}")
    return args.integer("rpn_post_nms_topN", default=2000)


def distribution_options(args: Args, levels: int) -> dict[str, Any]:
    """Return the options of ``distribute_proposals`` to so many levels."""
    low, high = args.integer("roi_min_level", default=2), args.integer("roi_max_level", default=5)
    if high - low + 1 != levels:
        raise RefusedError(f"levels {low} to {high} do not have {levels} outputs of boxes")
    return {
        "low": low,
        "high": high,
        "canonical_scale": args.integer("roi_canonical_scale", default=224),
        "canonical_level": args.integer("roi_canonical_level", default=4),
        "pixel": pixel(args),
    }


def region_options(args: Args) -> dict[str, Any]:
    """Return the options of ``align_regions``."""
    options = {
        "height": args.integer("pooled_h", default=1),
        "width": args.integer("pooled_w", default=1),
        "scale": args.number("spatial_scale", default=1.0),
        "samples": max(args.integer("sampling_ratio", default=-1), 0),
        "aligned": args.flag("aligned", default=False),
    }
    if min(options["height"], options["width"]) < 1 or options["scale"] <= 0:
        raise RefusedError("pooled_h, pooled_w and spatial_scale must be positive")
    return options
