"""Gradients and optimizers: layers without columns, operands whose sizes alone count, and rates of several elements."""

from typing import Any

import numpy as np
from conformance.recording import Spec, case, generator

rng = generator(0)


def real(*shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape).astype("float32")


def layer(kind: str, x: tuple[int, ...], w: tuple[int, ...], dy: tuple[int, ...], **args: Any) -> Spec:
    return case(kind, {"X": real(*x), "W": real(*w), "dY": real(*dy)}, outputs=["dW", "db", "dX"], args=args)


def norm(kind: str, order: tuple[str, ...], scale: tuple[int, ...], moments: tuple[int, ...], **args: Any) -> Spec:
    image = (2, 4, 3, 2)
    arrays = {"dY": real(*image), "X": real(*image), "scale": real(*scale), "bias": real(4)}
    inputs = {name: arrays[name] for name in order}
    inputs |= {"mean": real(*moments), "inv_std": np.abs(real(*moments))}
    return case(kind, inputs, outputs=["dX", "dscale", "dbias"], args=args)


LARGE = np.array([[1e3, -3.4e38], [1e3, 65504.0]], "float32")
RATES = np.array([0.1, 7.0], "float32")

HOLE = {"i": np.array([2, 0, 1], "int32").reshape(3, 1), "dY": real(3, 2)}
KEPT = {"dY": real(2, 1), "mask": np.array([True, False])}
UNIT = {
    **{name: real(1, 2, 3) for name in ("H_prev", "C_prev")},
    "gates": real(1, 2, 12),
    "lengths": np.array([[1], [2]], "int32"),
    "timestep": np.array([0], "int32"),
    **{name: real(1, 2, 3) for name in ("H", "C")},
    "dH": real(2, 3),
    "dC": real(1, 2, 3),
}
SPECIAL = np.array([np.nan, np.inf, -np.inf, -1.0, 0.0, 1.0], "float32")
# Every pair of elements, of which ordinary ones meet those that are not finite.
EACH, PAIRED = (np.ascontiguousarray(grid.reshape(6, 6)) for grid in np.meshgrid(SPECIAL, SPECIAL))
BOUNDS = {"s": np.array([1], "int64"), "e": np.array([-1], "int64")}

CASES = [
    layer("FCGradient", (2, 0), (3, 0), (2, 3)),
    layer("FCTransposedGradient", (2, 0), (0, 3), (2, 3)),
    layer("FCTransposedGradient", (1, 3), (3, 0), (1, 0), axis_w=0),
    layer("FCGradient", (1, 3), (0, 3), (1, 0)),
    layer("FCGradient", (2, 3), (1, 3), (2, 1), axis_w=0),
    case("NormalizeGradient", {"X": np.array([[0.8, 0.6], [0.8, 0.8]], "float32"), "dY": LARGE}, outputs=["dX"]),
    case("WeightedSum", {"X": real(2, 3), "w": real(1), "Z": real(3, 2), "v": real(1)}),
    case("WeightedSum", {"X": np.array(2, "float32"), "w": real(1), "Z": real(1, 1), "v": real(1)}),
    norm("InstanceNormGradient", ("X", "scale", "bias", "dY"), (4, 1), (2, 4)),
    norm("GroupNormGradient", ("dY", "X", "scale", "bias"), (2, 2), (2, 2), group=2),
    case(
        "SoftmaxWithLossGradient",
        {"X": real(2, 3), "l": np.array([2, 0], "int32"), "p": np.abs(real(2, 3)), "d": RATES},
        outputs=["dX"],
    ),
    case(
        "SpatialSoftmaxWithLossGradient",
        {"X": real(1, 3, 2, 1), "l": np.array([[[2], [0]]], "int32"), "p": np.abs(real(1, 3, 2, 1)), "d": RATES},
        outputs=["dX"],
    ),
    case(
        "SparseAdagradFusedWithSparseLengthsSumGradient",
        {
            "w": real(3, 2),
            "m": np.abs(real(3, 2)),
            "i": np.array([1, 0, 1], "int64"),
            "g": real(2, 2),
            "lr": RATES,
            "l": np.array([2, 1], "int32"),
        },
        outputs=["w", "m"],
    ),
    case("BatchPermutationGradient", HOLE, outputs=["dX"]),
    case("DropoutGrad", KEPT, outputs=["dX"], args={"ratio": 0.25, "is_test": 0}),
    case("LSTMUnitGradient", UNIT, outputs=["dH_prev", "dC_prev", "dgates"]),
    case("MishGradient", {"X": real(6), "Y": real(2, 3), "dY": real(2, 3)}, outputs=["dX"]),
    case("ElementwiseLinearGradient", {"dY": real(4), "X": real(2, 2), "w": real(2)}, outputs=["dX", "dw", "db"]),
    case(
        "BooleanMaskGradient",
        {"mask": np.array([[True, False], [True, True]]), "dY": real(3)},
        outputs=["dX"],
    ),
    *(
        case("SliceGradient", {"X": rows, **BOUNDS, "dY": rows[1:]}, outputs=["dX"])
        for dtype in ("int8", "uint8", "int16", "uint16", "bool")
        for rows in (rng.integers(0, 2, (3, 2)).astype(dtype),)
    ),
    *(
        case("PReluGradient", {"Y": x, "dY": x, "X": x, "w": real(shape[1])}, outputs=["dX", "dw"])
        for shape in ((2, 0, 3), (0, 3, 2))
        for x in (real(*shape),)
    ),
    case(
        "AffineChannelGradient",
        {"dY": real(2, 3, 2), "X": real(2, 3, 2, 1), "scale": real(3)},
        outputs=["dX", "dscale", "dbias"],
        args={"is_learnable": 1},
    ),
    *(
        case(f"{kind}Gradient", {"Y": EACH, "dY": PAIRED}, outputs=["dX"], args=args)
        for kind, args in (("Clip", {"min": -0.5, "max": 0.5}), ("ThresholdedRelu", {}))
    ),
    case("PReluGradient", {"Y": EACH, "dY": PAIRED, "X": EACH, "w": real(6)}, outputs=["dX", "dw"]),
    case("LpNormGradient", {"X": SPECIAL, "dY": np.array([np.inf], "float32")}, outputs=["dX"], args={"p": 1}),
    *(
        case(kind, {"dY": SPECIAL[:3], "X": EACH[:3], "Y": np.abs(SPECIAL[3:])}, outputs=["dX"], args=args)
        for kind, args in (("ReduceMaxGradient", {"axes": [1], "keepdims": 0}), ("ReduceBackMaxGradient", {}))
    ),
    *(
        case(f"{kind}wiseMaxGradient", {"X": EACH[None], "Y": SPECIAL[None], "dY": PAIRED[:1]}, outputs=["dX"])
        for kind in ("Row", "Col")
    ),
    case(
        "SparseWngrad",
        {"w": real(2, 3), "b": np.zeros(1, "float32"), "i": np.array([], "int64"), "g": real(0, 3), "lr": real(1)},
        outputs=["w", "b"],
    ),
    # A small gradient beside a large sum of squares, and a weight that shows how their roots cancel.
    case(
        "Ftrl",
        {
            "w": np.array([-2.3442717e17, 0.5], "float32"),
            "nz": np.array([[0.6241227, 0.675856], [0.6241227, 0.675856]], "float32"),
            "g": np.array([0.0057471576, -0.0057471576], "float32"),
        },
        outputs=["w", "nz"],
        args={"alpha": 0.018769288435578346},
    ),
    case(
        "SpatialSoftmaxWithLossGradient",
        {"X": real(1, 3, 2, 1), "l": np.array([[[2], [0]]], "int32"), "p": np.abs(real(6)), "d": RATES},
        outputs=["dX"],
    ),
    # More weights than pixels, of which Caffe2 reads the first; labels of another rank, which it refuses.
    *(
        case(
            "SpatialSoftmaxWithLossGradient",
            {"X": real(1, 3, 2, 1), "l": labels, **weights, "p": np.abs(real(1, 3, 2, 1)), "d": RATES},
            outputs=["dX"],
        )
        for labels, weights in (
            (np.array([[[2], [0]]], "int32"), {"w": np.abs(real(1, 3, 2, 1))}),
            (np.array([[2, 0, 1]], "int32"), {"w": np.abs(real(2))}),
        )
    ),
    # A pixel that does not count, whatever its probabilities and its weight are.
    *(
        case(
            "SpatialSoftmaxWithLossGradient",
            {"X": real(1, 3, 2, 1), "l": np.array([[[2], [-1]]], "int32"), **weights, "p": p, "d": RATES},
            outputs=["dX"],
        )
        for p in (np.abs(real(1, 3, 2, 1)), np.abs(real(1, 3, 2, 1)) * np.array([[[[1], [np.nan]]]], "float32"))
        for weights in ({}, {"w": np.array([[[0.5], [np.nan]]], "float32")})
    ),
]
