"""Operands of other ranks and sizes, of which Caffe2 reads the first elements, or none; thresholds that no overlap is
within; boxes that end before they start; regions whose level is a NaN; and scalars that count as one row, or as none.
"""

from __future__ import annotations

import numpy as np
from conformance.corpus import Array
from conformance.recording import case, generator

rng = generator(11)
ROWS = rng.standard_normal((3, 2)).astype(np.float32)
PERMUTATION = np.array([2, 0, 1, 1, 2, 2], np.int32)
VALUES = rng.standard_normal(9).astype(np.float32)
LENGTHS = np.array([4, 2, 0, 3, 2, 1], np.int32)
SPLIT = np.arange(12, dtype=np.float32).reshape(4, 3)
PRESENCE = np.array([1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1], np.bool_)
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
# The four boxes that Caffe2's vector instructions take at once.
ROIS = np.array([[0, 0, 0, side, side] for side in (10, 200, 400, 50)], np.float32)
LEVELS = {"roi_min_level": 2, "roi_max_level": 4}

STATE = {"param": 2.0, "moment": 0.1, "delta": 0.2}
OPTIMIZERS: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("SparseAdagrad", "param moment indices grad lr", {}),
    ("SparseAdadelta", "param moment delta indices grad lr", {}),
    ("SparseStorm", "param moment delta grad indices lr", {}),
    ("SparseWngrad", "param moment indices grad lr", {}),
    ("SparseNormalize", "param indices", {}),
    ("SparseLpRegularizer", "param indices", {}),
    ("EnsureClipped", "param indices grad", {"max": 1.0}),
)


def scalars(order: str, indices: list[int]) -> dict[str, Array]:
    """Operands of an optimizer of which all tables are scalars."""
    given = {name: np.array(value, np.float32) for name, value in STATE.items()}
    given |= {"grad": VALUES[: len(indices)], "lr": np.array([0.01], np.float32)}
    return {name: given[name] if name in given else np.array(indices, np.int64) for name in order.split()}


CASES = [
    case("BatchPermutationGradient", {"i": PERMUTATION[:4], "dY": ROWS}),
    *(
        case("BatchPermutationGradient", {"i": PERMUTATION[: np.prod(shape)].reshape(shape), "dY": ROWS})
        for shape in ((3, 2), (1, 3), (3, 1, 1))
    ),
    *(
        case(
            "LengthsTopK",
            {"X": VALUES, "L": LENGTHS[: np.prod(shape)].reshape(shape)},
            outputs=["Y", "I"],
            args={"k": 3},
        )
        for shape in ((1, 4), (4, 1), (3, 2))
    ),
    *(
        case(
            "MergeDenseFeatureTensors",
            {"X": np.arange(np.prod(x), dtype=np.float32).reshape(x), "P": PRESENCE[: np.prod(p)].reshape(p)},
            outputs=["L", "K", "V"],
            args={"feature_ids": [7, 5]},
        )
        for x, p in (((3, 2, 2), (3, 2, 2)), ((3, 2), (3, 2, 2)), ((3, 2, 2), (3, 2)), ((3, 2), (6,)))
    ),
    *(
        case(
            "Int8RoIAlign",
            {"X": rng.integers(0, 256, (1, 3, 3, 2)).astype(np.uint8), "R": np.zeros(shape, np.float32)},
            quantized={"X": (0.05, 121)},
        )
        for shape in ((2, 0), (0, 4))
    ),
    *(
        case("BoxWithNMSLimit", BOXES, outputs=["s", "b", "c"], args={"nms": nms, "score_thresh": 0.0})
        for nms in (float("nan"), -1.0, 0.0)
    ),
    *(
        case("BoxWithNMSLimit", FLIPPED, outputs=["s", "b", "c"], args={"nms": 0.1, "score_thresh": 0.0, **args})
        for args in ({}, {"legacy_plus_one": 0})
    ),
    *(
        case(
            "DistributeFpnProposals",
            {"rois": ROIS},
            outputs=["a", "b", "c", "i"],
            args={"roi_canonical_scale": scale, **LEVELS},
        )
        for scale in (-100, 100)
    ),
    case(
        "LabelCrossEntropyGradient",
        {"X": np.zeros((0, 0), np.float32), "l": np.zeros(0, np.int32), "dY": np.zeros(0, np.float32)},
    ),
    case("ReduceTailSum", {"X": np.array(3, np.float32)}),
    *(
        case("LengthsSplit", {"L": np.array([7, 3], np.int32), "n": np.array([count])})
        for count in (np.int8(2), np.int64(3), np.bool_(1))
    ),
    *(
        case(kind, arrays, outputs=[name for name in arrays if name in STATE], args=args)
        for kind, order, args in OPTIMIZERS
        for indices in ([0], [0, 0])
        for arrays in [scalars(order, indices)]
    ),
    *(
        case(kind, {"X": SPLIT, "n": np.array(lengths, np.int32)}, outputs=["a", "b"], args={"axis": 0})
        for kind, lengths in (
            ("Split", [[1, 3]]),
            ("Split", [[1], [3]]),
            ("SplitByLengths", [[1], [3]]),
            ("SplitByLengths", [[3, 1], [1, 9]]),
        )
    ),
    case("Split", {"X": SPLIT, "n": np.array(4, np.int32)}, outputs=["a"], args={"axis": 0}),
]
