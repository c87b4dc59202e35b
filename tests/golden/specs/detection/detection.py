"""Detection: boxes and what becomes of them, with every argument, images without boxes and batches."""

from __future__ import annotations

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, case, generator

INFO = np.array([[80, 100, 1.0], [60.4, 90.7, 2.0], [70, 70, 0.5]], np.float32)


def upright(seed: int, *shape: int, spread: float = 60, side: float = 40) -> Array:
    rng = generator(seed)
    corner = rng.uniform(0, spread, (*shape, 2))
    return np.concatenate([corner, corner + rng.uniform(2, side, (*shape, 2))], -1).astype(np.float32)


def rotated(seed: int, *shape: int, spread: float = 60, side: float = 40) -> Array:
    rng = generator(seed)
    parts = [
        rng.uniform(10, spread, (*shape, 2)),
        rng.uniform(3, side, (*shape, 2)),
        rng.uniform(-120, 120, (*shape, 1)),
    ]
    return np.concatenate(parts, -1).astype(np.float32)


def scores(seed: int, *shape: int) -> Array:
    """Return scores that all differ."""
    count = int(np.prod(shape))
    return ((generator(seed).permutation(count) + 1) / (count + 1)).reshape(shape).astype(np.float32)


def transform(dims: int, images: int, **args: object) -> Spec:
    seed = dims * 10 + images
    boxes = upright(seed, 9) if dims == 4 else rotated(seed, 9)
    if images > 1:
        boxes = np.concatenate([np.array([0, 0, 0, 0, 2, 2, 2, 2, 2], np.float32)[:, None], boxes], 1)
    deltas = generator(seed + 1).normal(0, 1.5, (9, dims * 3)).astype(np.float32)
    inputs = {"rois": boxes, "deltas": deltas, "info": INFO[:images]}
    return case("BBoxTransform", inputs, outputs=["boxes", "splits"], args={"rotated": dims == 5, **args})  # type: ignore[dict-item] # values of arguments


def limit(dims: int, splits: Array | None, seed: int = 0, rows: int = 12, classes: int = 4, **args: object) -> Spec:
    per_row = 1 if args.get("cls_agnostic_bbox_reg") else classes - (not args.get("input_boxes_include_bg_cls", True))
    boxes = (upright if dims == 4 else rotated)(seed + dims, rows, per_row, spread=30).reshape(rows, per_row * dims)
    inputs = {"scores": scores(seed + 5, rows, classes), "boxes": boxes}
    if splits is not None:
        inputs["splits"] = splits
    outputs = ["out_scores", "out_boxes", "out_classes", "out_splits", "keeps", "keep_sizes"]
    return case("BoxWithNMSLimit", inputs, outputs=outputs, args={"rotated": dims == 5, **args})  # type: ignore[dict-item] # values of arguments


def without_area() -> Spec:
    """Return a case of some boxes without a width or a height, which overlap nothing, not even each other."""
    boxes = upright(8, 12, 2, spread=30)
    boxes[::3, :, 2], boxes[1::4, :, 3] = boxes[::3, :, 0], boxes[1::4, :, 1]
    inputs = {"scores": scores(6, 12, 2), "boxes": boxes.reshape(12, -1)}
    return case(
        "BoxWithNMSLimit", inputs, outputs=["out_scores", "out_boxes", "out_classes"], args={"legacy_plus_one": 0}
    )


SPLITS = np.array([5, 0, 7], np.int32)

CASES = [
    *(transform(dims, images, apply_scale=scale) for dims in (4, 5) for images in (1, 3) for scale in (False, True)),
    transform(4, 3, weights=[10.0, 5.0, 2.0, 0.5], legacy_plus_one=0),
    transform(5, 3, weights=[10.0, 5.0, 2.0, 0.5], legacy_plus_one=0),
    transform(5, 1, angle_bound_lo=-180, angle_bound_hi=180, clip_angle_thresh=30.0),
    transform(5, 1, angle_bound_on=0, clip_angle_thresh=-1.0),
    transform(5, 1, angle_bound_lo=-100),
    transform(4, 1, weights=[1.0, 2.0]),
    *(
        limit(dims, splits, score_thresh=0.2, nms=nms, detections_per_im=most)
        for dims in (4, 5)
        for splits in (None, SPLITS, SPLITS.astype(np.float32))
        for nms, most in ((0.3, 100), (0.5, 4), (0.1, 0))
    ),
    *(
        limit(
            dims,
            SPLITS,
            seed,
            soft_nms_enabled=1,
            soft_nms_method=method,
            detections_per_im=most,
            score_thresh=0.1,
            soft_nms_min_score_thres=0.05,
        )
        for seed, dims in enumerate((4, 5))
        for method in ("linear", "gaussian")
        for most in (6, 100)
    ),
    *(limit(4, None, 3, soft_nms_enabled=1, soft_nms_method="gaussian", soft_nms_sigma=s, nms=0.6) for s in (0.1, 2.0)),
    *(
        limit(
            4,
            None,
            4,
            input_boxes_include_bg_cls=first,
            output_classes_include_bg_cls=out,
            cls_agnostic_bbox_reg=same,
            detections_per_im=most,
        )
        for first in (0, 1)
        for out in (0, 1)
        for same in (0, 1)
        for most in (5, 100)
    ),
    limit(4, None, 4, legacy_plus_one=0),
    limit(5, None, 4, legacy_plus_one=0, detections_per_im=3),
    limit(4, None, 4, nms=-0.5),
    limit(4, None, 4, nms=1.5),
    without_area(),
    limit(4, None, rows=0),
    limit(4, np.array([0], np.int32), rows=0),
    limit(5, None, rows=0),
    limit(4, None, score_thresh=2.0),
    limit(4, None, soft_nms_enabled=1, score_thresh=2.0),
    limit(4, None, soft_nms_method="hard"),
]

BOXES = {
    "scores": np.array([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]], np.float32),
    "boxes": np.tile(np.array([[0, 0, 9, 9], [20, 20, 30, 30], [1, 1, 9, 9]], np.float32), 2),
}
# Boxes that end before they start along one axis, or along both, among others.
FLIPPED = {
    "scores": np.stack([np.zeros(8), np.linspace(0.9, 0.2, 8)], axis=1).astype(np.float32),
    "boxes": np.tile(
        np.array(
            [
                [0, 9, 9, 1],
                [0, 0, 9, 9],
                [9, 0, 2, 9],
                [9, 9, 3, 0],
                [9, 9, 1, 2],
                [0, 8, 9, 1],
                [1, 0, 9, 9],
                [0, 0, 9, 4],
            ],
            np.float32,
        ),
        2,
    ),
}

CASES += [
    *(
        case("BoxWithNMSLimit", BOXES, outputs=["s", "b", "c"], args={"nms": nms, "score_thresh": 0.0})
        for nms in (float("nan"), -1.0, 0.0)
    ),
    *(
        case("BoxWithNMSLimit", FLIPPED, outputs=["s", "b", "c"], args={"nms": 0.1, "score_thresh": 0.0, **args})
        for args in ({}, {"legacy_plus_one": 0})
    ),
]
