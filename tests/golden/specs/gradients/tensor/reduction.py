"""Gradients of reductions that Caffe2's own tests do not run."""

from typing import Any

import numpy as np
from conformance.recording import Spec, case, generator

Array = np.ndarray[Any, Any]

rng = generator(0)


def whole(*shape: int) -> Array:
    """Return floats among few integers, so that maxima are reached more than once."""
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
    # An axis twice: the result has a later one of the dims, and the gradient reads its first elements.
    *(
        case(
            f"Reduce{kind}Gradient",
            {"dY": whole(*dims) + 2, "X": whole(2, 3, 4) - 5, "Y": whole(*dims)},
            outputs=["dX"],
            args={"axes": axes, "keepdims": keep},
        )
        for kind in ("Sum", "Mean", "L1", "L2", "Max", "Min")
        for axes, keep, dims in (
            ([0, 1, 2, 1], 0, (4,)),
            ([0, 1, 2, 1], 1, (1, 1, 4)),
            ([1, 2, 1], 0, (2, 4)),
            ([1, 2, 1], 1, (2, 1, 4)),
            ([0, 0], 0, (3, 4)),
            ([-1, 2], 1, (2, 3, 1)),
        )
    ),
    *(
        case(
            "MomentsGradient",
            {"dM": whole(*dims) + 2, "dV": whole(*dims), "X": whole(2, 3, 4) - 5, "M": whole(*dims)},
            outputs=["dX"],
            args={"axes": axes, "keepdims": keep},
        )
        for axes, keep, dims in (
            ([0, 1, 2, 1], 0, (4,)),
            ([0, 1, 2, 1], 1, (1, 1, 4)),
            ([1, 2, 1], 0, (2, 4)),
            ([1, 2, 1], 1, (2, 1, 4)),
        )
    ),
]

NORMS = np.array([[1.5, -2.0, 0.0, 1e-11, -1e-11, 1e-13, -1e-13, np.nan]], "float32")

CASES += [
    # Elements below what counts as 0, and norms that are not.
    *(
        case(
            "ReduceL1Gradient",
            {"dY": np.array([[dy]], "float32"), "X": NORMS, "Y": np.ones((1, 1), "float32")},
            outputs=["dX"],
        )
        for dy in (2.5, np.inf)
    ),
    *(
        case(
            "ReduceL2Gradient",
            {"dY": np.array([[2.5]], "float32"), "X": whole(1, 3), "Y": np.array([[norm]], "float32")},
            outputs=["dX"],
        )
        for norm in (1e-13, -1.0, 2.0)
    ),
    case(
        "ReduceBackMeanGradient",
        {"dY": np.array([[1], [2]], "int32"), "X": np.zeros((2, 1, 0), "int32")},
        outputs=["dX"],
    ),
]
