"""Adagrad on the rows of a table, fused with the gradient of SparseLengthsSum and its relatives."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from conformance.recording import Spec, case, generator

Array = np.ndarray[Any, Any]

rng = generator(0)
TYPES = [
    f"{rowwise}SparseAdagradFusedWithSparseLengths{reduction}Gradient{approximate}"
    for rowwise in ("", "RowWise")
    for reduction in ("Sum", "Mean", "WeightedSum")
    for approximate in ("", "Approx")
]


def floats(*shape: int) -> Array:
    return rng.uniform(0, 1, shape).astype("float32")


def update(
    op_type: str, row: tuple[int, ...], lengths: list[int], *, index: Any = "int64", override: Any = None, **args: Any
) -> Spec:
    """Update a table of six rows; ``override`` replaces operands."""
    count = sum(lengths)
    operands = {"param": floats(6, *row), "moment": floats(6) if "RowWise" in op_type else floats(6, *row)}
    outputs = ["param", "moment"]
    if "Weighted" in op_type:
        operands["weights"] = floats(max(count, 1))
        outputs.append("dweights")
    operands["indices"] = rng.integers(0, 3, count).astype(index)
    operands["grad"] = floats(len(lengths), *row)
    operands["lr"] = np.array([0.1], "float32")
    operands["lengths"] = np.array(lengths, "int32")
    return case(op_type, {**operands, **(override or {})}, outputs=outputs, args=args)


def cases(op_type: str) -> Iterator[Spec]:
    # Indices are of three rows, so that they repeat.
    yield update(op_type, (4,), [2, 0, 3], epsilon=1e-5)
    yield update(op_type, (16,), [1, 4], index="int32", weight_decay=0.3, epsilon=1e-3)
    yield update(op_type, (1,), [3, 2], weight_decay=0.1)
    yield update(op_type, (2, 3), [6], decay=1.0)
    yield update(op_type, (), [2, 2])
    yield update(op_type, (3,), [0, 0])
    yield update(op_type, (3,), [])
    yield update(op_type, (3,), [2], override={"lr": np.array(0.2, "float32"), "grad": floats(1, 3, 1)})
    yield update(op_type, (3,), [2], decay=0.5)
    yield update(op_type, (3,), [2], override={"param": floats(6, 3).astype("float16")})


CASES = [spec for op_type in TYPES for spec in cases(op_type)]
