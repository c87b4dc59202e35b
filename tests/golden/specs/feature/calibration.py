"""Tables of features: values that are hit and values outside the table, batches without rows."""

from __future__ import annotations

import numpy as np
from conformance.recording import case, generator

RANDOM = generator(14)
X = RANDOM.uniform(-3, 3, (9, 2)).astype("float32")
EMPTY = np.zeros((0, 2), np.float32)
PAIRS = np.array([[-2, 0.1], [0, 0.5], [1, 0.6], [-1, 0.2], [0.5, 0.9]], "float32")
HITS = np.concatenate([PAIRS[:2, [0, 0]], PAIRS[3:, [0, 0]], X]).astype("float32")
TABLE = {
    "percentile_raw": [-2.0, 0.0, 1.0, -1.0, 0.5],
    "percentile_mapping": [0.1, 0.5, 0.6, 0.2, 0.9],
    "percentile_lower": [0.05, 0.4, 0.55, 0.1, 0.85],
    "percentile_upper": [0.15, 0.45, 0.65, 0.3, 0.95],
    "lengths": [3, 2],
}
BOUNDS = np.array([-1, 0, 1, -2, -2, 2], "float32")
SLOPES = np.array([2, -3, 0.5, 4], "float32")
INTERCEPTS = np.array([1, 0, -1, 2], "float32")
ONE = {"bounds": [-1.0, 0.0, 1.0], "slopes": [2.0, -3.0], "intercepts": [1.0, 0.0], "binary": 1}

# Columns that are not sorted, or hold NaN, but for the last one: Caffe2 would read beyond that.
RAW = [1, 4, 2, 5, 3, 9, 2, 2, 0, 3, 7, 1, np.nan, 5, 8, 1, 2, 3]
SEARCHED = {
    "percentile_raw": [float(value) for value in RAW],
    "percentile_mapping": [i / 17 for i in range(18)],
    "percentile_lower": [(i * 5 % 18) / 17 for i in range(18)],
    "percentile_upper": [(i * 7 % 18) / 17 for i in range(18)],
    "lengths": [6, 5, 4, 3],
}
VALUES = np.repeat(np.append(np.arange(-1, 10.5, 0.25), [np.nan, np.inf, -np.inf])[:, None], 4, 1).astype("float32")

CASES = [
    *(case("Percentile", {"X": x, "P": PAIRS, "L": np.array([3, 2], "int32")}) for x in (HITS, EMPTY)),
    case("Percentile", {"X": HITS, "P": PAIRS, "L": np.array([5, 0], "int32")}),
    *(case("BisectPercentile", {"X": x}, args=TABLE) for x in (HITS, EMPTY)),
    case("BisectPercentile", {"X": HITS}, args={**TABLE, "lengths": [3, 3]}),
    *(
        case("PiecewiseLinearTransform", {"X": x, "bounds": BOUNDS, "slopes": SLOPES, "intercepts": INTERCEPTS})
        for x in (X, HITS, EMPTY)
    ),
    *(case("PiecewiseLinearTransform", {"X": x}, args=ONE) for x in (X, X[:, :1], X[:, 0], EMPTY)),
    case("PiecewiseLinearTransform", {"X": X}, args={**ONE, "bounds": [1.0, 0.0, 2.0]}),
    *(
        case("BatchBoxCox", {"X": x, "a": np.array([0, 2], dtype), "b": np.array([1, 4], dtype)})
        for dtype in ("float32", "float64")
        for x in (X.astype(dtype), EMPTY.astype(dtype))
    ),
    case(
        "ByteWeightDequant",
        {"W": np.array([[0, 128, 255, 3, 9]], "uint8")},
        args={"min": -1.0, "max": 2.0, "shape": [2, 2]},
    ),
    case("BisectPercentile", {"X": VALUES}, args=SEARCHED),
]
