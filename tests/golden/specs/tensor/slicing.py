"""Joining and slicing: the names of older nets, unusual places, and types that the recording lacks."""

from __future__ import annotations

import numpy as np
from conformance.recording import case, generator

RANDOM = generator(12)
X = RANDOM.standard_normal((2, 6, 4), dtype="float32")
IMAGE = RANDOM.standard_normal((2, 4, 3, 5), dtype="float32")
FLAGS = X > 0
TEXT = np.array([["a", "b", "c"], ["d", "e", "f"]], dtype=object)


def ints(*values: int, dtype: str = "int32") -> np.ndarray:
    return np.array(values, dtype)


CASES = [
    *(
        case("Concat", {"A": x, "B": x}, outputs=("Y", "sizes"), args=args)
        for x in (X, FLAGS, X.astype("float16"), (X * 9).astype("int64"), (X * 9).astype("uint8"), TEXT)
        for args in ({"axis": 0}, {"axis": -1}, {"axis": -1, "add_axis": 1}, {"add_axis": 1})
    ),
    case("Concat", {"A": X, "B": X[:, :0], "C": X[:, :5]}, outputs=("Y", "sizes"), args={"axis": 1}),
    case("Concat", {"A": X, "B": X[:1]}, outputs=("Y", "sizes"), args={"axis": 1}),
    *(case("DepthConcat", {"A": IMAGE, "B": IMAGE}, outputs=("Y", "s"), args=a) for a in ({}, {"order": "NHWC"})),
    *(
        case("DepthSplit", {"X": IMAGE, "s": ints(1, 2)}, outputs=("A", "B"), args={"order": order})
        for order in ("NCHW", "NHWC")
    ),
    case("DepthSplit", {"X": IMAGE, "s": ints(1, 3)}, outputs=("A", "B")),
    *(
        case("Split", {"X": x}, outputs=("A", "B"), args=args)
        for x in (X, FLAGS, X.astype("float64"), (X * 9).astype("int64"), (X * 9).astype("uint8"))
        for args in (
            {"axis": 1},
            {"axis": -1, "split": [1, 3]},
            {"axis": 0, "add_axis": 1},
            {},
            {"axis": 1, "split": [0, 6]},
        )
    ),
    case("Split", {"X": X}, outputs=("A",), args={"axis": 1}),
    case("Split", {"X": X}, outputs=("A", "B", "C", "D"), args={"axis": 1}),
    case("Split", {"X": X}, outputs=("A", "B"), args={"axis": 1, "split": [1, 4]}),
    *(
        case(
            "SplitByLengths",
            {"X": X, "L": ints(*lengths)},
            outputs=("A", "B"),
            args={"axis": 1, "use_scaling_lengths": s},
        )
        for lengths, s in (((2, 4), 0), ((1, 0, 3, 2), 0), ((1, 2), 1), ((1, 0, 1, 1), 1), ((0, 0), 1))
    ),
    *(
        case("Slice", {"X": x}, args={"starts": starts, "ends": ends})
        for x in (X, FLAGS, X.astype("float16"), (X * 9).astype("int64"), (X * 9).astype("uint8"), X[:0])
        for starts, ends in (([0, 2], [-1, -2]), ([0, -4], [-1, -1]), ([-3], [-2]), ([0, 0, 9], [-1, -1, 9]))
    ),
    *(
        case("Slice", {"X": X, "S": ints(*starts, dtype=dtype), "E": ints(*ends, dtype=dtype)})
        for dtype in ("int32", "int64")
        for starts, ends in (([0, 2], [-1, -2]), ([0, -4], [-1, -1]), ([0, 0, 9], [2, 9, 9]))
    ),
    case("Slice", {"X": X}, args={"starts": [0, 1, 1], "ends": [-1, 2, 2]}),
    case("Slice", {"X": X}, args={"starts": [0, 3], "ends": [-1, 2]}),
    *(
        case("RemoveDataBlocks", {"X": x, "I": ints(*i, dtype=dtype)})
        for dtype in ("int32", "int64")
        for x, i in ((X, (1,)), (FLAGS, (0, 0)), (X[0], (5, 1, 3, 1)), (TEXT, ()))
    ),
    *(case("Append", {"A": x, "B": x[:1]}, outputs=("A",)) for x in (X, FLAGS, TEXT, X[:0])),
]

SPLIT = np.arange(12, dtype=np.float32).reshape(4, 3)

CASES += [
    *(
        case(kind, {"X": SPLIT, "n": np.array(lengths, np.int32)}, outputs=["a", "b"], args={"axis": 0})
        for kind, lengths in (
            ("Split", [[1, 3]]),
            ("Split", [[1], [3]]),
            ("SplitByLengths", [[1], [3]]),
            ("SplitByLengths", [[3, 1], [1, 9]]),
        )
    ),
    case("Split", {"X": SPLIT, "n": np.array(4, np.int32)}, outputs=["a"], args={"axis": 0}),
]
