"""Losses: labels and predictions that are not finite, the lowest label, no class."""

import numpy as np
from conformance.recording import case

INF, NAN = np.inf, np.nan
PIXELS = np.array([[[[0.2, 0.5]], [[0.3, 0.4]], [[0.5, 0.1]]]], np.float32)

CASES = [
    *(
        case("Perplexity", {"P": np.array(numbers, np.float32)})
        for numbers in ([-0.5], [-INF, 1, 1], [-0.5, 0.2], [0, INF], [0, 0.5])
    ),
    *(
        case(
            "CosineEmbeddingCriterion",
            {"S": np.array([-1, 0.5, NAN, NAN, INF, -INF], np.float32), "l": np.array([0, 0, 0, 1, 0, 0], np.int32)},
            args={"margin": margin},
        )
        for margin in (0.0, NAN, INF, -INF)
    ),
    # A pair of labels that are not finite counts, and the second label is the lower one; that of equal ones does not.
    *(
        case(
            "PairWiseLoss", {"X": np.array([*scores, 1, 2], np.float32), "l": np.array(labels, np.float32), **sessions}
        )
        for scores in ((0.5, -0.3, 0.2), (INF, 1, 2), (INF, INF, 2), (NAN, 1, 2), (1e38, -3e38, 2))
        for labels in ((INF, INF, 1, NAN, 2), (1, INF, INF, -INF, -INF), (1, 1, 3, 3, 2), (NAN, 2, 1, NAN, INF))
        for sessions in ({}, {"n": np.array([3, 2], np.int32)}, {"n": np.array([1, 4], np.int32)})
    ),
    # The lowest label has no opposite.
    case(
        "MarginRankingCriterion",
        {
            "X1": np.array([1, -0.5, 2], np.float32),
            "X2": np.array([0.5, 1, -1], np.float32),
            "Y": np.array([-(2**31), 2**31 - 1, -1], np.int32),
        },
        outputs=["loss"],
    ),
    case(
        "SpatialSoftmaxWithLoss",
        {"X": PIXELS, "label": np.array([[[0, 1]]], np.int32)},
        outputs=["P", "loss"],
        args={"scale": -1.0},
    ),
    # There may be no class where no pixel counts.
    *(
        case(
            "SpatialSoftmaxWithLoss",
            {"X": np.zeros((2, classes, 1, 3), np.float32), "label": np.full((2, 1, 3), -1, np.int32), **weights},
            outputs=["P", "loss"],
        )
        for classes in (0, 1)
        for weights in ({}, {"w": np.array([[[0.5, 1, 2]], [[1.5, 1, 0.25]]], np.float32)})
    ),
]
