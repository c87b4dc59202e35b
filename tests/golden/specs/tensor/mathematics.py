"""Arithmetic: broadcasting, element types, odd numbers and types of operators that the recorded tests do not have."""

from __future__ import annotations

from typing import Any

import numpy as np
from conformance.corpus import Array
from conformance.recording import ArgumentValue, Spec, case, generator


def normal(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape, dtype="float32")


def small(seed: int, *shape: int, dtype: str = "int32") -> Array:
    return generator(seed).integers(1, 5, shape).astype(dtype)


def binary(op_type: str, a: Array, b: Array, **args: ArgumentValue) -> Spec:
    return case(op_type, {"A": a, "B": b}, outputs=["C"], args=args)


def casts() -> list[Spec]:
    values: dict[str, list[Any]] = {
        "float32": [1.5, -1.5, 0, 300, -2.5, 1e-3],
        "float64": [1.5, -1.5, 0, 300],
        "int8": [-1, 0, 5],
        "uint8": [0, 255, 3],
        "int16": [-300, 0, 5],
        "uint16": [65535, 1],
        "int32": [-1, 0, 70000],
        "int64": [-1, 0, 2**40],
        "bool": [1, 0],
    }
    cases = [
        case("Cast", {"X": np.array(given).astype(dtype)}, args={"to": to})
        for dtype, given in values.items()
        for to in (1, 2, 5, 6, 7, 8, 9, 10, 13, *([] if "float" in dtype else [4]))
    ]
    x = np.array([1.5], "float32")
    names = [case("Cast", {"X": x}, args={"to": name}) for name in ("int32", "Double", "nothing")]
    return [*cases, *names, case("Cast", {"X": x}), case("Cast", {"X": x}, args={"to": 12})]


def broadcasts() -> list[Spec]:
    x, ones = normal(1, 2, 3, 4), normal(2, 1, 1)
    return [
        binary("Add", x, normal(3, 3), axis=1),  # an axis alone is not read; these do not broadcast
        binary("Add", x, normal(3, 4), axis=1),
        binary("Sub", x, normal(4, 3), broadcast=1, axis_str="C"),
        binary("Mul", x, normal(5, 3), broadcast=1, axis_str="H", order="NHW"),
        binary("Mul", x, normal(5, 3), broadcast=1, axis_str="H", order="NHC"),
        binary("Div", x, normal(6, 1, 3, 1), broadcast=1),
        binary("Add", x, normal(7, 1), broadcast=1, axis=7),
        binary("Add", x[0, 0], ones, broadcast=1),
        binary("Add", x, normal(8, 3, 1), broadcast=1, axis=1),
        binary("Add", x, normal(9, 2, 3), broadcast=1, axis=-2),
        binary("Add", x[:1], x, broadcast=1),
        binary("Add", x[:1], x),
        binary("GT", x, normal(10, 2), broadcast=1, axis=0),
        binary("Pow", np.abs(x), normal(11, 4)),
        binary("Pow", np.abs(x), normal(12, 4), broadcast=1),
        binary("Pow", np.abs(x), normal(13, 2), broadcast=1, axis_str="N"),
        binary("Pow", np.abs(x), x, axis=1),
        binary("Pow", small(14, 3).astype("float32"), np.zeros(3, "float32"), exponent=2.0),
        *(binary(t, small(15, 2, 3, dtype=d), small(16, 3, dtype=d)) for t in ("Add", "Sub", "Mul", "Div")
          for d in ("int32", "int64", "float64")),
        *(binary(t, small(17, 2, 3, dtype=d), small(18, 3, dtype=d)) for t in ("EQ", "NE", "LT", "LE", "GT", "GE")
          for d in ("float32", "float64", "int64", "bool")),
        *(binary(t, small(19, 4) > 2, small(20, 4) > 2) for t in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
        *(binary(t, small(21, 2, 4), small(22, 4), broadcast=1) for t in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
        binary("Div", np.array([-7, 7, -6], "int32"), np.array([2, -2, 4], "int32")),
        *(binary("And", small(23, 3, dtype=d), small(24, 3, dtype=d)) for d in ("int32", "float32")),
        binary("SumReduceLike", x, normal(25, 1)),
        binary("SumReduceLike", x, normal(26, 1, 1, 1, 1)),
        binary("SumReduceLike", x, normal(27, 3, 1), axis=1),
        binary("SumReduceLike", x, normal(28, 1, 3, 4)),
        binary("SumReduceLike", x, normal(29, 3), axis_str="C"),
        binary("SumReduceLike", x, x),
    ]  # fmt: skip


def elements() -> list[Spec]:
    x = normal(30, 3, 2)
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 2.0], "float32")
    dividends = np.array([-7, 7, 6, -8], "int32")
    mods: list[dict[str, ArgumentValue]] = [
        {"divisor": 2**40}, {"divisor": -4}, {"divisor": -4, "sign_follow_divisor": 1}, {"divisor": 0},
    ]  # fmt: skip
    condition = np.array([True, False, True])
    types = ("float64", "int32", "int64", "bool")
    halves = np.array([1, 65504, 70000, -1e9, 1e-9, 1.00048828125], "float32")
    return [
        *(case("Mod", {"X": dividends}, args=args) for args in mods),
        case("IsNaN", {"X": odd}), case("IsNaN", {"X": odd.astype("float64")}),
        case("ReplaceNaN", {"X": odd}), case("ReplaceNaN", {"X": odd.astype("float64")}, args={"value": 7.0}),
        case("Log1p", {"X": np.array([1e-7, 1e-3, np.inf, -1, 5], "float32")}),
        case("Cbrt", {"X": odd}), case("Log1p", {"X": x[:0]}),
        *(case(t, {"X": small(31, 3, dtype=d) - 3}) for t in ("Negative", "Sign", "Cube")
          for d in ("int32", "int64", "float64")),
        *(case("SquareRootDivide", {"X": x, "s": np.array([4, 0, 9], d)}) for d in ("float32", "int32", "int64")),
        case("RowMul", {"X": x, "w": normal(32, 1, 3)}),
        *(case("Sum", {"X": small(33, 3, dtype=d), "Z": small(34, 3, dtype=d)}) for d in ("int32", "int64", "float64")),
        case("Sum", {"X": x, "Z": x[:1]}),
        case("SumInt", {"X": dividends, "Z": dividends}), case("SumRelu", {"X": x, "Z": x, "V": -x}),
        case("SumRelu", {"X": dividends, "Z": dividends}),
        case("Mean", {"X": x, "Z": -x, "V": x}), case("Mean", {"X": x.astype("float64"), "Z": x.astype("float64")}),
        case("WeightedSum", {"X": x, "w": normal(35), "Z": x, "v": normal(36, 1, 1)}),
        case("WeightedSum", {"X": x[0, 0], "w": normal(37, 1)}),
        *(case("Where", {"C": condition, "A": small(38, 3, dtype=d), "B": small(39, 3, dtype=d)}) for d in types),
        case("Where", {"C": condition, "A": np.array(["a", "b", "c"], object), "B": np.array(["d", "e", "f"], object)}),
        case("Where", {"C": condition, "A": x, "B": -x}),
        *(case("Conditional", {"C": condition, "A": small(40, 3, 2, dtype=d), "B": small(41, 3, 2, dtype=d)})
          for d in (*types, "float16", "int8", "uint8", "int16", "uint16")),
        case("FloatToHalf", {"X": halves}), case("FloatToHalf", {"X": halves}, args={"clip": 1}),
        case("HalfToFloat", {"X": halves[:2].astype("float16")}),
        case("StumpFunc", {"X": x}, args={"threshold": 0.5, "low_value": -1.0, "high_value": 2.0}),
        case("StumpFunc", {"X": np.array([0, 1], "float32")}),
        case("StumpFuncIndex", {"X": x}, outputs=["low", "high"], args={"threshold": 0.5}),
        case("StumpFuncIndex", {"X": x}, outputs=["low", "high"], args={"threshold": 99.0}),
        case("SinusoidPositionEncoding", {"X": small(42, 4, 3, dtype="int64")}),
        case("SinusoidPositionEncoding", {"X": np.zeros((2, 2), "int32")}, args={"embedding_size": 5}),
    ]  # fmt: skip


CASES = [*casts(), *broadcasts(), *elements()]

CASES += [
    *(case("SinusoidPositionEncoding", {"X": np.zeros(shape, np.int32)}) for shape in ((0, 0), (0, 2))),
]

HASHES = np.array([2**60 + 7, 2**53 + 1, -(2**60) - 7, 2**63 - 1, -(2**63), 5, 0, -5], np.int64)

CASES += [
    *(case("Mod", {"X": HASHES}, args={"divisor": divisor}) for divisor in (1000, -7, 2**40 + 1, 1)),
    case("Mod", {"X": HASHES[:4]}, args={"divisor": -1}),
    case("Mod", {"X": HASHES}, args={"divisor": 1000, "sign_follow_divisor": 1}),
    case("Mod", {"X": HASHES.astype(np.int32)}, args={"divisor": 2**40}),
    # What the schemas refuse.
    case("WeightedSum", {"X": normal(43, 2, 3), "w": normal(44, 1), "Z": normal(43, 2, 3)}),
    case("Sum", {"X": normal(43, 2, 3), "Z": normal(43, 2, 3)}, outputs=["Z"]),
]
