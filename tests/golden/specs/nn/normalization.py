"""Normalizations and statistics: other axes, ranks, element types and empty batches; LRN; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, case, generator, net, operator


def normal(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape, dtype="float32")


def positive(seed: int, *shape: int) -> Array:
    return generator(seed).uniform(0.5, 2.0, shape).astype("float32")


def bn(shape: tuple[int, ...], channels: int, **args: Any) -> Spec:
    inputs = {
        "X": normal(1, *shape),
        "scale": normal(2, channels),
        "bias": normal(3, channels),
        "mean": normal(4, channels),
        "var": positive(5, channels),
    }
    if args.get("num_batches", 1) > 1:
        inputs |= {"m": normal(6, channels), "s": positive(7, channels) * 1000}
    args = {"is_test": 0} | args
    return case("SpatialBN", inputs, outputs=["Y"] if args["is_test"] else ["Y", "mean", "var", "m", "s"], args=args)


def affine(op_type: str, shape: tuple[int, ...], width: int, outputs: int, **args: Any) -> Spec:
    inputs = {"X": normal(8, *shape), "scale": normal(9, width), "bias": normal(10, width)}
    return case(op_type, inputs, outputs=["Y", "m", "s"][:outputs], args=args)


LRN = {"size": 3, "alpha": 0.5, "beta": 0.7, "bias": 2.0}

CASES = [
    *(bn((0, 3, 4, 5), 3, is_test=test) for test in (0, 1)),
    *(bn((0, 4, 5, 3), 3, is_test=test, order="NHWC") for test in (0, 1)),
    *(bn(shape, 3, is_test=test) for shape in ((4, 3), (4, 3, 5), (2, 3, 2, 3, 4)) for test in (0, 1)),
    *(bn(shape, 3, is_test=test, order="NHWC") for shape in ((4, 3), (2, 2, 3, 4, 3)) for test in (0, 1)),
    bn((4, 5, 6, 3), 3, num_batches=3, momentum=0.25, epsilon=1e-3, order="NHWC"),
    bn((1, 3), 3),
    *(affine("InstanceNorm", shape, 3, n) for shape in ((2, 3, 5), (2, 3, 2, 3, 4), (1, 3, 1, 1)) for n in (1, 2, 3)),
    affine("InstanceNorm", (2, 4, 5, 3), 3, 3, order="NHWC", epsilon=0.1),
    affine("InstanceNorm", (2, 4, 3), 3, 2, order="NHWC"),
    *(affine("GroupNorm", shape, 6, 3, group=3) for shape in ((2, 6), (2, 6, 5), (0, 6, 4, 4))),
    affine("GroupNorm", (2, 5, 4, 6), 6, 3, group=2, order="NHWC"),
    affine("GroupNorm", (2, 5, 4, 6), 6, 1, group=3, order="NHWC", is_test=1),
    affine("GroupNorm", (2, 32, 3), 32, 1),
    *(affine("LayerNorm", (3, 4), 4, 3, axis=axis, elementwise_affine=1) for axis in (1, -1)),
    affine("LayerNorm", (2, 3, 4), 12, 3, elementwise_affine=1),
    affine("LayerNorm", (2, 3, 4), 4, 3, elementwise_affine=1, axis=-1, epsilon=0.1),
    affine("LayerNorm", (2, 3, 4), 24, 3, elementwise_affine=1, axis=0),
    case("LayerNorm", {"X": normal(11, 2, 3, 4)}, outputs=["Y", "m", "s"], args={"axis": 2}),
    case("LayerNorm", {"X": normal(12, 0, 4)}, outputs=["Y", "m", "s"]),
    case("LayerNorm", {"X": normal(34, 2, 4)}, outputs=["Y", "m", "s"], args={"epsilon": float("inf")}),
    case("LayerNorm", {"X": np.ones((2, 4), np.float32)}, outputs=["Y", "m", "s"], args={"epsilon": 0.0}),
    *(
        case("LayerNorm", {"X": generator(13).standard_normal((2, 3, 4))}, outputs=["Y", "m", "s"], args={"axis": axis})
        for axis in (1, 2)
    ),
    case(
        "LayerNorm",
        {
            name: generator(i).standard_normal(shape)
            for i, (name, shape) in enumerate({"X": (2, 3), "g": 3, "b": 3}.items())
        },
        outputs=["Y", "m", "s"],
        args={"elementwise_affine": 1},
    ),
    *(
        affine("RMSNorm", (2, 3, 4), width, 2, axis=axis, eps=0.1)
        for axis, width in ((0, 24), (1, 12), (2, 4), (-1, 4))
    ),
    affine("RMSNorm", (0, 4), 4, 2),
    case(
        "RMSNorm",
        {
            name: generator(i).standard_normal(shape)
            for i, (name, shape) in enumerate({"X": (2, 3), "g": 3, "b": 3}.items())
        },
        outputs=["Y", "r"],
    ),
    *(
        case("LRN", {"X": normal(14, 2, 5, 3, 4)}, outputs=["Y", "scale"][:n], args=LRN | {"order": order})
        for n in (1, 2)
        for order in ("NCHW", "NHWC")
    ),
    *(case("LRN", {"X": normal(15, 2, 7, 3, 4)}, args=LRN | {"size": size}) for size in (1, 5, 9)),
    *(affine("AffineChannel", shape, 3, 1) for shape in ((2, 3), (2, 3, 4))),
    affine("AffineChannel", (2, 4, 3), 3, 1, order="NHWC"),
    *(
        case(t, {"X": normal(16, *shape)}, outputs=["a", "b"], args={"order": order})
        for t in ("BatchMoments", "ChannelStats")
        for shape, order in (((2, 3), "NCHW"), ((2, 3, 4), "NCHW"), ((2, 4, 3), "NHWC"))
    ),
    case("ChannelStats", {"X": normal(16, 3)}, outputs=["a", "b"], args={"order": "NHWC"}),
    *(
        case("Moments", {"X": normal(17, 2, 3, 4)}, outputs=["m", "v"], args={"axes": axes, "keepdims": keep})
        for axes in ([0], [2, 0], [0, 1, 2])
        for keep in (0, 1)
    ),
    case("Moments", {"X": normal(18, 2, 3, 4)}, outputs=["m", "v"]),
    *(case("LpNorm", {"X": normal(19, 2, 3)}, args={"p": p, "average": a}) for p in (1, 2) for a in (0, 1)),
    *(
        case(t, {"X": normal(20, 2, 3, 4)}, args={"axis": axis})
        for t in ("Normalize", "NormalizeL1")
        for axis in (0, 1, -2)
    ),
    case("Normalize", {"X": np.zeros((2, 3), "float32")}),
    case("Normalize", {"X": np.full((2, 3), 1e-14, "float32")}),
    net(
        [
            operator("Conv", ["X", "W"], ["c"], kernel=3, order="NHWC"),
            operator("SpatialBN", ["c", "s", "b", "m", "v"], ["c"], is_test=1, order="NHWC"),
            operator("Relu", ["c"], ["c"]),
            operator("MaxPool", ["c"], ["p"], kernel=2, stride=2, order="NHWC", legacy_pad=3),
            operator("NHWC2NCHW", ["p"], ["n"]),
            operator("FC", ["n", "fw", "fb"], ["f"]),
            operator("Softmax", ["f"], ["Y"]),
        ],
        {
            "X": normal(21, 2, 7, 7, 3),
            "W": normal(22, 4, 3, 3, 3),
            "s": normal(23, 4),
            "b": normal(24, 4),
            "m": normal(25, 4),
            "v": positive(26, 4),
            "fw": normal(27, 5, 36),
            "fb": normal(28, 5),
        },
    ),
    # Refused by real Caffe2.
    bn((2, 3, 4), 3, is_test=1, epsilon=0.0),
    bn((2, 3, 4), 3, momentum=1.5),
    bn((2, 3, 4), 4, is_test=1),
    affine("InstanceNorm", (2, 3, 4), 4, 1),
    affine("InstanceNorm", (2, 3, 4), 3, 1, epsilon=-1.0),
    affine("GroupNorm", (2, 6, 4), 6, 1, group=4),
    affine("GroupNorm", (2, 6, 4), 5, 1, group=3),
    affine("LayerNorm", (4,), 4, 3),
    affine("LayerNorm", (2, 4), 3, 3, elementwise_affine=1),
    affine("LayerNorm", (2, 4), 4, 3, axis=2),
    case("LayerNorm", {"X": normal(29, 2, 4)}, outputs=["Y", "m", "s"], args={"elementwise_affine": 1}),
    case("Moments", {"X": normal(30, 2, 3)}, outputs=["m", "v"], args={"axes": [2]}),
    case("Moments", {"X": normal(31, 2, 3)}, outputs=["m", "v"], args={"axes": [-1]}),
    case("LpNorm", {"X": normal(32, 2, 3)}, args={"p": 3}),
    case("Normalize", {"X": normal(33, 2, 3)}, args={"axis": 2}),
    case("NormalizeL1", {"X": generator(34).standard_normal((2, 3))}),
    case(
        "SpatialBN",
        {"X": normal(35, 2, 3), **dict.fromkeys(("s", "b", "m", "v"), np.zeros(3, np.float32))},
        outputs=["Y", "m2", "v2", "sm", "sv"],
    ),
    case("InstanceNorm", {"X": normal(35, 3), "s": np.zeros(3, np.float32), "b": np.zeros(3, np.float32)}),
]
