"""What gives cases of operators on images cause to deviate: operands with which Caffe2 reads out of bounds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from conformance.corpus import Array

from caffe2_bridge.control import all_operators
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.netdef.window import window_argument
from fuzz.exact.deviations.causes import Arrays
from fuzz.exact.deviations.sizes import dims_known
from fuzz.exact.drawing.drawn import Drawn

_CAFFE_LEGACY_POOLING = 3


def has_windows_beyond(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the last window of Caffe's legacy pooling starts beyond the image, or the image ends before the first.

    Or, where there are no images, one that is larger than they would be.
    """
    operands = (pair for name in ("Pool", "Conv") for pair in _operators(drawn, name, 1))
    for op, (x, *_rest) in operands:
        if op.args.integer("legacy_pad", default=0) != _CAFFE_LEGACY_POOLING or x.ndim < 3:
            continue
        sizes = x.shape[1:-1] if op.args.text("order", default="NCHW") == "NHWC" else x.shape[2:]
        kernel, stride = (window_argument(op.args, name, 2) or [1] * len(sizes) for name in ("kernel", "stride"))
        pads = window_argument(op.args, "pad", 4) or [0] * len(sizes)
        if any(-(-(size - k) // max(s, 1)) * s >= size for size, k, s in zip(sizes, kernel, stride, strict=False)):
            return True
        if any(size + 2 * p - k <= -s for size, k, s, p in zip(sizes, kernel, stride, pads, strict=False)):
            return True
        if not x.size and any(size < k for size, k in zip(sizes, kernel, strict=False)):
            return True
    return False


def has_a_part_of_a_block(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the number of images is not a multiple of that of the pixels of a block."""
    return any(
        len(x) % max(op.args.integer("block_size", default=2), 1) ** 2
        for op, (x, *_rest) in _operators(drawn, "BatchToSpace", 1)
    )


def reflects_twice(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether pads of mode reflect have as many pixels as the image, or more."""
    for kind in ("PadImage", "PadImageGradient"):
        for op, (x, *_rest) in _operators(drawn, kind, 1):
            if op.args.text("mode", default="") != "reflect" or x.ndim != 4:
                continue
            sizes = x.shape[1:3] if op.args.text("order", default="NCHW") == "NHWC" else x.shape[2:]
            pads = (*window_argument(op.args, "pad", 4), 0, 0, 0, 0)[:4]
            if kind == "PadImageGradient":
                sizes = (sizes[0] - pads[0] - pads[2], sizes[1] - pads[1] - pads[3])
            if any(pad >= size for pad, size in zip(pads, sizes * 2, strict=True)):
                return True
    return False


def has_regions_elsewhere(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a region is of an image that does not exist, or so large or far away that its samples are not counted."""
    shapes = dims_known(drawn)
    for op in all_operators(NetView(drawn.net)):
        dims = shapes.get(op.inputs[0], ()) if op.inputs else ()
        rois = drawn.inputs.get(op.inputs[1]) if len(op.inputs) > 1 else None
        if "RoI" not in op.type or rois is None or rois.ndim != 2 or rois.dtype.kind != "f":
            continue
        scale = max(abs(op.args.number("spatial_scale", default=1.0)), 1.0)
        if rois.shape[1] < 4 or not (np.abs(rois[:, 1:]) * np.float64(scale) < 1e6).all():
            return True
        if dims and rois.shape[1] in (5, 6) and not ((rois[:, 0] > -1) & (rois[:, 0] < dims[0])).all():
            return True
    return False


def has_empty_regions(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a region has no width or no height once it is scaled, so that there are no samples in it."""
    for op, (_x, rois, *_rest) in _operators(drawn, "RoIAlign", 2):
        if rois.ndim != 2 or rois.shape[1] < 4 or rois.dtype.kind != "f":
            continue
        x1, y1, x2, y2 = (np.float32(op.args.number("spatial_scale", default=1.0)) * rois[:, -4:] - np.float32(0.5)).T
        if bool(((x1 == x2) | (y1 == y2)).any()):
            return True
    return False


def has_other_columns(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether proposals do not have five columns."""
    return any(
        array.ndim != 2 or array.shape[1] != 5
        for op, arrays in _operators(drawn, "RpnProposals", 2)
        for array in arrays[: len(op.inputs) // 2]
    )


def has_equal_scores(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether two scores are equal, or one is not finite."""
    return any(
        len(np.unique(scores)) < scores.size or not bool(np.isfinite(scores).all())
        for name in ("GenerateProposals", "BoxWithNMSLimit")
        for _op, (scores, *_rest) in _operators(drawn, name, 1)
    )


def has_boxes_without_area(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a box, or an anchor, from which boxes are made, has no area or ends before it starts."""
    for op, (*_rest, anchors) in _operators(drawn, "GenerateProposals", 4):
        pixel = op.args.integer("legacy_plus_one", default=1)
        if anchors.shape[1:] == (4,) and not bool((anchors[:, 2:] - anchors[:, :2] + pixel > 0).all()):
            return True
    for op, (_scores, boxes, *_rest) in _operators(drawn, "BoxWithNMSLimit", 2):
        if boxes.ndim < 2 or boxes.shape[1] % 4 or not boxes.size or op.args.integer("rotated", default=0):
            continue
        pixel = op.args.integer("legacy_plus_one", default=1)
        x1, y1, x2, y2 = np.moveaxis(boxes.reshape(len(boxes), -1, 4), 2, 0)
        if not bool(((x2 - x1 + pixel > 0) & (y2 - y1 + pixel > 0)).all()):
            return True
    return False


def has_flat_boxes(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the width or height of a rotated box, or of an anchor, is not positive, or lost where it lies."""
    boxes = [
        anchors for _op, (*_rest, anchors) in _operators(drawn, "GenerateProposals", 4) if anchors.shape[1:] == (5,)
    ]
    for op, (_scores, given, *_rest) in _operators(drawn, "BoxWithNMSLimit", 2):
        if op.args.integer("rotated", default=0) and given.ndim == 2 and not given.shape[1] % 5:
            boxes.append(given.reshape(-1, 5))
    # Corners are rounded to 24 bits of the largest coordinate, and the areas between them are products.
    lost = [np.abs(each[:, :4]).max(axis=1, keepdims=True, initial=0.0) * 2.0**-20 for each in boxes]
    return any(not bool((each[:, 2:4] > least).all()) for each, least in zip(boxes, lost, strict=True))


def has_uncounted_sizes(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the height or width of an image, scaled or not, is beyond 32 bits."""
    for op in all_operators(NetView(drawn.net)):
        info = drawn.inputs.get(op.inputs[2]) if len(op.inputs) > 2 else None
        if op.type in ("GenerateProposals", "GenerateProposalsCPP", "BBoxTransform") and info is not None:
            with np.errstate(all="ignore"):
                sizes = np.concatenate([info[:, :2], info[:, :2] / info[:, 2:]]) if info.ndim == 2 else info
            if not bool((np.abs(sizes) < 2**31).all()):
                return True
    return False


def has_regions_without_level(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the level of a region, before it is clipped, is a NaN or not within 32 bits."""
    for op in all_operators(NetView(drawn.net)):
        if op.type not in ("DistributeFpnProposals", "CollectAndDistributeFpnRpnProposals"):
            continue
        count = 1 if op.type == "DistributeFpnProposals" else len(op.inputs) // 2
        pixel = op.args.integer("legacy_plus_one", default=1)
        scale = np.float32(op.args.integer("roi_canonical_scale", default=224))
        canonical = op.args.integer("roi_canonical_level", default=4)
        for rois in (drawn.inputs.get(name) for name in op.inputs[:count]):
            if rois is None or rois.ndim != 2 or rois.shape[1] < 4:
                continue
            with np.errstate(all="ignore"):
                width, height = (rois[:, i - 2] - rois[:, i - 4] + pixel for i in (0, 1))
                level = np.log2(np.sqrt(width * height) / scale + np.float32(1e-6)) + canonical
            if not bool((np.abs(level) < 2**31).all()):
                return True
    return False


def divides_by_nearly_zero(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the gradient of an LpPool, divided by a power of the result, leaves the range though that is not 0."""
    for op, (_x, y, dy, *_rest) in _operators(drawn, "LpPoolGradient", 3):
        if y.shape != dy.shape:
            continue
        with np.errstate(all="ignore"):
            divisor = y ** np.float32(op.args.number("p", default=2.0) - 1)
            if bool((np.isinf(dy / divisor) & np.isfinite(dy) & (divisor != 0)).any()):
                return True
    return False


def _operators(drawn: Drawn, name: str, count: int) -> Iterator[tuple[OpView, list[Array]]]:
    """The operators with ``name`` in their types, at any depth, of which at least ``count`` operands are inputs."""
    for op in all_operators(NetView(drawn.net)):
        arrays = [drawn.inputs[each] for each in op.inputs if each in drawn.inputs]
        if name in op.type and len(op.inputs) >= count and all(each in drawn.inputs for each in op.inputs[:count]):
            yield op, arrays
