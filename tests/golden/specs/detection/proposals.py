"""Proposals: region proposals of one and of several images, and their way through a feature pyramid."""

from __future__ import annotations

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, case, generator

INFO = np.array([[70.6, 90.2, 1.0], [60, 80, 1.5], [70, 70, 0.5]], np.float32)
UPRIGHT = np.array([[-8, -8, 8, 8], [-12, -6, 12, 6], [-4, -10, 6, 12]], np.float32)
ROTATED = np.array([[0, 0, 16, 16, 0], [1, 2, 24, 12, 30], [0, 1, 10, 22, -60]], np.float32)


def scores(seed: int, *shape: int) -> Array:
    """Return scores that all differ."""
    count = int(np.prod(shape))
    return ((generator(seed).permutation(count) + 1) / (count + 1)).reshape(shape).astype(np.float32)


def generate(
    anchors: Array, images: int, size: tuple[int, int] = (4, 5), kind: str = "GenerateProposals", **args: object
) -> Spec:
    count, dims = anchors.shape
    inputs = {
        "scores": scores(images, images, count, *size),
        "deltas": generator(7).normal(0, 0.6, (images, count * dims, *size)).astype(np.float32),
        "info": INFO[:images],
        "anchors": anchors,
    }
    return case(kind, inputs, outputs=["rois", "probs"], args={"min_size": 4.0, "spatial_scale": 1 / 16, **args})  # type: ignore[dict-item] # values of arguments


def rois(seed: int, rows: int, columns: int = 5) -> Array:
    rng = generator(seed)
    corner = rng.uniform(0, 300, (rows, 2))
    boxes = np.concatenate([rng.integers(0, 2, (rows, 1)), corner, corner + rng.exponential(150, (rows, 2))], 1)
    return boxes[:, 5 - columns :].astype(np.float32)


def collect(kind: str, outputs: list[str], rows: tuple[int, ...], **args: object) -> Spec:
    all_scores = np.split(scores(3, sum(rows)), np.cumsum(rows)[:-1])
    inputs = {f"rois{i}": rois(i, n) for i, n in enumerate(rows)} | {f"score{i}": s for i, s in enumerate(all_scores)}
    args = {"rpn_min_level": 3, "rpn_max_level": 2 + len(rows), "rpn_post_nms_topN": 12, **args}
    return case(kind, inputs, outputs=outputs, args=args)  # type: ignore[arg-type] # values of arguments


CASES = [
    *(
        generate(anchors, images, pre_nms_topN=before, post_nms_topN=after, nms_thresh=0.4)
        for anchors in (UPRIGHT, ROTATED)
        for images in (1, 3)
        for before, after in ((6000, 300), (25, 6), (0, 0))
    ),
    *(generate(anchors, 2, legacy_plus_one=0) for anchors in (UPRIGHT, ROTATED)),
    generate(ROTATED, 2, angle_bound_on=0, clip_angle_thresh=45.0),
    generate(ROTATED, 2, angle_bound_lo=-180, angle_bound_hi=180),
    generate(UPRIGHT, 1, min_size=1000.0),
    generate(ROTATED, 1, min_size=1000.0),
    generate(UPRIGHT, 1, nms_thresh=1.0),
    generate(UPRIGHT, 2, kind="GenerateProposalsCPP"),
    generate(UPRIGHT[:, :3], 1),
    *(
        collect(kind, outputs, rows, **args)
        for rows in ((9, 7, 5), (3, 0, 2))
        for kind, outputs, args in (
            ("CollectRpnProposals", ["rois"], {}),
            ("CollectAndDistributeFpnRpnProposals", ["rois", "fpn2", "fpn3", "fpn4", "fpn5", "restore"], {}),
            (
                "CollectAndDistributeFpnRpnProposals",
                ["rois", "fpn2", "fpn3", "fpn4", "fpn5", "restore"],
                {"legacy_plus_one": 0},
            ),
        )
    ),
    *(
        case(
            "DistributeFpnProposals",
            {"rois": rois(9, rows, columns)},
            outputs=["fpn2", "fpn3", "fpn4", "fpn5", "restore"],
            args={"roi_canonical_scale": 200},
        )
        for rows, columns in ((20, 5), (20, 4), (0, 5), (1, 5))
    ),
    case(
        "DistributeFpnProposals",
        {"rois": rois(9, 3)},
        outputs=["fpn2", "restore"],
        args={"roi_min_level": 3, "roi_max_level": 2},
    ),
]


# The four boxes that Caffe2's vector instructions take at once.
ROIS = np.array([[0, 0, 0, side, side] for side in (10, 200, 400, 50)], np.float32)
LEVELS = {"roi_min_level": 2, "roi_max_level": 4}
ANCHORS = np.array([[0, 0, 15, 15], [2, 2, 20, 24], [5, 5, 9, 9]], np.float32)
TURNED_ANCHORS = np.array([[8, 8, 16, 16, 0], [10, 10, 20, 24, 30], [7, 7, 5, 5, -60]], np.float32)
IMAGE_SIZE = np.array([[80, 90, 1]], np.float32)
DELTAS = generator(51).normal(0, 0.3, (1, 15, 2, 5)).astype(np.float32)


def scores_with_lowest(place: int) -> Array:
    scores = generator(52).permutation(np.linspace(0.01, 0.99, 30)).astype(np.float32)
    scores[place] = -np.inf
    return scores.reshape(1, 3, 2, 5)


CASES += [
    *(
        case(
            "DistributeFpnProposals",
            {"rois": ROIS},
            outputs=["a", "b", "c", "i"],
            args={"roi_canonical_scale": scale, **LEVELS},
        )
        for scale in (-100, 100)
    ),
    # A score that is a negative infinity comes last, and is kept.
    *(
        case(
            "GenerateProposals",
            {"s": scores_with_lowest(place), "d": DELTAS[:, : anchors.size], "i": IMAGE_SIZE, "a": anchors},
            outputs=["rois", "probs"],
            args={"nms_thresh": threshold, "post_nms_topN": 0},
        )
        for anchors in (ANCHORS, TURNED_ANCHORS)
        for place in (0, 17, 29)
        for threshold in (0.1, 0.6)
    ),
    # All proposals remain; of them the second output holds one level's.
    *(
        collect(kind, outputs, (3,) * 5, rpn_post_nms_topN=most)
        for kind, outputs, counts in (
            ("CollectRpnProposals", ["rois"], (0, -1, 4)),
            ("CollectAndDistributeFpnRpnProposals", ["rois", "fpn2", "fpn3", "fpn4", "fpn5", "restore"], (0, -1)),
        )
        for most in counts
    ),
]
