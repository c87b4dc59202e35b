"""Regions of interest and keypoints: sampling, orders, regions at and beyond the borders."""

from __future__ import annotations

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, case, generator

FEATURES = generator(1).standard_normal((2, 3, 8, 10), dtype=np.float32)
BOXES = np.array(
    [
        [0, 1, 2, 6, 7],
        [1, -3, -2, 4, 3.5],
        [1, 5.5, 4.25, 30, 20],
        [0, 20, 20, 24, 26],
        [0, 3, 3, 3, 3],
        [1, 0, 0, 9, 7],
    ],
    np.float32,
)
TURNED = np.array(
    [
        [0, 4, 4, 6, 3, 0],
        [1, 2, 2, 8, 8, 45],
        [1, 9, 7, 5, 3, -30],
        [0, 30, 30, 4, 4, 10],
        [0, 3, 3, 0, 0, 80],
        [1, 5, 4, 10, 8, 180],
    ],
    np.float32,
)


def align(op_type: str, rois: Array, features: Array = FEATURES, **args: object) -> Spec:
    if args.get("order") == "NHWC":
        features = np.ascontiguousarray(features.transpose(0, 2, 3, 1))
    return case(op_type, {"X": features, "rois": rois}, args={"pooled_h": 3, "pooled_w": 2, **args})  # type: ignore[dict-item] # values of arguments


def keypoints(maps: Array, seed: int, **args: object) -> Spec:
    corner = generator(seed).uniform(0, 50, (len(maps), 2))
    boxes = np.concatenate([corner, corner + generator(seed + 1).uniform(0.2, 40, (len(maps), 2))], 1).astype(
        np.float32
    )
    return case("HeatmapMaxKeypoint", {"maps": maps, "boxes": boxes}, args=args)  # type: ignore[arg-type] # values of arguments


MAPS = generator(5).standard_normal((4, 5, 6, 6), dtype=np.float32)
CORNERS = np.zeros((4, 1, 5, 5), np.float32)
for number, (row, column) in enumerate(((0, 0), (0, 4), (4, 0), (4, 4))):
    CORNERS[number, 0, row, column] = 2
    CORNERS[number, 0, 2, 1:4] = (0.1, 0.7, 0.3)

CASES = [
    *(
        align(op_type, rois, order=order, sampling_ratio=samples, aligned=aligned, spatial_scale=0.5)
        for op_type, rois in (("RoIAlign", BOXES), ("RoIAlignRotated", TURNED))
        for order in ("NCHW", "NHWC")
        for samples in (0, 2)
        for aligned in (False, True)
    ),
    align("RoIAlign", BOXES),
    align("RoIAlign", BOXES[:, 1:], FEATURES[:1]),
    align("RoIAlign", BOXES[:0]),
    align("RoIAlignRotated", TURNED),
    align("RoIAlignRotated", TURNED[:, 1:], FEATURES[:1]),
    align("RoIAlignRotated", TURNED[:0]),
    align("RoIAlignRotated", TURNED[:0], order="NHWC"),
    align("RoIAlign", BOXES[:, :3]),
    keypoints(MAPS, 3),
    keypoints(MAPS, 3, should_output_softmax=1),
    keypoints(CORNERS, 4, should_output_softmax=1),
    keypoints(MAPS[:, :, :2, :2].copy(), 6),
    keypoints(np.ones((2, 3, 4, 4), np.float32), 7, should_output_softmax=1),
    keypoints(MAPS[:0], 8),
    keypoints(MAPS[:, :, :1, :1].copy(), 6),
    case("BatchPermutation", {"X": FEATURES, "indices": np.array([1, 0], np.int32)}),
    case("BatchPermutation", {"X": MAPS, "indices": np.array([3, 1, 2, 0], np.int32)}),
    case("BatchPermutation", {"X": MAPS[:0], "indices": np.zeros(0, np.int32)}),
    case("BatchPermutation", {"X": MAPS[:, 0, 0], "indices": np.array([3, 1, 2, 0], np.int32)}),
    # Integers beyond 32 bits.
    align("RoIAlign", BOXES, sampling_ratio=1 << 32),
    align("RoIAlignRotated", TURNED, pooled_h=(1 << 32) + 2),
]

BETWEEN = np.array([1.8, 0.4, np.inf, 0.4, np.inf, 0.9, -1.1, 1.1], np.float32).reshape(1, 2, 2, 2)
IMAGE = generator(50).standard_normal((2, 3, 5, 4), dtype="float32")[:, :2].copy()
IMAGE[0, 1, 2, 1] = np.inf
BOX = np.array([[0, 0, 4, 4]], np.float32)
PIXELS = (
    [100.0] * 9,  # of which the exponentials are infinite, or 0
    [-200.0] * 9,
    [*[88.0] * 8, 90.0],
    [1, 2, 3, 4, np.inf, 5, 6, 7, 8],
    [1, 2, 3, 4, -np.inf, 5, 6, 7, 8],
    [1, 2, 3, 9, -np.inf, 5, 6, 7, 8],
    [np.inf] * 9,
    [-np.inf] * 9,
    [1e38, -1e38, 1e30, 3e38, 1, 2, 3, 4, 5],
)

CASES += [
    # Samples between pixels by a rounding error, and samples outside of the image.
    case(
        "RoIAlignRotated",
        {"X": BETWEEN, "rois": np.zeros((1, 6), np.float32)},
        args={"pooled_h": 3, "sampling_ratio": 1},
    ),
    case(
        "RoIAlignRotated",
        {"X": BETWEEN, "rois": np.array([[0, 9, 9, 2, 2, 30]], np.float32)},
        args={"pooled_w": 2, "sampling_ratio": 1},
    ),
    *(
        case(
            "HeatmapMaxKeypoint",
            {"X": np.array(values, np.float32).reshape(1, 1, 3, 3), "boxes": BOX},
            args={"should_output_softmax": 1},
        )
        for values in PIXELS
    ),
    # Edges that are equal once half a pixel is subtracted: a region without samples.
    case(
        "RoIAlign",
        {"X": IMAGE, "R": np.array([[0, 1e-9, 2, 2e-9, 4], [1, 1, 0, 3, 1e-10], [0, 0, 0, 2, 3]], np.float32)},
        args={"aligned": 1, "pooled_w": 2},
    ),
]
