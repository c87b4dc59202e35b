"""Samples and strings: empty samples, nested lists, forced draws, texts that mean something in patterns."""

from __future__ import annotations

import numpy as np
from conformance.recording import case, generator

RANDOM = generator(18)
FEATURE = RANDOM.standard_normal((5, 2), dtype="float32")
TEXT = np.array(["a.b", "a b", "axb", "", "a.b\nc", "xyz~", "(a)", "a.b."], dtype=object)
SURE = np.array([[0, 1, 0], [0, 0, 2], [3, 0, 0]], "float32")


def ints(*values: int, dtype: str = "int32") -> np.ndarray:
    return np.array(values, dtype)


CASES = [
    *(
        case("PadEmptySamples", {"L": ints(*lengths), "A": x, "B": FEATURE[: len(x)] > 0}, outputs=("L2", "A2", "B2"))
        for lengths, x in (((0, 2, 0, 3, 0), FEATURE), ((2, 3), FEATURE), ((0, 0), FEATURE[:0]))
    ),
    case("PadEmptySamples", {"L": ints()}, outputs=("L2",)),
    *(
        case("DenseVectorToIdList", {"X": x.astype("float32")}, outputs=("L", "V"))
        for x in (np.array([[0.5, -0.5, -1.5, 0.49, 3], [0, 0, 1, 0, 0]]), np.zeros((0, 3)))
    ),
    *(
        case(
            "TrimDataset",
            {"x": FEATURE[:4], "l": ints(2, 0, 1, 2), "v": FEATURE[:, 0]},
            outputs=("x", "l", "v"),
            args={"fields": ["x", "list:lengths", "list:values"], "multiple_of": n},
        )
        for n in (1, 3, 5)
    ),
    # The elements of a list stand before their lengths.
    case(
        "TrimDataset",
        {"v": FEATURE[:, 0], "k": ints(7, 8, 9), "n": ints(2, 0, 3), "l": ints(1, 2), "x": FEATURE[:2]},
        outputs=("v", "k", "n", "l", "x"),
        args={
            "fields": ["a:values:values:values", "a:values:keys", "a:values:values:lengths", "a:lengths", "x"],
            "multiple_of": 1,
        },
    ),
    case("WeightedSample", {"W": SURE}, outputs=("I",)),
    case("WeightedSample", {"W": SURE, "V": SURE + 4}, outputs=("I", "V2")),
    case("WeightedSample", {"W": SURE[:0]}, outputs=("I",)),
    case("WeightedMultiSampling", {"W": SURE[1], "S": np.zeros((2, 3))}, outputs=("I",)),
    case("WeightedMultiSampling", {"W": SURE[1]}, outputs=("I",), args={"num_samples": 4}),
    case("WeightedMultiSampling", {"W": SURE[1, :0]}, outputs=("I",), args={"num_samples": 4}),
    *(case(kind, {"X": TEXT}, args={"length": n}) for kind in ("StringPrefix", "StringSuffix") for n in (0, 1, 3, 9)),
    *(case(kind, {"X": TEXT.reshape(2, 4)}) for kind in ("StringPrefix", "StringSuffix")),
    *(case("StringStartsWith", {"X": TEXT}, args={"prefix": p}) for p in ("a.", "", "a b", "(", "a.b\n")),
    *(case("StringEndsWith", {"X": TEXT}, args={"suffix": s}) for s in (".b", "", " b", ")", "\nc")),
    *(case("StringEquals", {"X": TEXT}, args={"text": s}) for s in ("a.b", "")),
    *(case("StringJoin", {"X": TEXT.reshape(2, 4)}, args=args) for args in ({}, {"axis": 1, "delimiter": "--"})),
    *(
        case("StringJoin", {"X": x})
        for x in (TEXT, ints(3, -4), RANDOM.integers(-9, 9, (2, 3)), np.array([[True, False]]))
    ),
    *(case("StringJoin", {"X": ints(1, 200, dtype=t)}) for t in ("int16", "uint16")),
    # Fields of a list are those whose names begin as that of its lengths; a list without a name is the records.
    *(
        case(
            "TrimDataset",
            {"a": ints(2, 0, 1, 2, 1), "b": ints(1, 2, 0, 1, 1, 1), "c": ints(0, 1, 2, 3, 4, 5)},
            outputs=("a", "b", "c"),
            args={"fields": fields, "multiple_of": n},
        )
        for fields in (
            ["a:lengths", "a:b:lengths", "a:b:c"],
            ["a:lengths", "a:values", "a"],
            ["lengths", "x", "ab"],
            ["a:lengths", "a:lengths:lengths", "a:lengths:x"],
        )
        for n in (2, 3)
    ),
    # Columns of the records of other sizes.
    *(
        case(
            "TrimDataset",
            {"a": ints(*range(first)), "b": ints(*range(second))},
            outputs=("a", "b"),
            args={"fields": ["a", ""], "multiple_of": n},
        )
        for first, second in ((5, 6), (6, 5))
        for n in (2, 3, 5)
    ),
    # Without weights there are no samples, whatever shape is asked for.
    case("WeightedMultiSampling", {"W": SURE[1, :0], "S": np.zeros(4, np.int32)}, outputs=("I",)),
    case("WeightedMultiSampling", {"W": SURE[1], "S": np.zeros(4, np.int32)}, outputs=("I",)),
    case("WeightedMultiSampling", {"W": SURE[1], "S": np.zeros((0, 2), np.int32)}, outputs=("I",)),
]
