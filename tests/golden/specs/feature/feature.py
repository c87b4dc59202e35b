"""Merged features with examples that lack some, of every element type, and lists of ids that share ids."""

from __future__ import annotations

import numpy as np
from conformance.corpus import Array
from conformance.recording import case


def rows(*shape: int, dtype: str = "float32", start: int = 1) -> Array:
    values = np.arange(start, start + int(np.prod(shape))).reshape(shape)
    return values.astype(str).astype(object) if dtype == "str" else values.astype(dtype)


def ints(*values: int, dtype: str = "int32") -> Array:
    return np.array(values, dtype)


def bools(*values: int) -> Array:
    return np.array(values, bool)


TYPES = ("float32", "float64", "int32", "int64", "bool", "str")
PRESENT = bools(1, 0, 0, 0, 1, 1).reshape(3, 2)
IDS = {"feature_ids": [11, 13]}
SINGLE = ["L", "K", "V"]
NESTED = ["L", "K", "VL", "V"]
MAP = ["L", "K", "VL", "VK", "V"]

CASES = [
    *(
        case("MergeDenseFeatureTensors", {"X": rows(3, 2, dtype=d), "P": PRESENT}, outputs=SINGLE, args=IDS)
        for d in TYPES
    ),
    *(
        case(
            "MergeSingleScalarFeatureTensors",
            {"A": rows(3, dtype=d), "AP": bools(1, 0, 1), "B": rows(3, dtype=d, start=5), "BP": bools(0, 0, 1)},
            outputs=SINGLE,
            args=IDS,
        )
        for d in TYPES
    ),
    *(
        case(
            "MergeSingleListFeatureTensors",
            {
                "AL": ints(2, 0, 1),
                "A": rows(3, dtype=d),
                "AP": bools(1, 0, 1),
                "BL": ints(0, 3, 1),
                "B": rows(4, dtype=d, start=5),
                "BP": bools(1, 1, 1),
            },
            outputs=NESTED,
            args=IDS,
        )
        for d in TYPES
    ),
    # An absent example's length counts for nothing: its values are not there.
    case(
        "MergeSingleListFeatureTensors",
        {
            "AL": ints(2, 4, 1),
            "A": rows(3),
            "AP": bools(1, 0, 1),
            "BL": ints(1, 0, 1),
            "B": rows(2),
            "BP": bools(1, 0, 1),
        },
        outputs=NESTED,
        args=IDS,
    ),
    case(
        "MergeSingleMapFeatureTensors",
        {
            "AL": ints(2, 0, 1),
            "AK": rows(3, dtype="int64"),
            "A": rows(3),
            "AP": bools(1, 0, 1),
            "BL": ints(0, 3, 1),
            "BK": rows(4, dtype="int64"),
            "B": rows(4, start=5),
            "BP": bools(1, 1, 1),
        },
        outputs=MAP,
        args=IDS,
    ),
    case(
        "MergeMultiScalarFeatureTensors",
        {
            "AL": ints(2, 0, 1),
            "AK": rows(3, dtype="int64"),
            "A": rows(3),
            "BL": ints(0, 3, 1),
            "BK": rows(4, dtype="int64", start=20),
            "B": rows(4, start=5),
        },
        outputs=SINGLE,
    ),
    case(
        "MergeMultiListFeatureTensors",
        {
            "AL": ints(2, 0, 1),
            "AK": rows(3, dtype="int64"),
            "AV": ints(1, 0, 2),
            "A": rows(3, dtype="str"),
            "BL": ints(0, 1, 1),
            "BK": rows(2, dtype="int64", start=20),
            "BV": ints(3, 1),
            "B": rows(4, dtype="str", start=5),
        },
        outputs=NESTED,
    ),
    case(
        "MergeMultiMapFeatureTensors",
        {
            "AL": ints(2, 0, 1),
            "AK": rows(3, dtype="int64"),
            "AV": ints(1, 0, 2),
            "AM": rows(3, dtype="int32"),
            "A": rows(3),
            "BL": ints(0, 1, 1),
            "BK": rows(2, dtype="int64", start=20),
            "BV": ints(3, 1),
            "BM": rows(4, dtype="int32"),
            "B": rows(4, start=5),
        },
        outputs=MAP,
    ),
    *(
        case(
            "MergeIdLists",
            {"AL": ints(3, 0, 1), "A": ints(5, 3, -1, 7, dtype=d), "BL": ints(2, 2, 0), "B": ints(3, 9, 8, 8, dtype=d)},
            outputs=["L", "V"],
        )
        for d in ("int32", "int64")
    ),
    case("MergeIdLists", {"AL": ints(0, 0), "A": ints()}, outputs=["L", "V"]),
    case("MergeIdLists", {"AL": ints(1), "A": np.ones(1, "float32")}, outputs=["L", "V"]),
    case("MergeMultiScalarFeatureTensors", {"A": ints(1, 1), "B": ints(1, 2), "C": rows(2)}, outputs=SINGLE),
    case("MergeSingleScalarFeatureTensors", {"A": rows(2), "P": ints(1, 0)}, outputs=SINGLE, args=IDS),
    # Operands of any rank.
    case(
        "MergeSingleScalarFeatureTensors", {"A": rows(2, 1), "P": bools(1, 0).reshape(2, 1)}, outputs=SINGLE, args=IDS
    ),
    case(
        "MergeMultiScalarFeatureTensors",
        {"A": ints(1, 1).reshape(2, 1), "B": rows(2, 1, dtype="int64"), "C": rows(2, 1)},
        outputs=SINGLE,
    ),
    case("MergeDenseFeatureTensors", {"X": rows(2, 2, 1), "P": bools(1, 0, 0, 1)}, outputs=SINGLE, args=IDS),
    case("MergeIdLists", {"L": ints(1, 1).reshape(2, 1), "V": ints(5, 3)}, outputs=["L2", "V2"]),
    # More ids than the lengths add up to.
    *(
        case("MergeIdLists", {"AL": ints(*a), "A": ints(4, 2, 9), "BL": ints(*b), "B": ints(2, 5)}, outputs=["L", "V"])
        for a, b in (((), ()), ((1, 1), (0, 2)), ((3, 0), (1, 0)))
    ),
]

PRESENCE = np.array([1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1], np.bool_)

CASES += [
    *(
        case(
            "MergeDenseFeatureTensors",
            {"X": np.arange(np.prod(x), dtype=np.float32).reshape(x), "P": PRESENCE[: np.prod(p)].reshape(p)},
            outputs=["L", "K", "V"],
            args={"feature_ids": [7, 5]},
        )
        for x, p in (((3, 2, 2), (3, 2, 2)), ((3, 2), (3, 2, 2)), ((3, 2, 2), (3, 2)), ((3, 2), (6,)))
    ),
]
