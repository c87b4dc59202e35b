"""Operators that no recorded test runs: NE, Or, Xor with both kinds of broadcasting, and StopGradient."""

from __future__ import annotations

from conformance.corpus import Array
from conformance.recording import case, generator


def bools(seed: int, *shape: int) -> Array:
    return generator(seed).integers(0, 2, shape).astype(bool)


def integers(seed: int, *shape: int) -> Array:
    return generator(seed).integers(0, 3, shape, dtype="int32")


CASES = [
    case("NE", {"A": integers(1, 2, 3), "B": integers(2, 2, 3)}, outputs=["C"]),
    case("NE", {"A": integers(3, 2, 3, 4), "B": integers(4, 4)}, outputs=["C"]),
    case("NE", {"A": integers(5, 2, 3, 4), "B": integers(6, 3)}, outputs=["C"], args={"broadcast": 1, "axis": 1}),
    case("NE", {"A": bools(7, 4), "B": bools(8, 4)}, outputs=["C"]),
    case("Or", {"A": bools(9, 2, 3), "B": bools(10, 2, 3)}, outputs=["C"]),
    case("Or", {"A": bools(11, 2, 1, 4), "B": bools(12, 3, 1)}, outputs=["C"]),
    case("Or", {"A": bools(13, 2, 3, 4), "B": bools(14, 2, 3)}, outputs=["C"], args={"broadcast": 1, "axis": 0}),
    case("Xor", {"A": bools(15, 2, 3), "B": bools(16, 2, 3)}, outputs=["C"]),
    case("Xor", {"A": bools(17, 2, 3, 4), "B": bools(18, 3, 4)}, outputs=["C"], args={"broadcast": 1}),
    case("StopGradient", {"X": generator(19).standard_normal((2, 3), dtype="float32")}),
    case("StopGradient", {"X": integers(20, 0, 3)}),
]
