"""Histograms: elements on edges and outside, several operands, none at all, and both float types."""

from __future__ import annotations

import numpy as np
from conformance.recording import case, generator

RANDOM = generator(15)
VALUES = np.array([-5, -1, 0, 0.25, 0.5, 1, 1, 2, 9])
BOTH = ("values", "counts")

CASES = [
    *(
        case(
            "Histogram",
            {"A": VALUES.astype(t), "B": VALUES[:4].reshape(2, 2).astype(t)},
            args={"bin_edges": [-1.0, 0.0, 0.5, 2.0]},
        )
        for t in ("float32", "float64")
    ),
    case("Histogram", {"A": VALUES}, args={"bin_edges": [1.0]}),
    *(
        case("SelfBinningHistogram", {"A": x.astype(t)}, outputs=BOTH, args={"num_bins": 4, "bin_spacing": s, "abs": a})
        for t in ("float32", "float64")
        for x in (RANDOM.standard_normal((5, 4)), np.full(3, 2.5), np.zeros(2), np.zeros(0))
        for s in ("linear", "logarithmic")
        for a in (0, 1)
    ),
    case("AccumulateHistogram", {"X": VALUES.astype("float32")}, outputs=BOTH, args={"num_buckets": 3}),
    case("AccumulateHistogram", {"X": np.zeros((0, 2), np.float32)}, outputs=BOTH),
]
