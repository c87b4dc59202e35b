"""Small nets of the kinds that published models are made of, with what surrounds an operator there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from conformance.corpus import Array, Quantization
from conformance.recording import ArgumentValue, Spec, generator, net, operator


def floats(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape, dtype=np.float32)


def whole(seed: int, high: int, *shape: int, dtype: type = np.int64) -> Array:
    return generator(seed).integers(0, high, shape, dtype=dtype)


def q(scale: float, zero_point: int) -> Mapping[str, ArgumentValue]:
    return {"Y_scale": scale, "Y_zero_point": zero_point}


def weights(seed: int, scale: float, *shape: int) -> tuple[Array, Quantization]:
    return whole(seed, 256, *shape, dtype=np.uint8), (scale, 128)


# What real Caffe2 computes of one product goes into several sums.
SHARED_PRODUCT = net(
    [
        operator("MatMul", ["A", "B"], ["product"], trans_a=0, trans_b=0),
        operator("Add", ["product", "C"], ["sum"], broadcast=0),
        operator("Mul", ["A", "product"], ["scaled"], broadcast=0),
        operator("Sub", ["scaled", "sum"], ["Y"], broadcast=0),
    ],
    {"A": floats(1, 4, 4), "B": floats(2, 4, 4), "C": floats(3, 4, 4)},
)

# Layers over the last of several dims, weights stored either way.
LAYERS = net(
    [
        operator("FC", ["X", "W", "b"], ["H"], axis=3),
        operator("Relu", ["H"], ["H"]),
        operator("FCTransposed", ["H", "V", "c"], ["Y"], axis=3),
    ],
    {
        "X": floats(4, 2, 1, 3, 8),
        "W": floats(5, 6, 8),
        "b": floats(6, 6),
        "V": floats(7, 6, 5),
        "c": floats(8, 5),
    },
)

# A layer whose weight has leading dims of one, as converters from Caffe write them.
OLD_WEIGHT = net(
    [
        operator("AveragePool", ["X"], ["pooled"], kernel=3, stride=1, order="NCHW"),
        operator("FC", ["pooled", "W", "b"], ["Z"], axis_w=3),
        operator("Softmax", ["Z"], ["Y"]),
    ],
    {"X": floats(9, 2, 5, 3, 3), "W": floats(10, 1, 1, 4, 5), "b": floats(11, 4)},
)

CHANNELS_LAST = net(
    [
        operator("NCHW2NHWC", ["X"], ["last"]),
        operator("Conv", ["last", "W", "b"], ["H"], kernel=2, stride=1, pad=1, group=1, dilation=1, order="NHWC"),
        operator("MaxPool", ["H"], ["P"], kernel=2, stride=2, order="NHWC"),
        operator("NHWC2NCHW", ["P"], ["first"]),
        operator("ConvTranspose", ["first", "V", "c"], ["Y"], kernel=3, stride=2, pad=1, adj=1, group=1),
    ],
    {
        "X": floats(12, 1, 3, 7, 6),
        "W": floats(13, 4, 2, 2, 3),
        "b": floats(14, 4),
        "V": floats(15, 4, 2, 3, 3),
        "c": floats(16, 2),
    },
)

# Stacked along an axis that was not there, then cut from it.
STACKED = net(
    [
        operator("Concat", ["A", "B", "A"], ["stack", "sizes"], axis=2, add_axis=1),
        operator("Slice", ["stack"], ["part"], starts=[0, 0, 1], ends=[-1, -1, -1]),
        operator("ReduceBackMean", ["part"], ["Y"], num_reduce_dim=1),
    ],
    {"A": floats(17, 4, 3), "B": floats(18, 4, 3)},
)

# The shape of one blob, put together anew, is another one's.
MEASURED = net(
    [
        operator("GivenTensorIntFill", [], ["order"], shape=[4], values=[0, 3, 1, 2]),
        operator("Shape", ["X"], ["dims"]),
        operator("Gather", ["dims", "order"], ["target"]),
        operator("Reshape", ["X", "target"], ["Y", "old"]),
    ],
    {"X": floats(19, 1, 2, 4, 3)},
)

# Two embedding tables, pooled by lengths, next to dense features.
LOOKUPS = net(
    [
        operator("SparseLengthsSum", ["table", "ids", "lengths"], ["pooled"]),
        operator("SparseLengthsWeightedSum", ["other", "weights", "ids", "lengths"], ["weighted"]),
        operator("Concat", ["pooled", "weighted", "dense"], ["features", "sizes"], axis=1, add_axis=0),
        operator("Add", ["features", "shift"], ["features"], broadcast=1),
        operator("Mul", ["features", "scale"], ["features"], broadcast=1),
        operator("Clip", ["features"], ["features"], min=-2.0, max=2.0),
        operator("FCTransposed", ["features", "W", "b"], ["Z"]),
        operator("Sigmoid", ["Z"], ["Y"]),
    ],
    {
        "table": floats(20, 9, 3),
        "other": floats(21, 9, 2),
        "ids": whole(22, 9, 8),
        "lengths": np.array([3, 0, 4, 1], np.int32),
        "weights": floats(23, 8),
        "dense": floats(24, 4, 2),
        "shift": floats(25, 7),
        "scale": floats(26, 7),
        "W": floats(27, 7, 1),
        "b": floats(28, 1),
    },
)

# An inverted bottleneck of bytes: out, each channel by itself, in, and what came in added.
_OUT, _DEEP, _IN = weights(30, 0.004, 12, 1, 1, 4), weights(31, 0.02, 12, 3, 3, 1), weights(32, 0.003, 4, 1, 1, 12)
BOTTLENECK = net(
    [
        operator("NCHW2NHWC", ["X"], ["last"]),
        operator("Int8Quantize", ["last"], ["x"], **q(0.03, 120)),
        operator("Int8ConvRelu", ["x", "w1", "b1"], ["out"], kernel=1, pad=0, stride=1, order="NHWC", **q(0.02, 0)),
        operator("Int8Conv", ["out", "w2", "b2"], ["deep"], kernel=3, pad=1, group=12, order="NHWC", **q(0.05, 136)),
        operator("Int8Conv", ["deep", "w3", "b3"], ["in"], kernel=1, pad=0, stride=1, order="NHWC", **q(0.04, 110)),
        operator("Int8Sum", ["in", "x"], ["sum"], order="NHWC", **q(0.05, 118)),
        operator(
            "Int8ResizeNearest", ["sum"], ["big"], height_scale=2.0, width_scale=2.0, order="NHWC", **q(0.05, 118)
        ),
        operator("Int8AveragePool", ["big"], ["mean"], kernel=3, stride=1, order="NHWC", **q(0.04, 100)),
        operator("Int8Dequantize", ["mean"], ["real"]),
        operator("NHWC2NCHW", ["real"], ["Y"]),
    ],
    {
        "X": floats(33, 2, 4, 6, 5),
        "w1": _OUT[0],
        "b1": whole(34, 999, 12, dtype=np.int32) - 500,
        "w2": _DEEP[0],
        "b2": whole(35, 999, 12, dtype=np.int32) - 500,
        "w3": _IN[0],
        "b3": whole(36, 999, 4, dtype=np.int32) - 500,
    },
    quantized={
        "w1": _OUT[1],
        "b1": (0.03 * 0.004, 0),
        "w2": _DEEP[1],
        "b2": (0.02 * 0.02, 0),
        "w3": _IN[1],
        "b3": (0.05 * 0.003, 0),
    },
)

_LAYER = weights(40, 0.01, 5, 24)
HEAD = net(
    [
        operator("Int8Quantize", ["X"], ["x"], **q(0.04, 0)),
        operator("Int8FC", ["x", "w", "b"], ["z"], order="NHWC", **q(0.08, 80)),
        operator("Int8Softmax", ["z"], ["y"], order="NHWC", **q(1 / 256, 0)),
        operator("Int8Dequantize", ["y"], ["Y"]),
    ],
    {"X": np.abs(floats(41, 3, 2, 3, 4)) * 3, "w": _LAYER[0], "b": whole(42, 999, 5, dtype=np.int32)},
    quantized={"w": _LAYER[1], "b": (0.04 * 0.01, 0)},
)


def optional_branch(boxes: int) -> Spec:
    """Return a net that computes masks only where there are boxes: bytes that the body reads are made outside."""
    inside = [
        operator("RoIAlign", ["real", "boxes"], ["regions"], pooled_h=2, pooled_w=2, sampling_ratio=0, order="NHWC"),
        operator("Int8Quantize", ["regions"], ["bytes"], **q(0.02, 127)),
        operator("Int8Relu", ["bytes"], ["bytes"], **q(0.02, 127)),
        operator("Int8Dequantize", ["bytes"], ["masks"]),
    ]
    corners = np.array([[0, 0, 3, 3], [1, 1, 4, 2], [0.5, 0, 2, 3.5]], np.float32)[:boxes]
    return net(
        [
            operator("Int8Quantize", ["X"], ["x"], **q(0.03, 120)),
            operator("Int8Dequantize", ["x"], ["real"]),
            operator("ConstantFill", [], ["masks"], shape=[0, 2, 2, 3]),
            operator("IsEmpty", ["boxes"], ["none"]),
            operator("If", ["none"], [], then_net=net([], {}).net, else_net=net(inside, {}).net),
            operator("Copy", ["masks"], ["Y"]),
        ],
        {"X": floats(50, 1, 5, 6, 3), "boxes": corners},
    )


# Scores of which the sigmoid is nearly 0, and what a logarithm, a division and their gradients make of it.
SCORES = np.array([-5, -15, -17, -20, -30, -80, 0, 20], np.float32)
CLASS_LOSS = net(
    [
        operator("Sigmoid", ["X"], ["P"]),
        operator("MakeTwoClass", ["P"], ["P2"]),
        operator("LabelCrossEntropy", ["P2", "label"], ["loss"]),
        operator("LabelCrossEntropyGradient", ["P2", "label", "dloss"], ["P2_grad"]),
        operator("MakeTwoClassGradient", ["P2_grad"], ["P_grad"]),
        operator("SigmoidGradient", ["P", "P_grad"], ["X_grad"]),
    ],
    {"X": SCORES[:, None], "label": np.array([1, 1, 1, 1, 0, 1, 1, 1], np.int32), "dloss": np.ones(8, np.float32)},
)
ODDS = net(
    [
        operator("Sigmoid", ["X"], ["P"]),
        operator("Clip", ["P"], ["Q"], min=1e-12, max=1.0),
        operator("Log", ["Q"], ["log"]),
        operator("Reciprocal", ["Q"], ["inverse"]),
    ],
    {"X": SCORES},
)

CASES = [
    SHARED_PRODUCT,
    LAYERS,
    OLD_WEIGHT,
    CHANNELS_LAST,
    STACKED,
    MEASURED,
    LOOKUPS,
    BOTTLENECK,
    HEAD,
    optional_branch(3),
    optional_branch(0),
    CLASS_LOSS,
    ODDS,
]
