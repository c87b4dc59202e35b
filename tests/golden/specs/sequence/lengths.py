"""Lengths, segment ids and ranges with more than one segment, empty ones among them, and what is refused."""

from __future__ import annotations

import numpy as np
from conformance.corpus import Array
from conformance.recording import case, generator


def rows(*shape: int, dtype: str = "float32") -> Array:
    return np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(dtype)


def vector(*values: int, dtype: str = "int32") -> Array:
    return np.array(values, dtype)


LENGTHS, LONG = vector(2, 0, 1, 3), vector(2, 0, 1, 3, dtype="int64")
IDS = vector(1, 1, 2, 2, 4)
NUMBERS = generator(1).integers(-20, 20, 6)
RANGES = np.array([[[0, 2], [4, 1]], [[3, 0], [1, 3]]])

CASES = [
    *(case(f"LengthsTo{k}", {"L": x}) for k in ("Offsets", "Ranges", "SegmentIds") for x in (LENGTHS, LONG)),
    case("LengthsToOffsets", {"L": LENGTHS}, args={"include_last_offset": 1}),
    case("LengthsToRanges", {"L": LENGTHS.reshape(2, 2)}),
    case("LengthsRangeFill", {"L": LENGTHS}),
    case("LengthsToShape", {"L": vector(3, 3)}),
    case("LengthsToShape", {"L": vector(3, 4)}),
    *(case("LengthsToWeights", {"L": LONG}, args={"power": p}) for p in (0.5, 1.0, 2.5)),
    case("LengthsToWeights", {"L": LENGTHS}),
    case("LengthsToWeights", {"L": LENGTHS}, args={"power": 2}),
    *(case(f"SegmentIdsTo{k}", {"S": IDS}) for k in ("Lengths", "Ranges")),
    *(case(f"SegmentIdsTo{k}", {"S": IDS.astype("int64"), "D": rows(7, 2)}) for k in ("Lengths", "Ranges")),
    *(case(f"SegmentIdsTo{k}", {"S": vector(), "D": rows(3, 2)}) for k in ("Lengths", "Ranges")),
    *(case(f"SegmentIdsTo{k}", {"S": IDS.reshape(5, 1)}) for k in ("Lengths", "Ranges")),
    case("SegmentIdsToLengths", {"S": IDS.astype("float32")}),
    *(
        case("LengthsGather", {"X": x, "L": LENGTHS, "I": i})
        for x in (rows(6), rows(6, 2), np.array(list("abcdef"), object))
        for i in (vector(3, 0, 3, 1), vector(1, 2, dtype="int64"))
    ),
    case(
        "LengthsGather",
        {"X": np.array([["a", "b"], ["c", "d"], ["e", "f"]], object), "L": vector(1, 2), "I": vector(1)},
    ),
    *(
        case("GatherRanges", {"X": x, "R": RANGES.astype(i)}, outputs=["Y", "L"])
        for x in (rows(6), rows(6, dtype="bool"))
        for i in ("int32", "int64")
    ),
    case("GatherRanges", {"X": np.array(list("abcdef"), object), "R": RANGES}, outputs=["Y", "L"]),
    case("GatherRanges", {"X": rows(6, 1), "R": RANGES}, outputs=["Y", "L"]),
    *(
        case("LengthsTile", {"X": rows(4, 2, dtype=d), "L": LENGTHS})
        for d in ("float32", "int64", "uint8", "float16", "bool")
    ),
    case("LengthsTile", {"X": rows(4), "L": LENGTHS}),
    case("LengthsTile", {"X": rows(4), "L": LONG}),
    case("LengthsSplit", {"L": vector(9, 4, 5, 0, 1)}, args={"n_split": 3}),
    *(
        case("LengthsSplit", {"L": vector(9, 4, 5), "N": vector(4, dtype=d)}, args={"n_split": 2})
        for d in ("int32", "int64")
    ),
    case("LengthsSplit", {"L": vector(9, 4, 5)}),
    *(
        case("LengthsTopK", {"X": x, "L": vector(4, 0, 3)}, outputs=["Y", "I"], args={"k": k})
        for x in (np.array([1, 3, 2, 3, -5, 7, 2], "float32"), np.full(7, -np.inf, "float32"))
        for k in (1, 3, 6)
    ),
    case("LengthsTopK", {"X": rows(7, dtype="float64"), "L": vector(4, 0, 3)}, outputs=["Y", "I"], args={"k": 2}),
    case("LengthsTopK", {"X": rows(7), "L": vector(4, 0, 3)}, outputs=["Y", "I"]),
    *(
        case(
            "LengthsPartition",
            {"L": LENGTHS, "X": NUMBERS.astype(d), "Z": rows(6, 2)},
            outputs=list("abcdefghi"),
            args=args,
        )
        for d in ("int32", "int64")
        for args in ({}, {"pack_first_input": 1})
    ),
    case("LengthsPartition", {"L": LENGTHS, "X": NUMBERS}, outputs=list("ab"), args={"pack_first_input": 1}),
    case("LengthsPartition", {"L": LENGTHS, "X": NUMBERS}, outputs=list("abc")),
    case("LengthsGather", {"X": rows(6), "L": LENGTHS, "I": vector(1).reshape(1, 1)}),
    case("LengthsSplit", {"L": vector(9, 4, 5), "N": np.array(3, "int32")}),
    case("LengthsToWeights", {"L": LENGTHS.reshape(2, 2)}),
    case("LengthsTopK", {"X": rows(3, 1), "L": vector(1, 2, 0).reshape(3, 1)}, outputs=["Y", "I"], args={"k": 2}),
    case("LengthsPartition", {"L": vector(1, 5).reshape(2, 1), "X": NUMBERS}, outputs=list("abcd")),
    case("LengthsPartition", {"L": vector(1, 5).reshape(2, 1), "X": NUMBERS}, outputs=list("ab")),
    case("SegmentIdsToLengths", {"S": IDS.reshape(1, 1, 5)}),
]

# Lengths of another rank, of which Caffe2 reads the elements.
VALUES = np.array(
    [0.56972635, -0.056064438, 0.7468856, -1.8473248, 1.5665488, -0.09643216, 0.68037844, -0.13656634, -0.37909856],
    np.float32,
)
TOP = np.array([4, 2, 0, 3, 2, 1], np.int32)

CASES += [
    *(
        case(
            "LengthsTopK",
            {"X": VALUES, "L": TOP[: np.prod(shape)].reshape(shape)},
            outputs=["Y", "I"],
            args={"k": 3},
        )
        for shape in ((1, 4), (4, 1), (3, 2))
    ),
    *(
        case("LengthsSplit", {"L": np.array([7, 3], np.int32), "n": np.array([count])})
        for count in (np.int8(2), np.int64(3), np.bool_(1))
    ),
]
