"""Indices, keys and masks: what repeats, what is missing, what is empty, and types that the recording lacks."""

from __future__ import annotations

import numpy as np
from conformance.recording import case, generator, net, operator

RANDOM = generator(16)
X = RANDOM.standard_normal((4, 3, 5), dtype="float32")
TEXT = np.array([["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]], dtype=object)
KEYS = np.array([5, -3, 8, 0, -7, 2, 2, 9])
WEIGHT = np.array([0.5], "float32")


def ints(*values: int, dtype: str = "int64") -> np.ndarray:
    return np.array(values, dtype)


def partition(keys: np.ndarray, rows: np.ndarray, **args: int) -> object:
    outputs = [f"{name}{i}" for i in range(3) for name in ("K", "R")]
    return case("Partition", {"keys": keys, "rows": rows}, outputs=outputs, args=args)


CASES = [
    *(
        case("Gather", {"X": x, "I": i}, args=args)
        for x in (X, X > 0, X.astype("float16"), TEXT)
        for i in (ints(-1, 0, 2), ints(3, dtype="int32").reshape(1, 1), ints())
        for args in ({}, {"axis": -1, "wrap_indices": 1})
        if not (args and i.size and x is TEXT and i.max() > 1)
    ),
    case("Gather", {"X": X, "I": ints(1, 0, 2, 1).reshape(4, 1)}, args={"axis": 1, "match_outer": 1}),
    case("BatchGather", {"X": X[:0], "I": ints(1, 2)}),
    *(
        case("BooleanMask", {"X": x, "M": np.array(m)}, outputs=("Y", "I"))
        for x in (X, TEXT, X[:, 0, 0])
        for m in ([True, False, True, True], [False] * 4)
    ),
    case("BooleanMask", {"X": X[:0], "M": np.zeros(0, bool)}, outputs=("Y", "I")),
    *(
        case(
            "BooleanUnmask",
            {
                "M": np.array([True, False, True, False]),
                "A": np.array([1, 2], t),
                "N": np.array([True, True, False, True]),
                "B": np.array([7, 8], t),
            },
        )
        for t in ("float32", "int64", "float16")
    ),
    *(case("Unique", {"X": x}, outputs=("U", "R")) for x in (KEYS, KEYS.astype("int32"), ints())),
    *(
        case("FindDuplicateElements", {"X": x})
        for x in (KEYS, KEYS.astype("int32"), np.array([1, 2, 1, 1], "float32"), np.array([2.0, 2.0]), TEXT[:, 0])
    ),
    # A NaN is no duplicate.
    *(
        case("FindDuplicateElements", {"X": np.array([0, np.nan, 2, np.nan, -0.0, np.inf, 2, np.inf], t)})
        for t in ("float32", "float64")
    ),
    *(
        case("Find", {"pool": pool.astype(t), "wanted": ints(2, 7, -3, 2, dtype=t).reshape(2, 2)}, args=args)
        for t in ("int32", "int64")
        for pool in (KEYS, ints())
        for args in ({}, {"missing_value": -9})
    ),
    case("Find", {"pool": KEYS, "wanted": ints()}),
    case("Find", {"pool": KEYS, "wanted": np.arange(-10, 10)}),
    case("IsMemberOf", {"X": TEXT}, args={"value": ["b", "g"]}),
    case("IsMemberOf", {"X": KEYS[:0]}, args={"value": [2, 8]}),
    case("IsMemberOf", {"X": KEYS.reshape(2, 4)[:0]}, args={"value": []}),
    case("IsMemberOf", {"X": KEYS > 0}, args={"value": [1]}),
    case("IsMemberOf", {"X": KEYS.reshape(2, 4)}, args={"value": [2]}),
    case("IsMemberOf", {"X": KEYS.astype("int32")}, args={"value": [2, 8], "dtype": 10}),
    *(
        partition(keys.astype(t), rows, pack_first_input=pack)
        for t in ("int32", "int64")
        for pack in (0, 1)
        for keys, rows in (
            (KEYS, RANDOM.standard_normal((8, 2))),
            (KEYS.reshape(2, 4), RANDOM.standard_normal((2, 4, 3))),
        )
    ),
    partition(ints(), np.zeros((0, 2))),
    net(
        [
            operator("Partition", ["keys", "rows"], ["k0", "r0", "k1", "r1", "k2", "r2"], pack_first_input=1),
            operator("GatherByKey", ["keys", "r0", "r1", "r2"], ["same"]),
        ],
        {"keys": KEYS, "rows": RANDOM.standard_normal((8, 2))},
    ),
    *(
        case(
            "ScatterAssign",
            {"X": X[:, 0].astype(t), "I": ints(2, 0, 2, dtype=i), "S": X[:3, 1].astype(t)},
            outputs=("X",),
        )
        for t in ("float32", "float64", "float16", "int32", "int64", "uint8")
        for i in ("int32", "int64")
    ),
    case("ScatterAssign", {"X": X, "I": ints(), "S": X[:0]}, outputs=("X",)),
    *(
        case(
            "ScatterWeightedSum",
            {"X": X, "w0": w0, "I": ints(2, 0, 2), "X1": X[1:], "w1": WEIGHT, "X2": X[:3], "w2": -WEIGHT},
            outputs=("X",),
        )
        for w0 in (WEIGHT, np.ones(1, np.float32))
    ),
    *(
        case("Scatter", {"X": x, "I": i, "U": u}, args=args)
        for x, i, u, args in (
            (X[0], ints(4, 1, 0, 2, 3, 3).reshape(3, 2), X[1, :, :2], {}),
            (X[0], ints(2, 0, dtype="int32").reshape(1, 2), X[1, :1, :2], {"axis": 0}),
            (X, ints(*([0, 2] * 20)).reshape(4, 2, 5), X[:, 1:], {"axis": 1}),
            (X, ints(*([1] * 12)).reshape(4, 3, 1), X[..., :1] * 2, {"axis": -1}),
            (X, ints(), X[:0, 0, 0], {"axis": 0}),
        )
        if i.size
    ),
    *(
        case("CopyRowsToTensor", {"X": X[0].astype(t), "I": ints(2, 0, 2), "row": X[1, 0].astype(t)}, outputs=("X",))
        for t in ("float32", "float64", "float16", "int32", "int64")
    ),
    *(
        case("BooleanMaskLengths", {"L": ints(2, 0, 3, dtype=t), "M": np.array([True, False, True, True, False])})
        for t in ("int32", "int64")
    ),
    case("BooleanMaskLengths", {"L": ints(dtype="int32"), "M": np.zeros(0, bool)}),
    *(
        case("KeySplit", {"K": k}, outputs=("A", "B", "C"), args={"categorical_limit": 3})
        for k in (ints(2, 0, 2, 1), ints(1))
    ),
    *(
        case("QuantDecode", {"book": X[0, 0], "X": ints(4, 0, dtype=t), "Y": ints(2, dtype=t)}, outputs=("A", "B"))
        for t in ("uint8", "uint16", "int32")
    ),
    case("KeySplit", {"K": ints(2, 2**32 + 2, 2**53 + 1)}, outputs=("A", "B", "C"), args={"categorical_limit": 3}),
    # What the schema refuses.
    case("ScatterAssign", {"X": X[0], "I": ints(1, 0, dtype="int32"), "R": X[0, :2]}, outputs=["Y"]),
]
