"""Gradients of convolutions and poolings at the borders: legacy pads, negative ones, ties, images without a batch."""

from typing import Any

import numpy as np
from conformance.recording import Spec, case, generator

Array = np.ndarray[Any, Any]

rng = generator(0)


def floats(*shape: int) -> Array:
    return rng.standard_normal(shape).astype("float32")


def convolution(x: tuple[int, ...], w: tuple[int, ...], dy: tuple[int, ...], kind: str = "Conv", **args: Any) -> Spec:
    operands = {"X": floats(*x), "W": floats(*w), "dY": floats(*dy)}
    outputs = ["dW", "dX"] if args.get("no_bias") else ["dW", "db", "dX"]
    return case(f"{kind}Gradient", operands, outputs=outputs, args=args)


def pooling(kind: str, x: tuple[int, ...], out: tuple[int, ...], **args: Any) -> Spec:
    """Return the gradient of a pooling of a few small integers, so that maxima are reached more than once."""
    image = rng.integers(1, 4, x).astype("float32")
    result = rng.integers(1, 4, out).astype("float32")
    return case(f"{kind}Gradient", {"X": image, "Y": result, "dY": floats(*out)}, outputs=["dX"], args=args)


CASES = [
    convolution((2, 3, 5, 6), (4, 3, 2, 3), (2, 4, 3, 3), kernel_h=2, kernel_w=3, stride=2, legacy_pad=2),
    convolution((2, 3, 5, 6), (4, 3, 2, 3), (2, 4, 2, 2), kernel_h=2, kernel_w=3, stride=2, legacy_pad=1),
    convolution((1, 2, 5, 6), (3, 2, 3, 3), (1, 3, 2, 3), kernel=3, stride=2, legacy_pad=3),
    convolution((1, 2, 1, 6), (3, 2, 3, 3), (1, 3, 0, 3), kernel=3, stride=2, legacy_pad=3),
    convolution((1, 2, 5, 6), (3, 2, 2, 2), (1, 3, 4, 4), kernel=2, pads=[0, -1, 0, 0]),
    convolution((1, 2, 4, 5), (3, 2, 4, 5), (1, 3, 1, 1), global_pooling=1),
    convolution((2, 40, 6, 7), (6, 20, 3, 3), (2, 6, 3, 4), kernel=3, stride=2, pad=1, group=2),
    convolution((0, 40, 6, 7), (6, 20, 3, 3), (0, 6, 3, 4), kernel=3, stride=2, pad=1, group=2),
    convolution((2, 6, 6, 40), (6, 3, 3, 40), (2, 3, 3, 6), kernel=3, stride=2, pads=[1, 1, 1, 1], order="NHWC"),
    convolution((2, 40, 9, 4), (6, 40, 3, 2), (2, 6, 3, 3), kernel_h=3, kernel_w=2, stride_h=2, stride_w=1,
                dilation_h=2, dilation_w=1),
    convolution((2, 4, 3, 3), (4, 3, 3, 3), (2, 3, 6, 6), "ConvTranspose", kernel=3, stride=2, pad=1, adj=1),
    convolution((2, 4, 3, 3), (4, 3, 2, 2), (2, 6, 6, 6), "ConvTranspose", kernel=2, stride=2, group=2, no_bias=1),
    convolution((2, 3, 3, 4), (4, 2, 2, 3), (2, 6, 6, 3), "ConvTranspose", kernel=2, stride=2, order="NHWC"),
    convolution((2, 2, 3, 3), (2, 2, 3, 2, 2, 2), (2, 3, 2, 2), "LC", kernel=2, stride=2, pad=1),
    convolution((2, 2, 3, 3), (2, 2, 3, 2, 2, 2), (2, 3, 2, 2), "LC", kernel=2, stride=2, legacy_pad=2),
    convolution((2, 2, 5, 5), (3, 3, 2, 2, 2, 2), (2, 2, 3, 3), "LC", kernel=2, dilation=2, no_bias=1),
    convolution((2, 3, 4, 2), (2, 3, 4, 2, 2, 2), (2, 2, 3, 4), "LC", kernel=2, order="NHWC"),
    pooling("MaxPool", (2, 2, 5, 6), (2, 2, 2, 3), kernel=3, stride=2, legacy_pad=3),
    pooling("MaxPool", (2, 2, 5, 6), (2, 2, 3, 3), kernel=2, stride=2, legacy_pad=2),
    pooling("MaxPool", (2, 2, 7, 7), (2, 2, 3, 3), kernel=3, stride=2),
    pooling("MaxPool", (1, 2, 9, 9), (1, 2, 9, 9), kernel=5, stride=1, pad=2),
    pooling("MaxPool", (1, 2, 7, 7), (1, 2, 3, 3), kernel=2, stride=3, pad=1),
    pooling("MaxPool", (1, 2, 3, 3), (1, 2, 1, 1), global_pooling=1),
    pooling("MaxPool", (1, 3, 3, 2), (1, 1, 1, 2), global_pooling=1, order="NHWC"),
    *(
        pooling("AveragePool", x, out, count_include_pad=count_pads, **args)
        for count_pads in (0, 1)
        for x, out, args in (
            ((2, 2, 5, 6), (2, 2, 2, 3), {"kernel": 3, "stride": 2, "legacy_pad": 3}),
            ((2, 2, 5, 6), (2, 2, 3, 3), {"kernel": 2, "stride": 2, "legacy_pad": 2}),
            ((2, 2, 6, 6), (2, 2, 3, 3), {"kernel": 3, "stride": 2, "pads": [1, 1, 0, 0]}),
            ((1, 2, 6, 7), (1, 2, 3, 3), {"kernel": 4, "stride": 2, "pad": 1}),
        )
    ),
    pooling("LpPool", (2, 2, 5, 6), (2, 2, 2, 3), kernel=2, stride=2),
    pooling("LpPool", (2, 2, 5, 6), (2, 2, 3, 4), kernel=3, p=3.0),
    pooling("LpPool", (2, 5, 6, 2), (2, 3, 4, 2), kernel=3, p=1.5, order="NHWC"),
    pooling("LpPool", (2, 2, 3, 3), (2, 2, 2, 2), kernel=2, stride=2, pads=[1, 1, 0, 0], p=1.0),
]  # fmt: skip

PIXELS = np.arange(24, dtype=np.float32).reshape(1, 2, 4, 3)

CASES += [
    # No filters.
    case(
        "LC2DGradient",
        {
            "X": PIXELS[:, :, :2],
            "W": np.zeros((2, 3, 0, 2, 1, 1), np.float32),
            "dY": np.zeros((1, 0, 2, 3), np.float32),
        },
        outputs=["dW", "dX"],
        args={"kernels": [1, 1], "no_bias": 1},
    ),
]
