"""Reductions by segment with rows in more than one segment: the recorded tests mostly reduce none or one."""

from __future__ import annotations

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, case, generator


def normal(seed: int, *shape: int, dtype: str = "float32") -> Array:
    return generator(seed).standard_normal(shape, dtype="float32").astype(dtype)


def vector(*values: int, dtype: str = "int32") -> Array:
    return np.array(values, dtype)


LENGTHS = vector(2, 0, 3, 1, 0)
SORTED = vector(0, 0, 1, 1, 1, 2)
UNSORTED = vector(3, 0, 1, 3, 1, 3)
LOOKED_UP = vector(2, 0, 2, 3, 1, 1, dtype="int64")
SEGMENTS = {"Lengths": LENGTHS, "SortedSegment": SORTED, "UnsortedSegment": UNSORTED}


def reduction(prefix: str, kind: str, seed: int, *shape: int, sparse: bool = False, **args: int) -> Spec:
    """Return a case over six rows of the given shape, looked up in a table where ``sparse``."""
    inputs = {"X": normal(seed, 4 if sparse else 6, *shape)}
    if kind == "WeightedSum":
        inputs["W"] = normal(seed + 1, 6)
    if sparse:
        inputs["I"] = LOOKED_UP
    inputs["S"] = SEGMENTS[prefix]
    return case(f"{'Sparse' * sparse}{prefix}{kind}", inputs, args=args)


KINDS = ("Sum", "Mean", "WeightedSum")
RANGES = ("Sum", "Mean", "Max", "LogSumExp", "LogMeanExp")
TABLE, INDICES = normal(80, 4, 3), vector(2, 0, 2, 3, 1, 1)

CASES = [
    *(reduction(p, k, 10, 3, sparse=s) for p in SEGMENTS for k in KINDS for s in (False, True)),
    *(reduction(p, k, 20, sparse=s) for p in SEGMENTS for k in KINDS for s in (False, True)),
    *(reduction(p, k, 30, 2, 3, sparse=s) for p in SEGMENTS for k in KINDS for s in (False, True)),
    *(reduction("UnsortedSegment", k, 40, 2, sparse=s, num_segments=6) for k in KINDS for s in (False, True)),
    *(
        case(f"SortedSegmentRange{k}", {"X": normal(50, 6, *dims), "S": SORTED})
        for k in RANGES
        for dims in ((2,), (), (2, 3))
    ),
    *(case("LengthsMax", {"X": normal(60, 6, *dims), "L": LENGTHS}) for dims in ((2,), (), (2, 3))),
    case("LengthsMax", {"X": np.full((6, 2), -np.inf, "float32"), "L": LENGTHS}),
    case("SortedSegmentRangeMax", {"X": np.full((6, 2), -np.inf, "float32"), "S": SORTED}),
    reduction("Lengths", "WeightedSum", 70, 2, grad_on_weights=1),
    # Tables of halves, indices of both types.
    *(
        case(f"SparseLengths{k}", {"X": TABLE.astype(d), "I": INDICES.astype(i), "L": LENGTHS})
        for k in ("Sum", "Mean")
        for d in ("float16", "float64")
        for i in ("int32", "int64")
    ),
    case("SparseLengthsWeightedSum", {"X": TABLE.astype("float16"), "W": normal(81, 6), "I": INDICES, "L": LENGTHS}),
    *(
        case(
            "SparseLengthsPositionalWeightedSum", {"X": TABLE.astype(d), "W": normal(82, 4), "I": INDICES, "L": LENGTHS}
        )
        for d in ("float32", "float16")
    ),
    # No rows at all.
    *(
        case(f"UnsortedSegment{k}", {"X": normal(0, 0, 2), "S": vector()}, args={"num_segments": 2})
        for k in ("Sum", "Mean")
    ),
    case("LengthsMean", {"X": normal(0, 0, 2), "L": vector(0, 0)}),
    case("SparseLengthsSum", {"X": normal(0, 0, 2), "I": vector(), "L": vector(0, 0)}),
    # Refused.
    case("LengthsSum", {"X": normal(90, 6, 2, dtype="float64"), "L": LENGTHS}),
    case("LengthsSum", {"X": normal(91, 6, 2), "L": LENGTHS.astype("int64")}),
    case("SortedSegmentSum", {"X": normal(92, 6, 2), "S": SORTED.astype("int64")}),
    case("SparseSortedSegmentSum", {"X": TABLE.astype("float16"), "I": INDICES, "S": SORTED}),
    case("LengthsWeightedSum", {"X": normal(93, 6, 2), "W": normal(94, 6, 1), "L": LENGTHS}),
    case("UnsortedSegmentSum", {"X": normal(95, 6, 2), "S": UNSORTED.reshape(2, 3)}),
    case("SparseLengthsSum", {"X": TABLE, "I": INDICES.reshape(2, 3), "L": vector(6)}),
    case("SparseLengthsWeightedSum", {"X": TABLE, "W": normal(96, 5), "I": INDICES, "L": vector(6)}),
]


INF, NAN = np.inf, np.nan
ROWS = np.array([[INF, 1], [NAN, 0], [2, 3], [-INF, 4], [0, 0], [5, 6]], np.float32)
OF_LENGTHS, OF_SEGMENTS = np.array([2, 0, 3, 1], np.int32), np.array([0, 0, 1, 1, 2, 3], np.int32)
INDICES = np.arange(6)
WEIGHTS = (np.array([0, 0, INF, 0, NAN, -INF], np.float32), np.array([0, 1, 0, 1, 0, 1], np.float32))


def segment_sums(rows: Array, weights: Array) -> list[Spec]:
    """Return weighted sums of each form: those of lengths with indices multiply by a weight of 0, others skip it."""
    by = {"Lengths": {"L": OF_LENGTHS}, "SortedSegment": {"S": OF_SEGMENTS}, "UnsortedSegment": {"S": OF_SEGMENTS}}
    return [
        case(f"{prefix}{form}WeightedSum", {"X": rows, "W": weights, **looked_up, **segments})
        for form, segments in by.items()
        for prefix, looked_up in (("", {}), ("Sparse", {"I": INDICES}))
    ]


CASES += [
    *(each for weights in WEIGHTS for rows in (ROWS, ROWS[:, :1]) for each in segment_sums(rows, weights)),
]
