"""Gradients of images' operators that Caffe2's own tests do not run: volumes, pads and sizes at the borders."""

from typing import Any

import numpy as np
from conformance.recording import Spec, case, generator

Array = np.ndarray[Any, Any]

rng = generator(0)


def floats(*shape: int) -> Array:
    return rng.standard_normal(shape).astype("float32")


def volumes(*shape: int, scales: tuple[float, float, float], planes: tuple[int, int] = (2, 1)) -> Spec:
    """Return the gradient of resizing a volume of ``shape`` [T, H, W]."""
    resized = [int(size * scale) for size, scale in zip(shape, scales, strict=True)]
    names = ("temporal_scale", "height_scale", "width_scale")
    return case(
        "ResizeNearest3DGradient",
        {"dY": floats(*planes, *resized), "X": floats(*planes, *shape)},
        outputs=["dX"],
        args={"order": "NCHW", **dict(zip(names, scales, strict=True))},
    )


def pads(mode: str, *shape: int, **args: Any) -> Spec:
    return case("PadImageGradient", {"dY": floats(*shape)}, outputs=["dX"], args={"mode": mode, **args})


CASES = [
    volumes(2, 3, 4, scales=(2.0, 2.0, 2.0)),
    volumes(2, 3, 4, scales=(1.0, 1.0, 1.0)),
    volumes(2, 3, 4, scales=(1.0, 1.5, 2.6)),
    volumes(4, 5, 3, scales=(0.5, 0.7, 2.0)),
    volumes(2, 2, 2, scales=(3.0, 1.0, 2.0), planes=(0, 2)),
    volumes(1, 1, 1, scales=(4.0, 4.5, 1.0), planes=(1, 3)),
    case("UpsampleBilinearGradient", {"dY": floats(1, 2, 5, 1), "X": floats(1, 2, 2, 3)}, outputs=["dX"]),
    case("UpsampleBilinearGradient", {"dY": floats(1, 2, 2, 2), "X": floats(1, 2, 1, 1)}, outputs=["dX"]),
    *(pads(mode, 2, 1, 4, 6, pads=[1, 2, 1, 1]) for mode in ("constant", "edge", "reflect")),
    pads("edge", 1, 2, 3, 3, pads=[1, 1, 1, 1]),
    pads("edge", 0, 2, 3, 3, pads=[1, 0, 0, 1]),
    pads("reflect", 2, 7, 8, 3, pad_t=2, pad_b=1, pad_l=0, pad_r=3, order="NHWC"),
    *(
        case("ChannelShuffleGradient", {"dY": floats(*shape)}, outputs=["dX"], args={"group": group, "order": order})
        for shape, group, order in (((2, 6, 2, 1), 2, "NCHW"), ((1, 2, 2, 6), 3, "NHWC"), ((3, 4), 2, "NCHW"))
    ),
    case("IntegralImageGradient", {"X": floats(2, 2, 3, 4), "dY": floats(2, 2, 4, 5)}, outputs=["dX"]),
    case("IntegralImageGradient", {"X": floats(0, 1, 3, 4), "dY": floats(0, 1, 4, 5)}, outputs=["dX"]),
    pads("reflect", 1, 1, 4, 5, pads=[1, 2, 1, 1]),  # more than the last pixel's distance
]
