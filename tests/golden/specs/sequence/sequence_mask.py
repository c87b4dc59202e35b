"""Every mode of SequenceMask with batch, repeated dims, windows and more lengths than rows."""

from __future__ import annotations

import numpy as np
from conformance.corpus import Array
from conformance.recording import case, generator


def normal(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape, dtype="float32")


def lengths(*values: int) -> Array:
    return np.array(values, "int32")


TRIANGLES = ("upper", "lower", "upperdiag", "lowerdiag")

CASES = [
    *(case("SequenceMask", {"X": normal(1, 4, 5)}, args={"mode": mode}) for mode in TRIANGLES),
    *(case("SequenceMask", {"X": normal(2, 2, 3, 3, 4)}, args={"mode": mode, "axis": -1}) for mode in TRIANGLES),
    *(case("SequenceMask", {"X": normal(3, 2, 3, 2, 4)}, args={"mode": m, "axis": 2, "batch": 0}) for m in TRIANGLES),
    case("SequenceMask", {"X": normal(4, 3, 4), "L": lengths(2, 0, 4)}, args={"mode": "sequence"}),
    case("SequenceMask", {"X": normal(5, 3, 4), "L": lengths(2, 0, 9, 1, 1)}, args={"mode": "sequence"}),
    case(
        "SequenceMask",
        {"X": normal(6, 2, 3, 4), "L": lengths(2, 0, 4)},
        args={"mode": "sequence", "axis": 2, "batch": 0},
    ),
    case("SequenceMask", {"X": normal(7, 2, 2, 4), "L": lengths(3, 6)}, args={"mode": "sequence", "fill_val": -5.0}),
    case(
        "SequenceMask",
        {"X": normal(8, 2, 3, 2, 2), "L": lengths(2, 3)},
        args={"mode": "sequence", "axis": 1, "repeat_from_axis": 3},
    ),
    case(
        "SequenceMask",
        {"X": normal(9, 2, 3, 2), "L": lengths(1, 1)},
        args={"mode": "sequence", "axis": 1, "repeat_from_axis": 1},
    ),
    case("SequenceMask", {"X": normal(10, 2, 8), "L": lengths(2, 6)}, args={"mode": "window", "radius": 1}),
    case("SequenceMask", {"X": normal(11, 2, 25), "L": lengths(0, 24)}, args={"mode": "window"}),
    case(
        "SequenceMask",
        {"X": normal(12, 2, 2, 8), "L": lengths(2, 6)},
        args={"mode": "window", "radius": 2, "axis": 2, "batch": 0, "grad": 1},
    ),
    case("SequenceMask", {"X": normal(13, 0, 4), "L": lengths()}, args={"mode": "sequence"}),
    case(
        "SequenceMask",
        {"X": normal(14, 2, 3, 4), "L": lengths(2, 1, 1)},
        args={"mode": "sequence", "axis": 1, "batch": 1},
    ),
    case("SequenceMask", {"X": normal(15, 3, 3)}, args={"mode": "diagonal"}),
    case("SequenceMask", {"X": normal(16, 3, 3)}, args={"mode": "upper", "repeat_from_axis": 1}),
    # One length a row, whatever the rank; an operand that the mode does not read.
    case("SequenceMask", {"X": normal(17, 2, 3), "L": lengths(1, 2).reshape(2, 1)}, args={"mode": "sequence"}),
    case("SequenceMask", {"X": normal(18, 2, 3), "L": lengths(1, 2)}, args={"mode": "upper"}),
    case("SequenceMask", {"X": normal(19, 2, 3).astype("float64"), "L": lengths(1, 2)}, args={"mode": "sequence"}),
    case("SequenceMask", {"X": normal(20, 2, 3), "L": lengths(1, 2).astype("int64")}, args={"mode": "sequence"}),
    case("SequenceMask", {"X": normal(21, 2, 3), "L": lengths(1, 2)}),
]
