"""Int8 operators: each argument and layout that the recorded nets do not use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from conformance.corpus import Array, Quantization
from conformance.recording import ArgumentValue, Spec, case, generator, net, operator


def q(scale: float, zero_point: int) -> dict[str, ArgumentValue]:
    return {"Y_scale": scale, "Y_zero_point": zero_point}


def image(seed: int, *shape: int) -> Array:
    return generator(seed).integers(0, 256, shape, dtype=np.uint8)


def unary(
    op_type: str, x: Array, kind: Quantization, *, outputs: Sequence[str] = ("Y",), **args: ArgumentValue
) -> Spec:
    return case(op_type, {"X": x}, outputs=outputs, args=args, quantized={"X": kind})


def weighted(
    op_type: str,
    seed: int,
    x: tuple[int, ...],
    w: tuple[int, ...],
    filters: int,
    kinds: tuple[Quantization, Quantization],
    **args: ArgumentValue,
) -> Spec:
    bias = generator(seed).integers(-2000, 2000, filters, dtype=np.int32)
    inputs = {"X": image(seed, *x), "W": image(seed + 1, *w), "B": bias}
    quantized = {"X": kinds[0], "W": kinds[1], "B": (kinds[0][0] * kinds[1][0], 0)}
    return case(op_type, inputs, args=args, quantized=quantized)


X, W = (0.05, 121), (0.01, 140)
EVERY = np.arange(256, dtype=np.uint8)

CONVOLUTIONS = [
    weighted(kind, seed, x, w, w[0], (X, W), order="NHWC", **window, **q(scale, zero))
    for seed, (kind, x, w, window, scale, zero) in enumerate(
        [
            ("Int8Conv", (2, 9, 7, 3), (5, 3, 3, 3), {"kernel": 3, "stride": 2, "pad": 1}, 0.1, 9),
            ("Int8Conv", (1, 9, 8, 6), (4, 3, 2, 3), {"kernel_h": 3, "kernel_w": 2, "group": 2}, 0.2, 128),
            ("Int8Conv", (1, 9, 8, 6), (6, 3, 3, 1), {"kernel": 3, "group": 6, "pad": 1}, 0.03, 77),
            ("Int8ConvRelu", (1, 9, 8, 12), (12, 5, 5, 1), {"kernel": 5, "group": 12, "pad": 2}, 0.03, 77),
            ("Int8Conv", (1, 11, 12, 4), (3, 3, 3, 4), {"kernel": 3, "dilation": 2}, 0.0937, 255),
            ("Int8ConvRelu", (1, 8, 8, 9), (7, 3, 3, 9), {"kernels": [3, 3], "pads": [0, 1, 2, 1]}, 0.3, 0),
            ("Int8ConvRelu", (2, 8, 7, 4), (7, 3, 3, 4), {"kernel": 3, "stride": 2, "legacy_pad": 2}, 0.3, 40),
            ("Int8Conv", (1, 6, 6, 300), (8, 1, 1, 300), {"kernel": 1}, 0.001, 100),
            ("Int8Conv", (0, 6, 6, 3), (8, 1, 1, 3), {"kernel": 1}, 0.1, 100),
        ]
    )
]

TRANSPOSED = [
    weighted("Int8ConvTranspose", seed, x, w, w[3], (X, W), order="NHWC", **window, **q(0.08, 30))
    for seed, (x, w, window) in enumerate(
        [
            ((1, 5, 4, 3), (3, 3, 3, 6), {"kernel": 3, "stride": 2}),
            ((2, 5, 4, 3), (3, 3, 2, 5), {"kernel_h": 3, "kernel_w": 2, "stride_h": 2, "stride_w": 1}),
            ((1, 5, 4, 3), (3, 4, 4, 6), {"kernel": 4, "stride": 2, "pad": 1, "adj": 1}),
            ((1, 5, 4, 9), (9, 2, 2, 2), {"kernel": 2, "stride": 3, "adj": 2}),
            ((1, 5, 5, 3), (3, 3, 3, 4), {"kernel": 3, "pads": [2, 0, 1, 2]}),
        ],
        20,
    )
]

LAYERS = [
    weighted("Int8FC", seed, x, w, w[0], (X, W), **q(scale, 99))
    for seed, (x, w, scale) in enumerate(
        [((5, 40), (7, 40), 0.3), ((2, 3, 2, 4), (6, 24), 0.05), ((3, 5), (9, 5), 0.5), ((0, 5), (9, 5), 0.5)], 40
    )
]

POOLS = [
    unary(kind, image(seed, *x), (0.05, 121), order="NHWC", **window, **q(scale, zero))
    for seed, (kind, x, window, scale, zero) in enumerate(
        [
            ("Int8AveragePool", (2, 7, 7, 5), {"kernel": 7}, 0.03, 90),
            ("Int8AveragePool", (2, 6, 9, 5), {"global_pooling": 1}, 0.05, 121),
            ("Int8AveragePool", (1, 9, 8, 17), {"kernel": 3, "stride": 2, "pad": 1}, 0.02, 100),
            ("Int8AveragePoolRelu", (1, 9, 8, 3), {"kernel": 3, "stride": 1}, 0.05, 121),
            ("Int8AveragePool", (1, 9, 8, 9), {"kernel_h": 2, "kernel_w": 4, "pads": [1, 0, 0, 2]}, 0.05, 121),
            ("Int8AveragePool", (1, 9, 8, 9), {"kernel": 3, "stride": 2, "legacy_pad": 2}, 0.05, 0),
            ("Int8AveragePool", (1, 12, 12, 9), {"kernel": 5}, 0.05, 3),
            ("Int8MaxPool", (1, 9, 8, 17), {"kernel": 3, "stride": 2, "pad": 1}, 0.05, 121),
            ("Int8MaxPoolRelu", (1, 9, 8, 17), {"kernel": 2, "stride": 2}, 0.05, 121),
            ("Int8MaxPool", (1, 9, 8, 4), {"kernel_h": 1, "kernel_w": 3, "pads": [0, 1, 0, 2]}, 0.05, 121),
            ("Int8MaxPool", (1, 9, 8, 4), {"kernel": 3, "stride": 2, "legacy_pad": 3}, 0.05, 121),
            ("Int8AveragePool", (1, 9, 8, 4), {"kernel": 3, "stride": 2, "legacy_pad": 3}, 0.05, 121),
            ("Int8MaxPool", (2, 6, 9, 5), {"global_pooling": 1}, 0.05, 121),
        ],
        60,
    )
]

FUNCTIONS = [
    *[unary("Int8Sigmoid", EVERY, kind, **q(1 / 256, 0)) for kind in [(0.02, 0), (0.0471, 128), (0.25, 200)]],
    *[
        unary("Int8LeakyRelu", EVERY, kind, alpha=alpha, **q(*to))
        for kind, alpha, to in [
            ((0.5, 128), 0.25, (0.25, 100)),
            ((0.03, 77), 0.1, (0.04, 128)),
            ((1.0, 255), 0.5, (1.0, 255)),
        ]
    ],
    unary("Int8LeakyRelu", EVERY, (0.03, 77), **q(0.02, 7)),
    unary("Int8Relu", EVERY.reshape(4, 64), (0.03, 77), **q(0.03, 77)),
    *[
        unary("Int8Softmax", image(seed, *shape), kind, **q(1 / 256, 0))
        for seed, (shape, kind) in enumerate(
            [((3, 700), (0.05, 3)), ((2, 3, 4), (0.1, 128)), ((4, 2), (0.003, 0)), ((5, 1), (0.1, 0))], 80
        )
    ],
    unary("Int8Dequantize", EVERY, (0.0117, 93)),
]

SUMS = [
    case(
        kind,
        {"A": EVERY[:, None].repeat(256, 1), "B": EVERY[None].repeat(256, 0)},
        args={**q(*to), "order": "NHWC"},
        quantized={"A": a, "B": b},
    )
    for kind, a, b, to in [
        ("Int8Add", (0.05, 128), (0.1, 12), (0.13, 100)),
        ("Int8Sum", (0.5, 10), (0.25, 20), (0.5, 0)),
        ("Int8AddRelu", (0.021, 7), (0.9, 250), (0.2, 3)),
        ("Int8SumRelu", (0.0463, 128), (0.0197, 0), (0.0463, 128)),
    ]
]

SAME = q(0.05, 121)
MOVES = [
    unary("Int8ChannelShuffle", image(90, 2, 3, 4, 6), (0.05, 121), order="NHWC", group=3, kernel=1, **SAME),
    unary("Int8Flatten", image(91, 2, 3, 4), (0.05, 121), axis=2, **SAME),
    unary("Int8Flatten", image(91, 2, 3, 4), (0.05, 121), **SAME),
    unary("Int8Reshape", image(92, 2, 3, 4), (0.05, 121), outputs=("Y", "old"), shape=[0, 2, -1], **SAME),
    unary("Int8Transpose", image(93, 2, 3, 4), (0.05, 121), **SAME),
    unary("Int8Slice", image(94, 5, 3), (0.05, 121), starts=[1, 0], ends=[-2, -1], **SAME),
    unary("Int8Slice", image(94, 5, 3), (0.05, 121), dim=1, start_idx=1, end_idx=3, **SAME),
    case(
        "Int8Slice",
        {"X": image(95, 5, 3), "S": np.array([1, 0], np.int64), "E": np.array([3, -1], np.int64)},
        args=SAME,
        quantized={"X": (0.05, 121)},
    ),
    case(
        "Int8Reshape",
        {"X": image(96, 5, 6), "S": np.array([3, -1], np.int32)},
        outputs=("Y", "old"),
        args=SAME,
        quantized={"X": (0.05, 121)},
    ),
    *[
        unary("Int8ResizeNearest", image(97, 1, 4, 3, 2), (0.05, 121), height_scale=h, width_scale=w, **SAME)
        for h, w in [(2.0, 1.5), (0.5, 1.0), (1.7, 3.0)]
    ],
    *[
        case(
            "Int8Concat",
            {"A": image(98, 2, 3, 4, 5), "B": image(99, 2, 3, 4, 5)},
            outputs=("Y", "dims"),
            args={**SAME, **args},
            quantized={"A": (0.05, 121), "B": (0.07, 3)},
        )
        for args in [{}, {"order": "NHWC"}, {"order": "NCHW"}, {"axis": 2}, {"order": "NHWC", "axis": 1}]
    ],
]

REGIONS = np.array([[0, 1, 1, 9, 11], [1, -5, 2, 30, 8], [0, 3.2, 3.2, 3.3, 3.4], [1, 0, 0, 25, 22]], np.float32)
ALIGNED = [
    case(
        "Int8RoIAlign",
        {"X": image(100, 2, 12, 14, 5), "R": regions},
        args={"pooled_h": 3, "pooled_w": 2, "spatial_scale": 0.5, "order": "NHWC", **args, **q(*to)},
        quantized={"X": (0.05, 121)},
    )
    for regions, args, to in [
        (REGIONS, {"sampling_ratio": 2}, (0.04, 100)),
        (REGIONS, {"sampling_ratio": 3}, (0.05, 121)),
        (REGIONS, {"sampling_ratio": 0}, (0.03, 9)),
        (REGIONS[:, 1:], {"sampling_ratio": 0}, (0.05, 121)),
        (REGIONS, {"sampling_ratio": 2, "aligned": 1}, (0.05, 121)),
        (REGIONS[:0], {"sampling_ratio": 2}, (0.05, 121)),
    ]
]

FLOATS = np.concatenate([np.arange(-20, 20) / 8, [1e6, -1e6, 0.3, -0.7]]).astype(np.float32)
CONVERSIONS = [
    *[case("Int8Quantize", {"X": FLOATS}, args=q(*to)) for to in [(0.25, 7), (0.1, 128), (1.0, 0)]],
    case("Int8GivenTensorFill", {}, args={"shape": [2, 2], "values": b"\x00\x80\xff\x07", **q(0.3, 5)}),
    case("Int8GivenIntTensorFill", {}, args={"shape": [3], "values": [-70000, 3, 5], **q(0.3, 0)}),
]

BRANCHES = [
    net(
        [
            operator("Int8Quantize", ["X"], ["A"], **q(0.1, 128)),
            operator(
                "If",
                ["C"],
                [],
                then_net=net([operator("Int8Relu", ["A"], ["A"], **q(0.1, 128))], {}).net,
                else_net=net([operator("Int8Sigmoid", ["A"], ["S"], **q(1 / 256, 0))], {}).net,
            ),
            operator("Int8Dequantize", ["A"], ["Y"]),
        ],
        {"X": generator(7).standard_normal((3, 4), dtype=np.float32), "C": np.array([condition])},
    )
    for condition in (True, False)
]


def served(spec: Spec) -> Spec:
    """Return the same with Caffe2's arithmetic for servers."""
    for op in spec.net.op:
        op.engine = "DNNLOWP"
    return spec


SERVED = (
    [
        served(weighted(kind, seed, x, w, w[0], (X, W), **args, **q(0.3, 99)))
        for seed, (kind, x, w, args) in enumerate(
            [
                ("Int8FC", (5, 40), (7, 40), {}),
                ("Int8FCRelu", (5, 40), (7, 40), {}),
                ("Int8Conv", (2, 6, 7, 4), (5, 3, 3, 4), {"kernel": 3, "pad": 1, "order": "NHWC"}),
                ("Int8Conv", (2, 8, 6, 7), (6, 4, 3, 3), {"kernel": 3, "stride": 2, "group": 2, "order": "NCHW"}),
                ("Int8ConvRelu", (1, 4, 6, 7), (5, 4, 3, 3), {"kernel": 3, "pad": 1, "order": "NCHW"}),
            ],
            120,
        )
    ]
    + [
        served(
            case(
                kind,
                {"A": EVERY[:, None].repeat(256, 1), "B": EVERY[None].repeat(256, 0)},
                args=q(*to),
                quantized={"A": a, "B": b},
            )
        )
        for kind, a, b, to in [
            ("Int8Add", (0.05, 128), (0.1, 12), (0.13, 100)),
            ("Int8Sum", (0.021, 7), (0.9, 250), (0.7, 3)),
            ("Int8SumRelu", (0.05, 128), (0.1, 12), (0.13, 100)),
        ]
    ]
    + [served(case("Int8Quantize", {"X": FLOATS}, args=q(0.1, 121))), served(unary("Int8Dequantize", EVERY, (0.3, 9)))]
)

REFUSED = [
    weighted("Int8Conv", 110, (1, 4, 4, 3), (5, 3, 3, 3), 5, ((1.0, 0), (1.0, 0)), kernel=3, order="NHWC", **q(0.5, 0)),
    weighted("Int8Conv", 110, (1, 4, 4, 3), (5, 3, 3, 3), 5, (X, W), kernel=3, **q(0.5, 0)),
    weighted("Int8FC", 110, (1, 4), (5, 4), 5, ((1.0, 0), (1.0, 0)), **q(1.0, 0)),
    unary("Int8MaxPool", image(111, 1, 4, 4, 3), (0.05, 121), kernel=1, order="NHWC", **SAME),
    unary("Int8AveragePool", image(111, 1, 4, 4, 3), (0.05, 121), kernel=2, order="NHWC", **q(20.0, 0)),
    unary("Int8LeakyRelu", EVERY, (0.05, 121), alpha=1.5, **SAME),
    case("Int8Add", {"A": EVERY, "B": EVERY}, args=q(1000.0, 0), quantized={"A": (0.05, 121), "B": (0.05, 121)}),
]

# With a Relu, DNNLOWP chooses the scale: for an odd zero point, a small scale and no range at all.
RECTIFIED = [
    served(
        case(
            "Int8SumRelu",
            {"A": EVERY[:, None].repeat(256, 1), "B": EVERY[None].repeat(256, 0)},
            args=q(*to),
            quantized={"A": (0.05, 128), "B": (0.1, 12)},
        )
    )
    for to in ((0.13, 99), (0.0021, 250), (0.13, 255))
]

# Scales of which many sums lie halfway between two bytes.
HALFWAY = [
    served(
        case(
            kind,
            {"A": EVERY[:, None].repeat(256, 1), "B": EVERY[None].repeat(256, 0)},
            args=q(*to),
            quantized={"A": (0.05, 128), "B": (0.1, 12)},
        )
    )
    for kind in ("Int8Add", "Int8Sum")
    for to in ((0.1, 7), (0.2, 3))
] + [
    served(case("Int8Quantize", {"X": ((np.arange(-32, 256) + 0.5) * scale).astype(np.float32)}, args=q(scale, zero)))
    for scale, zero in ((0.1, 7), (0.13, 99))
]

# dim, start_idx and end_idx are read only where there are neither starts nor ends.
_ROWS = np.arange(12, dtype=np.uint8).reshape(3, 4)
STARTED = [
    unary("Int8Slice", _ROWS, (0.05, 121), dim=1, start_idx=0, end_idx=-1, **SAME, **lists)
    for lists in ({"ends": [-2]}, {"starts": [1, 2]}, {"starts": [1], "ends": [2, 1, 1]})
]

CASES = [
    *CONVOLUTIONS,
    *TRANSPOSED,
    *LAYERS,
    *POOLS,
    *FUNCTIONS,
    *SUMS,
    *MOVES,
    *ALIGNED,
    *CONVERSIONS,
    *BRANCHES,
    *REFUSED,
    *SERVED,
    *RECTIFIED,
    *HALFWAY,
    *STARTED,
]

NO_REGIONS = np.array(
    [
        [89, 201, 63, 171, 117, 131, 240, 209, 214, 140, 251, 251, 34, 52, 78, 141, 210, 123],
        [251, 90, 237, 151, 184, 60, 151, 205, 226, 222, 247, 32, 199, 119, 175, 70, 3, 21],
    ],
    np.uint8,
)

CASES += [
    # Sums of exponentials beyond 32 bits.
    *(
        case(
            "Int8Softmax",
            {"X": np.full((2, count), 7, np.uint8)},
            args={"Y_scale": 1 / 256, "Y_zero_point": 0},
            quantized={"X": (0.05, 3)},
        )
        for count in (513, 700, 999)
    ),
    *(
        case(
            "Int8RoIAlign",
            {"X": x.reshape(1, 3, 3, 2), "R": np.zeros(shape, np.float32)},
            quantized={"X": (0.05, 121)},
        )
        for shape, x in zip(((2, 0), (0, 4)), NO_REGIONS, strict=True)
    ),
]
