"""Sparse to dense and back: indices twice, invalid ones, every way to say the size, strings; and what is refused."""

from __future__ import annotations

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, case


def rows(*shape: int, dtype: str = "float32") -> Array:
    return np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(dtype)


def vector(*values: int, dtype: str = "int32") -> Array:
    return np.array(values, dtype)


def long(*values: int) -> Array:
    return vector(*values, dtype="int64")


def mask(ids: Array, values: Array, default: Array, *, lengths: Array | None = None, **args: object) -> Spec:
    inputs = {"I": ids, "X": values, "D": default} | ({} if lengths is None else {"L": lengths})
    outputs = ["Y", "M"] if "return_presence_mask" in args else ["Y"]
    return case("SparseToDenseMask", inputs, outputs=outputs, args={"mask": [9, 1, 5], **args})


IDS = vector(5, 1, 5, -1, 7)
WORDS = np.array(list("abcde"), object)
RANGES = np.array([[[0, 2], [4, 1]], [[3, 0], [1, 3]], [[2, 2], [5, 1]]])
BATCH = {"L": long(2, 1, 0), "I": long(0, 3, 1), "V": rows(3)}
RANGE_ARGS = {"lengths": [2, 1], "max_mismatched_ratio": 1.0}

CASES = [
    *(
        case("SparseToDense", {"I": vector(2, 0, 2, dtype=i), "X": rows(3, 2, dtype=d)})
        for i in ("int32", "int64")
        for d in ("float32", "int32", "int64", "float64")
    ),
    case("SparseToDense", {"I": vector(2, 0, 2), "X": rows(3, 2)}, args={"output_first_dim": 5}),
    case("SparseToDense", {"I": vector(2, 0, 2), "X": rows(3), "D": rows(4, 1)}),
    case("SparseToDense", {"I": vector(2, 0, 2), "X": rows(3), "D": rows(4, 1)}, args={"output_first_dim": 5}),
    case("SparseToDense", {"I": vector(), "X": rows(0, 2)}),
    case("SparseToDense", {"I": vector(), "X": rows(0, 2)}, args={"output_first_dim": 2}),
    mask(IDS, rows(5, 2), -rows(2), lengths=vector(3, 0, 2), return_presence_mask=1),
    mask(IDS, rows(5, 2), -rows(2), return_presence_mask=1),
    mask(IDS, rows(5), -rows(1)[0], lengths=vector(1, 4)),
    mask(IDS, rows(5), -rows(1)[0], lengths=vector(2, 3), return_presence_mask=1, max_skipped_indices=3),
    mask(IDS, rows(5, 2, dtype="int64"), rows(2, dtype="int64")),
    mask(IDS, rows(5, dtype="bool"), np.zeros((), bool)),
    mask(IDS, WORDS, np.array("z", object)),
    mask(IDS, np.array([WORDS] * 5), WORDS, lengths=vector(2, 3)),
    mask(long(2**40, 7, 2**40 - 1), rows(3), rows(1)[0], mask=[2**40, 3]),
    mask(vector(5, 2**31 - 1), rows(2), rows(1)[0], mask=[1, 2**31 - 1, 5]),
    mask(vector(), rows(0, 2), rows(2), lengths=vector(0, 0)),
    mask(IDS, rows(5), rows(1)[0], mask=[1, 5, 1]),
    mask(IDS, rows(5), rows(1)[0], mask=[1, -5]),
    mask(IDS, rows(5), rows(1)),
    case("SparseToDenseMask", {"I": IDS, "X": rows(5), "D": rows(1)[0]}),
    case("BatchSparseToDense", BATCH, args={"dense_last_dim": 4, "default_value": 9.0}),
    case("BatchSparseToDense", BATCH | {"S": rows(5, 4)}),
    case("BatchSparseToDense", BATCH | {"S": rows(3, 4)}, args={"dense_last_dim": 4}),
    case("BatchSparseToDense", BATCH | {"S": rows(3, 4)}, args={"dense_last_dim": 5}),
    case("BatchSparseToDense", {"L": long(0, 0), "I": long(), "V": rows(0)}, args={"dense_last_dim": 3}),
    case("BatchSparseToDense", BATCH),
    case("BatchSparseToDense", BATCH | {"L": vector(2, 1, 0)}, args={"dense_last_dim": 4}),
    case("BatchSparseToDense", BATCH | {"V": rows(3, dtype="float64")}, args={"dense_last_dim": 4}),
    case("BatchDenseToSparse", {"L": BATCH["L"], "I": BATCH["I"], "D": rows(3, 4)}),
    case("BatchDenseToSparse", {"L": BATCH["L"], "I": BATCH["I"], "D": rows(3, 4, dtype="float64")}),
    *(
        case("GatherRangesToDense", {"X": x, "R": RANGES.astype(i)}, outputs=["A", "B"], args=RANGE_ARGS)
        for x in (rows(6), rows(6, dtype="bool"), rows(6, dtype="int64"))
        for i in ("int32", "int64")
    ),
    case(
        "GatherRangesToDense",
        {"X": rows(6), "R": RANGES, "K": long(6, -5, 4, 3, 2, 1)},
        outputs=["A", "B"],
        args=RANGE_ARGS,
    ),
    case("GatherRangesToDense", {"X": rows(0), "R": np.zeros((2, 2, 2), "int64")}, outputs=["A", "B"], args=RANGE_ARGS),
    case("GatherRangesToDense", {"X": rows(6), "R": RANGES}, outputs=["A", "B"]),
    case("GatherRangesToDense", {"X": rows(6), "R": RANGES}, outputs=["A", "B"], args={"lengths": [2, 0]}),
    *(
        case(
            "SparseDropoutWithReplacement",
            {"X": long(1, 2, 3, 4, 5, 6), "L": vector(2, 0, 3, 1)},
            outputs=["Y", "M"],
            args={"ratio": ratio, "replacement_value": -1},
        )
        for ratio in (0.0, 1.0, 1.5)
    ),
    case("BatchSparseToDense", BATCH | {"V": rows(3, 1)}, args={"dense_last_dim": 4}),
]
