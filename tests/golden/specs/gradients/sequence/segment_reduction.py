"""Gradients of segment reductions that Caffe2's own tests do not run."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from conformance.recording import Spec, case, generator

Array = np.ndarray[Any, Any]

rng = generator(0)
# Lengths by segment, and the dims of a row.
SHAPES: list[tuple[list[int], tuple[int, ...]]] = [
    ([2, 1, 3], (3,)), ([2, 0, 4, 0], (2, 3)), ([1], ()), ([], (2,)), ([0, 0], (1,)), ([5, 2], ()),
]  # fmt: skip


def floats(*shape: int) -> Array:
    return rng.uniform(-2, 2, shape).astype("float32")


def int32(values: Any) -> Array:
    return np.array(values, "int32")


def by_lengths() -> Iterator[Spec]:
    for lengths, row in SHAPES:
        rows = sum(lengths)
        given = {"dY": floats(len(lengths), *row), "lengths": int32(lengths)}
        for prefix in ("Lengths", "SparseLengths"):
            for reduction in ("Sum", "Mean"):
                yield case(f"{prefix}{reduction}Gradient", given, outputs=["dX"])
            yield case(f"{prefix}WeightedSumGradient", {"weights": floats(rows), **given}, outputs=["dX"])
        given = {"weights": floats(rows), **given}
        data = {"data": floats(rows, *row)}
        yield case("LengthsWeightedSumWithMainInputGradient", {**given, **data}, outputs=["dX", "dW"])
        for dtype, kind in (("int64", "SparseLengths"), ("int32", "SparseLengthsIndicesInGradient")):
            table = {"data": floats(4, *row), "indices": rng.integers(0, 4, rows).astype(dtype)}
            yield case(f"{kind}WeightedSumWithMainInputGradient", {**given, **table}, outputs=["dX", "dW"])


def by_ids() -> Iterator[Spec]:
    for with_empty, row in SHAPES:
        lengths = [length for length in with_empty if length]
        ids = np.repeat(np.arange(len(lengths)), lengths).astype("int32")
        given = {"dY": floats(len(lengths), *row), "ids": ids}
        weights = {"weights": floats(len(ids))}
        shuffled = {**given, "ids": rng.permutation(ids)}
        for prefix in ("SparseSortedSegment", "SparseUnsortedSegment"):
            operands = given if "Sorted" in prefix else shuffled
            for reduction in ("Sum", "Mean"):
                yield case(f"{prefix}{reduction}Gradient", operands, outputs=["dX"])
            yield case(f"{prefix}WeightedSumGradient", {**weights, **operands}, outputs=["dX"])
        yield case("SortedSegmentWeightedSumGradient", {**weights, **given}, outputs=["dX"])


def with_gaps(op_type: str) -> Spec:
    weights = {"weights": floats(4)} if "Weighted" in op_type else {}
    return case(op_type, {**weights, "dY": floats(5, 2), "ids": int32([3, 1, 3, 0])}, outputs=["dX"])


def of_range(reduction: str, x: Array, y: Array) -> Spec:
    operands = {"X": x, "Y": y, "dY": floats(2, 2), "ids": int32([0, 0, 1])}
    return case(f"SortedSegmentRange{reduction}Gradient", operands, outputs=["dX"])


def weighted_front(weights: tuple[int, ...], row: tuple[int, ...], count: int | None, *shape: int) -> Spec:
    args = {} if count is None else {"num_reduce_dim": count}
    operands = {"weights": floats(*weights), "dY": floats(*row), "shape": np.array(shape, "int64")}
    return case("ReduceFrontWeightedSumGradient", operands, outputs=["dX"], args=args)


X, Y = np.array([3, 3, 5], "float32"), np.array([3, 0, 5], "float32")
TIES = np.array([[1, 1], [1, 2], [-1, 0]], "float32")
CASES = [
    *by_lengths(),
    *by_ids(),
    *(with_gaps(f"UnsortedSegment{reduction}Gradient") for reduction in ("Sum", "Mean", "WeightedSum")),
    *(of_range(reduction, TIES, TIES[1:]) for reduction in ("Max", "LogSumExp", "LogMeanExp", "Sum", "Mean")),
    of_range("Max", TIES * np.float32(np.nan), TIES[1:] * np.float32(np.nan)),
    case(
        "LengthsMaxWithMainInputAndForwardOutputGradient",
        {"Y": Y, "dY": floats(3), "lengths": int32([2, 0, 1]), "X": X},
        outputs=["dX"],
    ),
    case(
        "LengthsTopKGradient",
        {"lengths": int32([2, 0, 4]), "indices": int32([[1, 0, -1], [-1, -1, -1], [3, 0, 2]]), "dY": floats(9)},
        outputs=["dX"],
        args={"k": 3},
    ),
    *(
        case(
            f"SortedSegmentRange{reduction}Gradient",
            {"X": TIES, "Y": TIES[1:].reshape(2, 1, 2), "dY": floats(2, 1, 2), "ids": int32([0, 0, 1])},
            outputs=["dX"],
        )
        for reduction in ("Max", "LogSumExp", "Mean")
    ),
    case(
        "LengthsMaxWithMainInputAndForwardOutputGradient",
        {"Y": Y, "dY": floats(3, 1, 1), "lengths": int32([2, 0, 1]), "X": X},
        outputs=["dX"],
    ),
    case(
        "LengthsWeightedSumWithMainInputGradient",
        {"weights": floats(3), "dY": floats(2, 1, 2), "lengths": int32([2, 1]), "data": floats(3, 2)},
        outputs=["dX", "dW"],
    ),
    weighted_front((3,), (2,), None, 3, 2),
    weighted_front((3,), (2, 2), 1, 3, 2, 2),
    weighted_front((2, 3), (2,), 2, 2, 3, 2),
    weighted_front((6,), (1, 2), 2, 2, 3, 1, 2),
    weighted_front((0,), (2,), 1, 0, 2),
    weighted_front((3,), (), 1, 3),
    case("LengthsSumGradient", {"dY": floats(3, 2), "lengths": int32([2, 1])}, outputs=["dX"]),
    case("LengthsSumGradient", {"dY": floats(2, 2), "lengths": np.array([2, 1])}, outputs=["dX"]),
    case("LengthsTopKGradient", {"lengths": int32([2]), "indices": int32([1, 0]), "dY": floats(2)}, outputs=["dX"],
         args={"k": 2}),
    # Segments with fewer than k elements, whose last indices name elements all the same.
    case(
        "LengthsTopKGradient",
        {"lengths": int32([1, 3]), "indices": int32([[0, 0], [2, 0]]), "dY": floats(2, 2)},
        outputs=["dX"],
        args={"k": 2},
    ),
]  # fmt: skip

CASES += [
    case(
        "LengthsTopKGradient",
        {"L": int32([]), "I": np.zeros((0, 0), "int32"), "dY": np.zeros((0, 0), "float32")},
        outputs=["dX"],
        args={"k": 10},
    ),
]
