"""Gradients of normalization that Caffe2's own tests do not run: LRN, vectors per image, and several batches."""

from typing import Any

import numpy as np
from conformance.recording import Spec, case, generator

rng = generator(0)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape).astype("float32")


def local_response(width: int, order: str, shape: tuple[int, ...] = (2, 5, 3, 4), **args: float) -> Spec:
    """Return a case whose Y is not that of X: Caffe2 reads it."""
    inputs = {"X": floats(*shape), "Y": floats(*shape), "dY": floats(*shape)}
    args = {"alpha": 0.5, "beta": 0.75, **args}
    return case("LRNGradient", inputs, outputs=["dX"], args={"size": width, "order": order, **args})


def spatial_bn(shape: tuple[int, ...], order: str = "NCHW", batches: int = 1) -> Spec:
    channels = shape[1] if order == "NCHW" else shape[-1]
    x, scale, dy, mean = floats(*shape), floats(channels), floats(*shape), floats(channels)
    inputs = {"X": x, "scale": scale, "dY": dy, "mean": mean, "inv_std": np.abs(floats(channels))}
    sums = {"sum_scale": floats(channels), "sum_bias": floats(channels)} if batches != 1 else {}
    args = {"order": order, "num_batches": batches}
    return case("SpatialBNGradient", {**inputs, **sums}, outputs=["dX", "dscale", "dbias"], args=args)


def layer_norm(shape: tuple[int, ...], axis: int, affine: int) -> Spec:
    rows, tail = shape[:axis], shape[axis:]
    x, dy, mean, std = floats(*shape), floats(*shape), floats(*rows, 1), np.abs(floats(*rows, 1)) + 0.5
    inputs = {"dY": dy, "Y": floats(*shape), "mean": mean, "std": std, "X": x}
    scale = {"scale": floats(*tail)} if affine else {}
    outputs = ["dX", "dscale", "dbias"] if affine else ["dX"]
    args = {"axis": axis, "elementwise_affine": affine}
    return case("LayerNormGradient", {**inputs, **scale}, outputs=outputs, args=args)


def groups(shape: tuple[int, ...], group: int, order: str) -> Spec:
    channels = shape[1] if order == "NCHW" else shape[-1]
    inputs = {"dY": floats(*shape), "X": floats(*shape), "scale": floats(channels), "bias": floats(channels)}
    moments = {"mean": floats(shape[0], group), "inv_std": np.abs(floats(shape[0], group))}
    args = {"group": group, "order": order}
    return case("GroupNormGradient", {**inputs, **moments}, outputs=["dX", "dscale", "dbias"], args=args)


CASES = [
    *(local_response(width, order) for order in ("NCHW", "NHWC") for width in (1, 2, 3, 4, 5)),
    local_response(3, "NCHW", bias=2.0),
    local_response(7, "NHWC", (1, 2, 2, 3), bias=2.0),
    local_response(3, "NCHW", (0, 5, 3, 4)),
    *(spatial_bn(shape) for shape in ((2, 3, 4), (2, 3, 2, 2), (1, 2, 2, 3, 2), (0, 3, 2, 2))),
    *(spatial_bn(shape, "NHWC") for shape in ((2, 4, 3), (2, 2, 2, 3))),
    *(spatial_bn(shape, order, 3) for shape in ((2, 3, 2, 2), (0, 3, 2, 2)) for order in ("NCHW", "NHWC")),
    *(layer_norm((2, 3, 4), axis, affine) for axis in (0, 1, 2) for affine in (0, 1)),
    *(groups((2, 4, 3, 2), group, order) for group in (1, 2) for order in ("NCHW", "NHWC")),
    groups((2, 4, 3), 2, "NCHW"),
    groups((2, 4), 2, "NCHW"),
    case(
        "RMSNormGradient",
        {"dY": floats(2, 3, 4), "X": floats(2, 3, 4), "scale": floats(4), "rrms": floats(2, 3)},
        outputs=["dX", "dscale", "dbias"],
        args={"axis": 2},
    ),
    case(
        "RMSNormGradient",
        {name: value.astype("float64") for name, value in (
            ("dY", floats(2, 3)), ("X", floats(2, 3)), ("scale", floats(3)), ("rrms", floats(2))
        )},
        outputs=["dX", "dscale", "dbias"],
    ),
    spatial_bn((2, 1, 2, 2), batches=-3),
    spatial_bn((2, 3, 2), batches=0),
]  # fmt: skip
