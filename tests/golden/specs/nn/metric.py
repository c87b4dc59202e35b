"""Metrics: ties, classes without rows, labels that are not 0 or 1, a buffer that is too small."""

from __future__ import annotations

import numpy as np
from conformance.recording import case, generator

SCORES = np.array([[0.5, 0.5, 0.1], [-1, -2, -3], [0.2, 0.7, 0.7], [0, 0, 0], [3, 1, 2]], np.float32)
LABELS = np.array([1, 0, 1, 2, 2], np.int32)

CASES = [
    *(case("Accuracy", {"X": SCORES, "label": LABELS}, outputs=["Y"], args={"top_k": k}) for k in (1, 2, 3, 5)),
    case("Accuracy", {"X": SCORES, "label": LABELS}, outputs=["Y"]),
    case("Accuracy", {"X": SCORES, "label": LABELS[:3]}, outputs=["Y"]),
    case("Accuracy", {"X": SCORES[:0], "label": LABELS[:0]}, outputs=["Y"]),
    case("MultiClassAccuracy", {"X": SCORES, "label": LABELS}, outputs=["accuracies", "amounts"]),
    case("MultiClassAccuracy", {"X": SCORES - 9, "label": LABELS}, outputs=["accuracies", "amounts"]),
    case("MultiClassAccuracy", {"X": SCORES, "label": LABELS * 0}, outputs=["accuracies", "amounts"]),
    case("MultiClassAccuracy", {"X": SCORES[:0], "label": LABELS[:0]}, outputs=["accuracies", "amounts"]),
    *(
        case(
            "APMeter",
            {
                "X": generator(n).integers(0, 4, (n, 2)).astype(np.float32),
                "label": generator(n + 50).integers(0, 3, (n, 2)).astype(np.int32),
            },
            outputs=["Y"],
            args=args,
        )
        for n in (1, 6, 9)
        for args in ({}, {"buffer_size": 6})
    ),
]
