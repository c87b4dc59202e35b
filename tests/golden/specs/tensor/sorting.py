"""Order: ties, other axes, short axes, empty operands, every type."""

from __future__ import annotations

import numpy as np
from conformance.recording import case, generator

RANDOM = generator(17)
X = RANDOM.integers(-3, 4, (3, 4, 5)).astype("float32")
THREE = ("values", "indices", "flat")

CASES = [
    *(
        case("TopK", {"X": X}, outputs=THREE, args={"k": k, "axis": axis})
        for k, axis in ((2, 0), (3, 1), (4, -1), (9, 1), (4, 0), (1, 2))
    ),
    case("TopK", {"X": X[:0]}, outputs=THREE, args={"k": 2}),
    case("TopK", {"X": X}, outputs=THREE, args={"k": 0}),
    *(case("FlexibleTopK", {"X": X, "k": RANDOM.integers(1, 6, 12)}, outputs=("values", "indices")) for _ in range(2)),
    *(
        case(kind, {"X": X.astype(t)}, args=args)
        for kind in ("ArgMax", "ArgMin")
        for t in ("float32", "float64", "int32", "int64")
        for args in ({}, {"axis": 0}, {"axis": 1, "keepdims": 0})
    ),
    case("ArgMax", {"X": X}, args={"axis": -2}),
    *(
        case(
            "Quantile",
            {"A": X.astype(t), "B": RANDOM.standard_normal(7).astype(t)},
            args={"quantile": q, "abs": a, "tol": 1e-4},
        )
        for t in ("float32", "float64")
        for q in (0.0, 0.25, 0.5, 0.9, 1.0)
        for a in (0, 1)
    ),
    case("Quantile", {"A": np.full(4, 2.0)}, args={"quantile": 0.5}),
    case("Quantile", {"A": X}, args={"quantile": 1.5}),
]
