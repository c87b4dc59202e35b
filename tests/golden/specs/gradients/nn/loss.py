"""Gradients of losses: probabilities of 0, margins that are just reached, and arguments that exclude each other."""

from typing import Any

import numpy as np
from conformance.recording import Spec, case

Array = np.ndarray[Any, Any]


def floats(*values: Any) -> Array:
    return np.array(values, "float32")


def labels(*values: Any) -> Array:
    return np.array(values, "int32")


def gradient(kind: str, *inputs: Array, outputs: int = 1, **args: Any) -> Spec:
    names = {f"X{index}": value for index, value in enumerate(inputs)}
    return case(f"{kind}Gradient", names, outputs=[f"dX{index}" for index in range(outputs)], args=args)


P = floats([0, 1e-21, 0.5], [0.25, 1, 0.5])
X = floats([0, 100, -100, 1], [5, -5, 2, 3])
T = floats([1, 0, 1, 0.5], [0, 1, 0, 0.25])
SCORES = floats(1, 0.5, 0.25, 0.75, 0.5)
CASES = [
    gradient("CrossEntropy", P, floats([1, 0, 0.5], [0, 1, 2]), floats(2, 3)),
    gradient("CrossEntropy", P[:0], P[:0], floats()),
    gradient("LabelCrossEntropy", P, labels(0, 2), floats(2, 3)),
    gradient("LabelCrossEntropy", P, labels(1, 1), floats(2, 3)),
    gradient("LabelCrossEntropy", P, labels([0], [2]), floats(2, 3)),
    gradient("LabelCrossEntropy", P[1], labels(1), floats(2)),
    gradient("LabelCrossEntropy", P.reshape(1, 2, 3), labels(1), floats(2)),
    gradient("LabelCrossEntropy", P[:0], labels(), floats()),
    gradient("MakeTwoClass", floats([1, 2], [3, 5])),
    gradient("MakeTwoClass", floats([1, 2], [3, 5], [2, 2])),
    gradient("MakeTwoClass", floats(1, 5)),
    gradient("MakeTwoClass", floats([[1, 2], [3, 5]], [[0, 1], [2, 0]])),
    gradient("MakeTwoClass", np.zeros((0, 2), "float32")),
    *(
        gradient("SigmoidCrossEntropyWithLogits", dy, x, t, **args)
        for args in ({}, {"log_D_trick": 1}, {"unjoined_lr_loss": 1}, {"log_D_trick": 1, "unjoined_lr_loss": 1})
        for dy, x, t in (
            (floats(1, 2), X, T),
            (floats(1), X[1], T[1]),
            (np.array(1, "float32"), np.array(1, "float32"), np.array(0.5, "float32")),
            (floats(1, 2, 3, 4), X.reshape(2, 2, 2), T.reshape(2, 2, 2)),
        )
    ),
    gradient("WeightedSigmoidCrossEntropyWithLogits", floats(1, 2), X, T, X),
    gradient("WeightedSigmoidCrossEntropyWithLogits", floats(3), X[1], T[1], X[1]),
    *(
        gradient(
            "MarginRankingCriterion", floats(1, 1, 2, 3), floats(2, 2, 1, 1), sides, floats(2, 3, 4, 5), outputs=2,
            margin=1.0,
        )
        for sides in (labels(1, -1, 1, 0), labels(2, 1, -1, 1))
    ),
    *(
        gradient("CosineEmbeddingCriterion", SCORES, sides, floats(2, 3, 4, 5, 6), margin=0.5)
        for sides in (labels(1, 1, 0, -1, 0), labels(0, 0, 1, 2, 1))
    ),
    gradient("BernoulliJSD", floats(1, 2, 1, 1, 1), floats(0, 1, 0.5, 0.25, 0.75), floats(0.5, 0.5, 0, 0.5, 1)),
    gradient("BernoulliJSD", floats(1, 1, 1), floats(0, 0, 1), floats(0, 1, 0)),
]  # fmt: skip

CASES += [
    case(
        "LabelCrossEntropyGradient",
        {"X": np.zeros((0, 0), np.float32), "l": np.zeros(0, np.int32), "dY": np.zeros(0, np.float32)},
    ),
    # The lowest label has no opposite.
    gradient(
        "MarginRankingCriterion",
        floats(1, -0.5, 2),
        floats(0.5, 1, -1),
        labels(-(2**31), 2**31 - 1, -1),
        floats(2, 0.5, 3),
        outputs=2,
    ),
]
