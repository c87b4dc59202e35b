"""Fills inside of a net: shapes from operands, every element type, and random ones whose outcome is certain."""

from __future__ import annotations

import math

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, case


def zeros(*shape: int) -> Array:
    return np.zeros(shape, "float32")


def of(*values: int, dtype: str = "int64") -> Array:
    return np.array(values, dtype)


def constants() -> list[Spec]:
    x, vector = zeros(2, 3), of(2, 3)
    return [
        *(case("ConstantFill", {"X": x}, args={"dtype": d, "value": 3}) for d in (2, 5, 6, 7, 8, 9, 10)),
        case("ConstantFill", {"X": x}, args={"dtype": 13, "value": 1.5}),
        case("ConstantFill", {"X": x}, args={"dtype": 4, "value": "text"}),
        case("ConstantFill", {"X": x}, args={"dtype": 6, "value": 300}),
        case("ConstantFill", {"X": x}, args={"value": 3}),
        case("ConstantFill", {"X": x}, args={"value": 3, "shape": [2]}),
        case("ConstantFill", {"X": x}, args={"value": "text"}),
        case("ConstantFill", {"X": x}, args={"value": 2.0, "extra_shape": [2, 0]}),
        case("ConstantFill", {"X": vector}, args={"value": 2.0, "input_as_shape": 1}),
        case("ConstantFill", {"X": vector}, args={"value": 2.0, "input_as_shape": 1, "extra_shape": [4]}),
        case("ConstantFill", {"X": of(2), "v": of(7)}, args={"dtype": 10, "input_as_shape": 1}),
        case("ConstantFill", {"X": of(2, dtype="int32")}, args={"value": 2.0, "input_as_shape": 1}),
        case("ConstantFill", {}, args={"input_as_shape": 1}),
        case("GivenTensorFill", {"X": x}, args={"values": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}),
        case("GivenTensorFill", {"X": zeros(1)}, args={"values": [1.0, 2.0], "extra_shape": [2]}),
        case("GivenTensorInt64Fill", {"X": of(2, 2)}, args={"values": [1, 2, 3, 4], "input_as_shape": 1}),
        case("GivenTensorStringFill", {}, args={"shape": [2], "values": ["one", "two"]}),
        case("GivenTensorStringFill", {"X": zeros(2, 1)}, args={"values": ["one", "two"]}),
        case("GivenTensorInt16Fill", {}, args={"shape": [2], "values": [3, -4]}),
        case("GivenTensorFill", {}, args={"shape": [2], "values": [1.0, 2.0, 3.0]}),
        case("Float16ConstantFill", {}, args={"shape": [2, 1], "value": 1.5}),
        *(case("DiagonalFill", {"X": zeros(*s)}, args={"value": 2.0}) for s in ((2, 3), (5, 2), (2, 2, 2), (0, 2))),
        case("DiagonalFill", {"X": zeros(3, 3)}, args={"value": 1, "dtype": 5}),
        case("DiagonalFill", {"X": of(4, 2)}, args={"value": 7, "input_as_shape": 1}),
        case("DiagonalFill", {"X": zeros(3)}, args={"value": 2.0}),
        case("RangeFill", {"X": x}),
        case("RangeFill", {}, args={"shape": [2, 2]}),
    ]


def certain() -> list[Spec]:
    x, empty = zeros(2, 3), zeros(0, 3)
    low, high = np.array([2], "float32"), np.array([-2], "float32")
    return [
        case("UniformFill", {"X": x, "a": low, "b": low}),
        case("UniformFill", {"X": x, "a": low, "b": high}),
        case("UniformFill", {"X": x}, args={"min": 2.0, "max": 1.0}),
        case("UniformIntFill", {"X": x, "a": of(4, dtype="int32"), "b": of(4, dtype="int32")}),
        case("UniformIntFill", {"X": empty}),
        case("GaussianFill", {"X": x}, args={"mean": 3.0, "std": 0.0}),
        case("GaussianFill", {"X": empty}),
        case("MSRAFill", {"X": empty}),
        case(
            "UniqueUniformFill",
            {"X": of(1), "avoid": of(3, 5, dtype="int32")},
            args={"min": 3, "max": 5, "input_as_shape": 1},
        ),
        case("UniqueUniformFill", {"X": empty}, args={"min": 3, "max": 5}),
    ]


def refused() -> list[Spec]:
    """Return cases of bounds that are no numbers, or infinitely far apart, on which onnxruntime ends the process."""
    return [
        case("UniformFill", {}, args={"shape": [2], **bounds})
        for bounds in ({"min": math.nan}, {"max": math.nan}, {"min": -math.inf}, {"max": math.inf}, {"min": 1.0})
    ]


# A range of one integer that is not avoided, beyond 32 bits.
WIDE = case(
    "UniqueUniformFill",
    {"X": np.array([1], np.int64), "avoid": np.array([1 << 40, (1 << 40) + 2], np.int64)},
    args={"min": 1 << 40, "max": (1 << 40) + 2, "input_as_shape": 1, "dtype": 10},
)

TOO_WIDE = case("UniqueUniformFill", {}, args={"min": 1, "max": 1 << 40, "shape": [2]})

CASES = [*constants(), *certain(), *refused(), WIDE, TOO_WIDE]
