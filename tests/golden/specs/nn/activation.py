"""Activations at their edges: infinities, NaN, empty tensors, element types, axes; and what is refused."""

from __future__ import annotations

import numpy as np
from conformance.corpus import Array
from conformance.recording import case, generator

EDGES = np.array([[-np.inf, -100.0, -3.0, -1.0, -0.5], [0.0, 0.5, 1.0, 3.0, 100.0]], "float32")
PLAIN = (
    "Relu", "LeakyRelu", "Sigmoid", "Tanh", "Softplus", "Softsign", "Elu", "Selu", "HardSigmoid", "Gelu", "Mish",
    "Swish", "ThresholdedRelu", "ReluN", "Logit", "Clip", "EnsureClipped",
)  # fmt: skip


def normal(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape, dtype="float32")


CASES = [
    # Of 100, real Caffe2's Softplus is infinite.
    *(case(t, {"X": EDGES[:, 1:4] if t == "Softplus" else EDGES[:, 1:]}) for t in PLAIN),
    *(case(t, {"X": np.zeros((0, 3), "float32")}) for t in PLAIN),
    *(case(t, {"X": EDGES}) for t in ("Relu", "Sigmoid", "Tanh", "Clip", "ReluN", "ThresholdedRelu")),
    *(case(t, {"X": np.array([np.nan, 1.0], "float32")}) for t in ("Relu", "Sigmoid", "ReluN", "Swish")),
    case("Gelu", {"X": EDGES[:, 1:]}, args={"fast_gelu": 1}),
    case("Mish", {"X": EDGES[:, 1:].astype("float64")}),
    *(case("Elu", {"X": EDGES[:, 1:]}, args={"alpha": a}) for a in (0.0, 2.5)),
    *(case("Clip", {"X": EDGES}, args=a) for a in ({"min": 0.25}, {"max": 0.25}, {"min": 2.0, "max": 1.0})),
    *(case("ThresholdedRelu", {"X": EDGES}, args={"alpha": a}) for a in (0.5, 0.0, -0.75)),
    case("ReluN", {"X": EDGES}, args={"n": 0.75}),
    case("Logit", {"X": generator(1).uniform(size=(3, 4)).astype("float32")}, args={"eps": 0.2}),
    *(
        case("PRelu", {"X": normal(2, *shape), "W": normal(3, width)}, args={"order": order})
        for shape, width, order in (
            ((2, 4), 4, "NCHW"),
            ((2, 4), 1, "NCHW"),
            ((2, 3, 4), 3, "NCHW"),
            ((2, 3, 4), 4, "NHWC"),
            ((2, 3, 4), 1, "NHWC"),
            ((2, 3, 4, 5, 2), 3, "NCHW"),
            ((0, 3, 4), 3, "NCHW"),
        )
    ),
    *(case("Glu", {"X": normal(4, 2, 4, 6)}, args={"dim": dim}) for dim in (-1, 0, 1, 2)),
    *(case("Softmax", {"X": normal(5, 2, 3, 4)}, args={"axis": axis}) for axis in (0, 1, 2, -1, -2)),
    *(case("Softmax", {"X": normal(6, *shape)}) for shape in ((0, 3), (0, 3, 2), (3, 0))),
    case("Softmax", {"X": normal(7, 5)}, args={"axis": 0}),
    case("Softmax", {"X": EDGES}),
    case("Dropout", {"X": normal(8, 2, 3)}, args={"is_test": 1, "ratio": 0.25}),
    case("Dropout", {"X": normal(9, 0, 3)}, outputs=["Y", "mask"], args={"is_test": 0}),
    case("DropoutGrad", {"dY": normal(10, 2, 3), "mask": normal(11, 2, 3) > 0}, args={"is_test": 0, "ratio": 0.25}),
    case("DropoutGrad", {"dY": normal(12, 2, 3)}, args={"is_test": 1, "ratio": 0.25}),
    *(
        case(
            "EnsureClipped",
            {"X": EDGES.T.copy(), "i": np.array(rows, dtype), "g": normal(13, len(rows), 2)},
            outputs=["X"],
            args={"min": -1.0, "max": 2.0},
        )
        for rows, dtype in (([4, 1, 4], "int64"), ([2], "int32"), ([], "int64"))
    ),
    *(
        case(
            "ClipTensorByScaling",
            {"X": normal(14, 2, 3), "norm": np.array([value], "float32")} | extra,
            args={"threshold": 0.5},
        )
        for value in (0.25, 4.0)
        for extra in ({}, {"more": np.array([3.0], "float32")})
    ),
    # Refused by real Caffe2.
    *(case(t, {"X": EDGES.astype("float64")}) for t in PLAIN if t != "Mish"),
    case("Relu", {"X": np.arange(3, dtype="int32")}),
    case("Selu", {"X": EDGES}, args={"scale": 0.5}),
    case("ReluN", {"X": EDGES}, args={"n": 0.0}),
    case("Logit", {"X": EDGES}, args={"eps": 0.5}),
    case("Clip", {"X": EDGES}, args={"min": 0}),
    case("Glu", {"X": normal(15, 2, 3)}),
    case("PRelu", {"X": normal(16, 3), "W": normal(17, 1)}),
    case("PRelu", {"X": normal(18, 2, 3), "W": normal(19, 2)}),
    case("Softmax", {"X": normal(20, 3)}),
    case("Dropout", {"X": normal(21, 3)}, outputs=["Y", "mask"]),
    case("Dropout", {"X": normal(22, 3)}, outputs=["Y", "mask"], args={"is_test": 1, "ratio": 1.0}),
    case("ClipTensorByScaling", {"X": normal(23, 3), "norm": np.ones(1, "float32")}),
    case("Relu", {"X": normal(24, 2, 3), "Z": normal(24, 2, 3)}),
    case("Relu", {"X": normal(24, 2, 3)}, outputs=["Y", "Z"]),
    case("Softmax", {"X": normal(24, 2, 3)}, outputs=["X"]),
]
