"""Gradients of reductions that Caffe2's own tests do not run."""

from typing import Any

import numpy as np
from conformance.recording import Spec, case, generator

Array = np.ndarray[Any, Any]

rng = generator(0)


def whole(*shape: int) -> Array:
    """Floats among few integers, so that maxima are reached more than once."""
    return rng.integers(-3, 3, shape).astype("float32")


def matrices(axis: int, *shape: int) -> Spec:
    x = whole(*shape)
    y = x.max(axis)
    name = "RowwiseMaxGradient" if axis == 2 else "ColwiseMaxGradient"
    return case(name, {"X": x, "Y": y, "dY": whole(*y.shape)}, outputs=["dX"])


SHAPES = [(2, 3, 4), (1, 5, 1), (3, 1, 6), (1, 1, 1), (2, 7, 3)]
CASES = [
    *(matrices(axis, *shape) for axis in (1, 2) for shape in SHAPES),
    case(
        "MomentsGradient",
        {"dm": whole(2), "dv": whole(2), "X": whole(2, 3), "m": whole(2)},
        outputs=["dX"],
        args={"axes": [1], "keepdims": 0},
    ),
    case(
        "ReduceL2Gradient",
        {"dY": whole(2), "X": np.zeros((2, 3), "float32"), "Y": np.zeros(2, "float32")},
        outputs=["dX"],
        args={"axes": [1], "keepdims": 0},
    ),
    case(
        "ReduceFrontMeanGradient", {"dY": np.arange(3, dtype="int32"), "X": np.zeros((2, 3), "int32")}, outputs=["dX"]
    ),
    case("ReduceFrontSumGradient", {"dY": whole(3), "shape": np.array([2, 3], "int64")}, outputs=["dX"]),
    case(
        "DivGradient",
        {"B": whole(3) + 9, "C": whole(2, 3), "dC": whole(2, 3)},
        outputs=["dA", "dB"],
        args={"broadcast": 1},
    ),
    case(
        "AddGradient",
        {"dC": np.ones((2, 3), "int32"), "A": np.ones((2, 3), "int32"), "B": np.ones(3, "int32")},
        outputs=["dA", "dB"],
    ),
]
