"""Categories: boundaries that are hit, indices that repeat, and widths and types that the recording lacks."""

from __future__ import annotations

import numpy as np
from conformance.recording import case, generator

RANDOM = generator(13)
GRID = RANDOM.integers(-3, 4, (7, 3)).astype("float32")
BOUNDARIES = np.array([-2, 0, 0, 1, -1, -3, -3, -3, 2], "float32")
LENGTHS = np.array([4, 1, 4], "int32")
EMPTY = np.zeros((0, 3), np.float32)


def ints(*values: int, dtype: str = "int64") -> np.ndarray:
    return np.array(values, dtype)


CASES = [
    *(case("OneHot", {"I": ints(2, 0, 2), "n": n}) for n in (ints(4), np.array(3))),
    *(
        case("SegmentOneHot", {"L": ints(*lengths, dtype="int32"), "I": ints(*i), "n": np.array(5)})
        for lengths, i in (((2, 0, 3), (4, 0, 1, 1, 2)), ((0, 0), ()), ((), ()))
    ),
    *(
        case(
            "BatchOneHot",
            {
                "X": RANDOM.integers(0, 4, (rows, 3)).astype(dtype),
                "L": ints(2, 0, 3, dtype="int32"),
                "V": ints(0, 2, 1, 3, 1, dtype=dtype),
            },
        )
        for rows in (5, 0)
        for dtype in ("int32", "int64")
    ),
    *(case("Bucketize", {"X": x}, args={"boundaries": [-2.0, 0.0, 0.0, 1.0]}) for x in (GRID, EMPTY, GRID[0])),
    case("Bucketize", {"X": GRID}, args={"boundaries": [1.0, 0.0]}),
    *(
        case("BatchBucketize", {"X": x, "I": ints(2, 0, 2, dtype="int32"), "B": BOUNDARIES, "L": LENGTHS})
        for x in (GRID, EMPTY)
    ),
    *(case("BatchBucketOneHot", {"X": x, "L": LENGTHS, "B": BOUNDARIES}) for x in (GRID, EMPTY)),
    *(
        case(
            "IndexHash", {"X": RANDOM.integers(low, high, (3, 4)).astype(dtype)}, args={"seed": seed, "modulo": modulo}
        )
        for low, high, dtype in ((-(2**31), 2**31, "int32"), (-(2**62), 2**62, "int64"), (0, 1000, "int64"))
        for seed, modulo in ((0, 7), (-5, 1000), (12345678901, 2**31 - 1))
    ),
    *(case("IndexHash", {"X": np.zeros(d, int)}, args={"seed": 1, "modulo": 9}) for d in ((0,), (2, 0), (0, 2), ())),
    case("IndexHash", {"X": ints(1)}, args={"seed": 1, "modulo": 0}),
    *(
        case(
            "NGramFromCategorical",
            {"X": np.array([[0.5, 1.5, 9], [2.5, -0.5, 9], [-1.5, 0.49999997, 9], [3, 7, 9]], "float32")},
            args={"col_ids": [1, 0], "categorical_limits": [3, 4], "vals": [0, 2, -1, 1, 3, 3, -2]},
        )
        for _ in range(1)
    ),
    # Boundaries that are not sorted, or NaN: the first one that is not below an element counts.
    case(
        "BatchBucketize",
        {
            "X": np.repeat(np.append(np.arange(-5, 6, 0.5), [np.nan, np.inf])[:, None], 3, 1).astype("float32"),
            "I": ints(0, 1, 2, 1, dtype="int32"),
            "B": np.array([-2, 3, 1, 5, -4, 2, 9, 2, np.nan, 1, 4, 4, np.nan, -3, 0], "float32"),
            "L": ints(7, 0, 5, 3, dtype="int32"),
        },
    ),
]

INF, NAN = np.inf, np.nan
ODD = np.array([[NAN, NAN, NAN], [1, 2, 3], [0, INF, -INF], [1.5, 2, 0.5]], np.float32)
EDGES, EDGE_COUNTS = np.array([1, 2, 3, 1, 1.5, 0, 1, 2, 3], np.float32), np.array([3, 2, 4], np.int32)

CASES += [
    # A bucket for NaN: that of a binary search which it never passes, or always.
    case("BatchBucketize", {"X": ODD, "I": np.array([1, 0, 2], np.int32), "B": EDGES, "L": EDGE_COUNTS}),
    case("BatchBucketOneHot", {"X": ODD, "L": EDGE_COUNTS, "B": EDGES}),
    case("Bucketize", {"X": ODD}, args={"boundaries": [1.0, 2.0]}),
]
