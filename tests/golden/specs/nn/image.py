"""Images and regions of them: scales, modes, pads that cut, blocks, groups, pixels; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, case, generator


def normal(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape, dtype="float32")


def image(op_type: str, *shape: int, **args: Any) -> Spec:
    return case(op_type, {"X": normal(len(shape), *shape)}, args=args)


REGIONS = np.array(
    [
        [0, 0, 0, 3, 3], [1, 2.5, 0.5, 4.5, 9], [1, 7, 7, 9, 9], [0, -5, -5, -4, -4], [1, 1.4, 2.6, 5, 2.6],
        [0, 5, 4, 1, 1], [1, -2.5, -0.5, 3.5, 2.5],
    ],
    "float32",
)  # fmt: skip

CASES = [
    *(
        image(op_type, 2, 3, 7, 9, height_scale=h, width_scale=w)
        for op_type in ("ResizeNearest", "UpsampleBilinear")
        for h, w in ((1.0, 2.0), (0.98825675, 1.2), (0.25, 0.3), (3.0, 1.0), (0.15, 0.15))
    ),
    image("ResizeNearest", 2, 7, 9, 3, height_scale=1.7, width_scale=0.6, order="NHWC"),
    *(image(op_type, 0, 3, 4, 5, height_scale=2.0) for op_type in ("ResizeNearest", "UpsampleBilinear")),
    image("ResizeNearest3D", 2, 3, 2, 4, 5, height_scale=2.0, width_scale=2.0),
    image("ResizeNearest3D", 2, 3, 2, 4, 5, temporal_scale=2.0, height_scale=2.0, width_scale=2.0),
    *(
        image("PadImage", *shape, mode=mode, order=order, value=1.5, **pads)
        for shape, order in (((2, 3, 4, 5), "NCHW"), ((2, 4, 5, 3), "NHWC"))
        for mode in ("constant", "reflect", "edge")
        for pads in ({"pads": [1, 2, 3, 0]}, {"pads": [-1, 0, 1, -2]}, {"pad": 1}, {"kernel": 3, "pad": 1})
    ),
    image("PadImage", 1, 1, 3, 4, mode="reflect", pad=2),
    image("PadImage", 0, 2, 3, 4, pad=1),
    image("SpaceToBatch", 2, 3, 4, 6),
    image("SpaceToBatch", 2, 3, 3, 4, block_size=3, pad=1, pad_t=2),
    image("SpaceToBatch", 2, 3, 6, 4, pad=-1),
    image("BatchToSpace", 18, 3, 2, 3, block_size=3, pad=1, pad_t=2),
    image("BatchToSpace", 8, 3, 2, 3, pad=0, pad_t=1),
    *(image("ChannelShuffle", *shape, group=3) for shape in ((2, 6), (2, 6, 4), (2, 6, 4, 5), (0, 6, 4, 5))),
    image("ChannelShuffle", 2, 4, 5, 6, group=2, order="NHWC"),
    *(
        image(op_type, *shape)
        for op_type in ("NCHW2NHWC", "NHWC2NCHW")
        for shape in ((2, 3, 4), (2, 3, 4, 5, 6), (0, 3, 4))
    ),
    image("IntegralImage", 2, 3, 4, 5),
    image("IntegralImage", 0, 3, 4, 5),
    *(
        image("RMACRegions", n, 1, h, w, scales=scales, overlap=overlap)
        for n, h, w, scales, overlap in (
            (2, 8, 12, 3, 0.4),
            (1, 12, 8, 3, 0.4),
            (3, 7, 20, 2, 0.4),
            (1, 5, 6, 4, 0.2),
            (2, 30, 10, 3, 0.6),
            (1, 1, 9, 3, 0.4),
            (1, 9, 2, 5, 0.5),
            (1, 6, 6, 1, 0.4),
        )
    ),
    case("RMACRegions", {"X": normal(1, 2, 3, 5, 7)}),
    case("Scale", {"X": generator(2).standard_normal((2, 3))}, args={"scale": 0.3}),
    case("Scale", {"X": normal(3, 2, 3)}),
    *(
        case(
            "RoIPool",
            {"X": normal(4, 2, 3, 4, 6), "R": REGIONS},
            outputs=["Y"] if test else ["Y", "places"],
            args={"is_test": test, "pooled_h": 2, "pooled_w": 3, "spatial_scale": scale},
        )
        for test in (0, 1)
        for scale in (1.0, 0.5)
    ),
    *(
        case(
            "RoIPool",
            {"X": normal(5, 2, 3, 4, 6), "R": REGIONS[:n]},
            outputs=["Y", "places"][: 2 - test],
            args={"is_test": test},
        )
        for n in (0, 2)
        for test in (0, 1)
    ),
    *(
        case(
            "NormalizePlanarYUV",
            {"X": normal(6, 2, 3, 4, 5), "M": normal(7, n, 3), "S": normal(8, n, 3)},
            outputs=["X"],
        )
        for n in (1, 2)
    ),
    case(
        "PackedInt8BGRANHWCToNCHWCStylizerPreprocess",
        {"X": generator(9).integers(0, 256, (1, 5, 6, 4), "uint8"), "mean": normal(10, 3)},
        args={"noise_std": 0.0},
    ),
    case(
        "BRGNCHWCToPackedInt8BGRAStylizerDeprocess",
        {"X": generator(11).uniform(-50, 300, (1, 3, 5, 6)).astype("float32"), "mean": normal(12, 3)},
    ),
    # Refused by real Caffe2.
    image("ResizeNearest", 1, 1, 4, 4, height_scale=-1.0),
    image("ResizeNearest3D", 1, 1, 2, 4, 4, height_scale=2.0, width_scale=2.0, order="NHWC"),
    image("PadImage", 1, 1, 4, 4, pad=1, mode="wrap"),
    image("PadImage", 1, 1, 4, 4, pads=[1, 1]),
    image("PadImage", 1, 1, 4, 4, pad=1, stride=2),
    image("SpaceToBatch", 1, 1, 3, 4),
    image("SpaceToBatch", 1, 4, 4, 1, order="NHWC"),
    image("ChannelShuffle", 1, 5, group=2),
    image("NCHW2NHWC", 2, 3),
    image("IntegralImage", 2, 3, 4),
    case("Scale", {"X": np.arange(3, dtype="int32")}),
    case("RoIPool", {"X": normal(13, 1, 1, 4, 4), "R": REGIONS[:1]}, outputs=["Y", "places"], args={"is_test": 1}),
    case("RoIPool", {"X": normal(14, 1, 1, 4, 4), "R": REGIONS[:1]}, args={"is_test": 1, "pooled_h": 0}),
]


PIXELS = np.arange(24, dtype=np.float32).reshape(1, 2, 4, 3)


def plane_with(value: float) -> Array:
    plane = normal(50, 1, 1, 4, 4)
    plane[0, 0, ::3, :2] = value
    return plane


CASES += [
    # Pads that crop at one end and add at the other one.
    *(
        case("PadImage", {"X": PIXELS}, args={"mode": mode, "pads": pads, "value": 9.0})
        for mode in ("constant", "reflect", "edge")
        for pads in ([-3, 1, 1, -1], [2, -2, -1, 0])
    ),
    # Scaled sizes of 0.
    *(case(kind, {"X": PIXELS}, args={"height_scale": 0.2}) for kind in ("ResizeNearest", "UpsampleBilinear")),
    *(
        case(kind, {"X": PIXELS, "scales": np.array([0.6, 0], np.float32)})
        for kind in ("ResizeNearest", "UpsampleBilinear")
    ),
    case("UpsampleBilinear", {"X": PIXELS[..., :0]}, args={"height_scale": 0.5}),
    # A maximum starts from the lowest number.
    *(
        case(
            "RoIPool",
            {"X": plane, "R": np.array([[0, 0, 0, 3, 3]], np.float32)},
            outputs=["Y", "places"],
            args={"pooled_h": 2, "pooled_w": 2},
        )
        for plane in (plane_with(np.nan), plane_with(-np.inf), np.full((1, 1, 4, 4), -np.inf, np.float32))
    ),
]

CASES += [
    *(
        image("RMACRegions", 2, 1, *sizes, overlap=overlap)
        for sizes in ((3, 1), (2, 5))
        for overlap in (np.inf, np.nan, 1e30)
    ),
    image("RMACRegions", 2, 0, 3, 4),
]
