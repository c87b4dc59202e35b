"""Gradient operators that are converted."""

from typing import Final

import numpy as np
from conformance.recording import case, generator

rng = generator(0)
SHAPES: Final = [(4,), (2, 3), (2, 0, 3), ()]


def floats(*shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) * 3).astype("float32")


CASES = [
    *(
        case(kind, {"X": floats(*shape), "dY": floats(*shape)}, outputs=["dX"])
        for kind in ("SinGradient", "CosGradient")
        for shape in SHAPES
    ),
    # Operands of other sizes, and other element types.
    case("SinGradient", {"X": floats(2, 3), "dY": floats(3, 2)}, outputs=["dX"]),
    case("SinGradient", {"X": floats(2).astype("float64"), "dY": floats(2).astype("float64")}, outputs=["dX"]),
    case("CosGradient", {"X": np.ones(2, "int32"), "dY": np.ones(2, "int32")}, outputs=["dX"]),
]

INF, NAN = np.inf, np.nan
HYPERBOLIC = np.array([89, -89, 88, 0.5, INF], np.float32)

CASES += [
    # Exponentials that overflow before the hyperbolic functions do, and a result of 0 with a large gradient.
    *(
        case(op_type, {"dY": np.array([0, 0, 1, 2, -INF], np.float32), "X": HYPERBOLIC}, outputs=["dX"])
        for op_type in ("SinhGradient", "CoshGradient")
    ),
    case(
        "SigmoidGradient",
        {"Y": np.array([3.4e38, 3.4e38, 0, 0.25], np.float32), "dY": np.array([0, 1, INF, 3], np.float32)},
        outputs=["dX"],
    ),
]

ROWS = floats(2, 3)
NORMS = np.array([[1.5, -2.0, 0.0, 1e-11, -1e-11, 1e-13, -1e-13, NAN]], np.float32)

CASES += [
    # A gradient of other dims than the result, which is read by its elements.
    *(
        case(f"{kind}Gradient", {"dC": floats(*dims), "A": ROWS, "B": ROWS[1], **more}, outputs=["dA", "dB"])
        for kind, more in (("Add", {}), ("Sub", {}), ("Mul", {}), ("Div", {"C": ROWS / ROWS[1]}))
        for dims in ((6,), (3, 2, 1), (1, 6, 1))
    ),
    # Differences from 0, the last ones below what counts as 0; and gradients that are not finite.
    *(case("AbsGradient", {"X": NORMS, "dY": dy}) for dy in (np.full_like(NORMS, INF), np.ones_like(NORMS))),
    case(
        "TileGradient",
        {"dY": np.array([[-1, 5, -(2**31), 2**31 - 1]], np.int32)},
        outputs=["dX"],
        args={"tiles": 2, "axis": 1},
    ),
]
