"""Gradients of selections: masks of rows, missing and repeated indices, empty operands, and ranges of Slice."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from conformance.recording import Spec, case, generator

Array = np.ndarray[Any, Any]
rng = generator(0)


def floats(*shape: int) -> Array:
    return rng.standard_normal(shape).astype("float32")


def vector(dtype: str, *values: Any) -> Array:
    return np.array(values, dtype)


def gradient(kind: str, *inputs: Array, **args: Any) -> Spec:
    names = {f"X{index}": value for index, value in enumerate(inputs)}
    return case(f"{kind}Gradient", names, outputs=["dX"], args=args)


def sliced(starts: Sequence[int], ends: Sequence[int], x: Array, dy: Array, dtype: str = "") -> Spec:
    if dtype:
        return gradient("Slice", x, vector(dtype, *starts), vector(dtype, *ends), dy)
    return gradient("Slice", x, dy, starts=list(starts), ends=list(ends))


X = floats(3, 4)
IDS = vector("int64", 1, 2, 1, 7)
CASES = [
    *(
        sliced(starts, ends, X, floats(*shape), dtype)
        for starts, ends, shape in (
            ([0, 1], [-1, 3], (3, 2)), ([0, 1], [-1, -2], (3, 2)), ([-2], [-1], (1, 4)), ([0, 0], [-1, -1], (3, 4)),
            ([0, 2], [-1, 2], (3, 0)), ([2], [7], (1, 4)), ([5], [7], (0, 4)), ([1], [3], (2, 4)),
        )
        for dtype in ("", "int32", "int64")
    ),
    sliced([0, 1], [-1, 2], floats(2, 3, 2), floats(2, 1, 2)),
    sliced([0, 1], [-1, 3], X.astype("int32"), floats(3, 2).astype("int32")),
    sliced([0, 1], [0, 1], X[:0], X[:0, :0]),
    gradient("Tile", floats(3, 4), tiles=2, axis=-1),
    gradient("Tile", floats(3, 4), tiles=3, axis=0),
    gradient("Tile", floats(3, 4), vector("int32", 2), axis=1),
    gradient("Tile", floats(3, 4), vector("int64", 2), axis=1),
    gradient("Tile", floats(3, 4), vector("int64", 2), vector("int32", -1)),
    gradient("Tile", floats(2, 3, 4), vector("int32", 3), vector("int64", 1), tiles=1, axis=0),
    gradient("Tile", floats(0, 4), tiles=2, axis=1),
    gradient("Tile", rng.integers(0, 9, (3, 4)).astype("int32"), tiles=2, axis=1),
    gradient("Expand", X, floats(4)),
    gradient("Expand", X, np.array(1, "float32")),
    gradient("Expand", rng.integers(0, 9, (3, 4)), rng.integers(0, 9, (3, 1))),
    gradient("Expand", X[:0], X[:1]),
    gradient("BatchGather", floats(2, 3, 2), vector("int32", 0, 2, 0), floats(2, 3, 2)),
    gradient("BatchGather", floats(2, 3, 2), vector("int64", 0, 1), floats(2, 3, 2), axis=-1),
    gradient("BatchGather", floats(2, 3), vector("int64", [1, 1], [0, 1]), floats(2, 2, 3), axis=0),
    gradient("BatchGather", floats(2, 3, 2), vector("int32", [0, 1], [2, 2]), floats(2, 2, 2), match_outer=1),
    gradient("BatchGather", floats(2, 3, 2), vector("int32"), floats(2, 0, 2)),
    gradient("BooleanMask", vector("bool", 1, 0, 1), floats(2, 2)),
    gradient("BooleanMask", vector("bool", 1, 0, 1), vector("int32", 4, 5)),
    gradient("BooleanMask", vector("bool", 1, 0, 1), vector("int64", 4, 5)),
    gradient("BooleanMask", vector("bool", 1, 0), vector("float64", 4)),
    gradient("BooleanMask", vector("bool", 0, 1, 1), vector("bool", 1, 0)),
    gradient("BooleanMask", vector("bool"), vector("float32")),
    gradient("TopK", floats(2, 2), vector("int64", [3, 0], [1, 2]), floats(2, 4), k=2),
    gradient("TopK", floats(2, 2), vector("int64", [1, 0], [0, 2]), floats(3, 2), k=2, axis=0),
    gradient("TopK", floats(2, 3), vector("int64", [1, 0, -1], [0, 1, -1]), floats(2, 2), k=3),
    gradient("TopK", floats(0, 2), np.zeros((0, 2), "int64"), floats(0, 4), k=2),
    gradient("FlexibleTopK", floats(2, 4), vector("int64", 2, 1), floats(3), vector("int64", 3, 0, 1)),
    gradient("FlexibleTopK", floats(2, 1, 4), vector("int64", [2], [1]), floats(3), vector("int64", 3, 0, 1)),
    gradient("FlexibleTopK", floats(2, 4), vector("int64", 0, 1), floats(1), vector("int64", 3)),
    gradient("FlexibleTopK", floats(0, 4), vector("int64"), floats(0), vector("int64")),
    gradient("BatchPermutation", vector("int32", 2, 0, 1), floats(3, 2)),
    gradient("BatchPermutation", vector("int32", 2, 0, 1), floats(3)),
    gradient("BatchPermutation", vector("int32", 1, 0), floats(2, 2, 2)),
    gradient("BatchPermutation", vector("int32", 0), floats(1, 2, 1, 2)),
    gradient("BatchPermutation", vector("int32"), floats(0, 2)),
    *(gradient("CopyRowsToTensor", vector("float32", *range(count))) for count in (0, 1, 3)),
    gradient("CopyRowsToTensor", vector("int64", 1, 2)),
    gradient("CopyRowsToTensor", vector("float64", 1, 2)),
    gradient("SparseToDenseMask", IDS, floats(3, 2), mask=[1, 2, 3]),
    gradient("SparseToDenseMask", IDS.astype("int32"), floats(3), mask=[1, 2, 3]),
    gradient("SparseToDenseMask", IDS, floats(3, 3), vector("int32", 3, 0, 1), mask=[1, 2, 7], return_presence_mask=1),
    gradient("SparseToDenseMask", IDS, floats(2, 3), vector("int32", 2, 1), mask=[1, 2, 7]),
    gradient("SparseToDenseMask", IDS[:0], floats(2, 3), vector("int32", 0, 0), mask=[1, 2, 7]),
    gradient("SparseToDenseMask", IDS, floats(2, 3, 2).astype("float64"), vector("int32", 3, 1), mask=[7, 2, 1]),
    gradient("QuantDecode", floats(4), vector("uint8", 0, 2, 0), floats(3)),
    gradient("QuantDecode", floats(4), vector("uint8", 0, 2), vector("uint8", [3], [0]), floats(2), floats(2, 1)),
    gradient("QuantDecode", floats(4), vector("int32", 0, 2, 0), floats(3)),
    gradient("QuantDecode", floats(2, 2), vector("uint16", 0, 3, 0), floats(3)),
    gradient("QuantDecode", floats(4), vector("uint8"), floats(0)),
    *(
        gradient("LpNorm", x, floats(1), p=p, average=average)
        for x in (floats(2, 3), vector("float32", 1e-20, -1e-13, 1e-11, 0), floats(0))
        for p in (1, 2)
        for average in (0, 1)
    ),
    *(
        gradient("Normalize", vector("float32", [3, 4], [0, 0], [1e-13, 0]), floats(3, 2), axis=axis)
        for axis in (0, 1, -1)
    ),
    gradient("Normalize", floats(0, 3), floats(0, 3)),
]  # fmt: skip

ROWS = np.array([0.034192767, 1.3597475, 1.2247211, -0.5103071, -0.29796952, -0.5273842], np.float32).reshape(3, 2)
PERMUTATION = np.array([2, 0, 1, 1, 2, 2], np.int32)

CASES += [
    case("BatchPermutationGradient", {"i": PERMUTATION[:4], "dY": ROWS}),
    *(
        case("BatchPermutationGradient", {"i": PERMUTATION[: np.prod(shape)].reshape(shape), "dY": ROWS})
        for shape in ((3, 2), (1, 3), (3, 1, 1))
    ),
]
