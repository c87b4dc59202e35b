"""Gradients of merged features and tensor-train embeddings: absent features, empty lists, element types, ranks."""

from typing import Any

import numpy as np
from conformance.recording import Spec, case, generator

Array = np.ndarray[Any, Any]

rng = generator(0)


def floats(*shape: int) -> Array:
    return rng.uniform(-2, 2, shape).astype("float32")


def mask(*values: int) -> Array:
    return np.array(values, bool)


def int32(*values: int) -> Array:
    return np.array(values, "int32")


def merge(kind: str, operands: list[Array], values: Array, features: int) -> Spec:
    inputs = {f"x{i}": operand for i, operand in enumerate(operands)} | {"dY": values}
    return case(f"Merge{kind}FeatureTensorsGradient", inputs, outputs=[f"d{i}" for i in range(features)])


def tensor_train(
    rows: tuple[int, ...], columns: tuple[int, ...], ranks: tuple[int, ...], indices: int, lengths: list[int]
) -> Spec:
    cores = [floats(rows[i], ranks[i], columns[i], ranks[i + 1]) for i in range(3)]
    digits = np.stack([rng.integers(0, n, indices) for n in rows], axis=1)
    first = cores[0][digits[:, 0]].reshape(indices, columns[0], ranks[1])
    second = cores[1][digits[:, 1]].reshape(indices, ranks[1], columns[1] * ranks[2])
    both = (first @ second).reshape(indices, columns[0] * columns[1], ranks[2])
    inputs = {f"core{i}": core for i, core in enumerate(cores)} | {"lengths": np.array(lengths, "int32")}
    inputs |= {"first": first, "both": both, "digits": digits, "dY": floats(len(lengths), int(np.prod(columns)))}
    return case("TTSparseLengthsSumGradient", inputs, outputs=["dcore0", "dcore1", "dcore2"])


LISTS = [int32(1, 2, 3), mask(1, 0, 1), int32(0, 1, 2), mask(1, 1, 0)]
MULTI = [int32(1, 2, 0), int32(1, 0, 2), int32(0, 1, 1), int32(3, 1)]
NONE = int32()
CASES = [
    merge("SingleScalar", [mask(1, 0, 1), mask(0, 0, 1)], floats(3), 2),
    merge("SingleScalar", [mask(1, 0, 1, 1).reshape(2, 2), mask(0, 0, 1, 0)], floats(4), 2),
    merge("SingleScalar", [mask(1, 0, 1)], np.array(["a", "b"], object), 1),
    merge("SingleScalar", [mask(0, 0), mask(0, 0)], np.array([], "int64"), 2),
    merge("SingleScalar", [mask(1, 1), mask(0, 1)], mask(1, 0, 1), 2),
    *(
        merge(kind, LISTS, values, 2)
        for kind in ("SingleList", "SingleMap")
        for values in (floats(5), mask(1, 0, 0, 1, 1), np.arange(5, dtype="int32"), np.array([*"abcde"], object))
    ),
    merge("SingleList", LISTS[:2], floats(4, 1), 1),
    merge("SingleList", [int32(0), mask(1), int32(0), mask(1)], floats(0), 2),
    merge("MultiScalar", [int32(1, 2, 0), int32(0, 1, 2)], floats(6), 2),
    merge("MultiScalar", [int32(1, 2, 0), int32(0, 0, 0), int32(0, 1, 0)], np.arange(4), 3),
    merge("MultiScalar", [int32(2, 0)], np.array(["a", "b"], object), 1),
    *(merge(kind, MULTI, values, 2) for kind in ("MultiList", "MultiMap") for values in (floats(7), np.arange(7.0))),
    merge("MultiList", [int32(0, 1), int32(2), int32(0, 0), NONE], floats(2), 2),
    merge("MultiMap", [int32(0, 2), int32(2, 0)], mask(1, 0), 1),
    merge("SingleScalar", [mask(1, 0, 1), mask(0, 0, 1)], floats(3).astype("float16"), 2),
    tensor_train((3, 2, 2), (2, 1, 3), (1, 2, 2, 1), 3, [2, 0, 1]),
    tensor_train((3, 2, 2), (2, 1, 3), (1, 2, 2, 1), 7, [0, 5, 2]),
    tensor_train((1, 4, 2), (1, 3, 2), (1, 3, 1, 1), 4, [4]),
    tensor_train((2, 2, 2), (2, 2, 2), (1, 4, 2, 1), 0, [0, 0]),
    tensor_train((2, 2, 2), (2, 2, 2), (1, 4, 2, 1), 0, []),
]
