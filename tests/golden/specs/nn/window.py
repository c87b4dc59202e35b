"""Windows over images: legacy pads, spellings, groups, NHWC, windows with gaps, pads that cut; and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, case, generator

POOLS = ("MaxPool", "AveragePool", "LpPool")


def normal(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape, dtype="float32")


def pool(op_type: str, shape: Sequence[int], **args: Any) -> Spec:
    return case(op_type, {"X": normal(len(shape), *shape)}, args=args)


def conv(shape: Sequence[int], weight: Sequence[int], *, bias: int = 0, op_type: str = "Conv", **args: Any) -> Spec:
    inputs = {"X": normal(1, *shape), "W": normal(2, *weight)}
    if bias:
        inputs["b"] = normal(3, bias)
    return case(op_type, inputs, args=args)


def lc(shape: Sequence[int], weight: Sequence[int], bias: Sequence[int] = (), **args: Any) -> Spec:
    inputs = {"X": normal(4, *shape), "W": normal(5, *weight)}
    if bias:
        inputs["b"] = normal(6, *bias)
    return case("LC", inputs, args=args)


# legacy_pad: 1 VALID, 2 SAME, 3 CAFFE_LEGACY_POOLING.
CASES = [
    *(pool(t, (2, 3, 7, 8), kernel=3, stride=2, legacy_pad=p) for t in POOLS for p in (1, 2, 3)),
    *(pool(t, (2, 3, 7, 9), kernel=2, stride=3, legacy_pad=p) for t in POOLS for p in (1, 2)),
    *(pool(t, (2, 3, 7, 10), kernel=1, stride=4, legacy_pad=2) for t in POOLS),
    *(pool(t, (2, 3, 5, 8), kernel=2, stride=3, legacy_pad=3) for t in POOLS),
    *(pool(t, (2, 3, 12, 10), kernel=3, stride=3, pad=1, legacy_pad=3) for t in POOLS),
    *(pool(t, (2, 3, 6, 7), kernel=2, stride=2, pad=1, legacy_pad=3) for t in POOLS),
    *(pool(t, (1, 2, 8, 15), kernel=2, stride=7, legacy_pad=3) for t in POOLS),
    # A last window that holds nothing: MaxPool then gives what happens to be in memory.
    pool("AveragePool", (2, 3, 7, 9), kernel=2, stride=3, legacy_pad=3),
    pool("LpPool", (2, 3, 7, 9), kernel=2, stride=3, legacy_pad=3),
    *(pool(t, (2, 7, 8, 3), kernel=3, stride=2, legacy_pad=p, order="NHWC") for t in POOLS for p in (2, 3)),
    *(pool("AveragePool", (2, 3, 7, 8), kernel=3, stride=2, legacy_pad=p, count_include_pad=1) for p in (2, 3)),
    pool("AveragePool", (2, 3, 12, 10), kernel=3, stride=3, pad=1, legacy_pad=3, count_include_pad=1),
    pool("AveragePool", (2, 3, 7, 8), kernel=3, stride=2, pad_t=1, pad_l=0, pad_b=2, pad_r=1, count_include_pad=1),
    pool("AveragePool", (2, 3, 9), kernels=[4], strides=[3], pads=[2, 1], count_include_pad=1),
    pool("AveragePool", (2, 2, 5, 6, 7), kernels=[2, 3, 2], strides=[2, 1, 3], pads=[0, 1, 1, 1, 2, 0]),
    # Fewer dims than sizes: the first ones count.
    *(pool(t, (2, 3, 9), kernel=3, stride=2, pad=1) for t in ("MaxPool", "AveragePool")),
    pool("MaxPool", (2, 3, 9, 8), kernel_h=3, kernel_w=2, stride_h=2, stride_w=1),
    pool("MaxPool", (2, 3, 9, 8), kernels=[3], kernel=2),
    *(pool(t, (0, 3, 5, 6), kernel=2) for t in POOLS),
    *(pool(t, (0, 3, 5, 6), global_pooling=1) for t in ("MaxPool", "AveragePool")),
    *(pool("LpPool", (2, 3, 6, 7), kernel=3, stride=2, pad=1, p=p) for p in (1.0, 3.0, 1.5, 0.5)),
    pool("LpPool", (2, 3, 6, 7), global_pooling=1, p=2.5),
    pool("LpPool", (2, 6, 7, 3), kernel=3, stride=2, order="NHWC", p=3.0),
    *(conv((2, 4, 7, 8), (6, 4, 3, 3), bias=6, kernel=3, stride=2, legacy_pad=p) for p in (1, 2, 3)),
    # An image smaller than the window.
    conv((2, 3, 4, 3), (6, 5, 5, 3), bias=6, kernel=5, stride=3, order="NHWC", legacy_pad=3),
    conv((2, 4, 7, 10), (6, 4, 1, 2), kernel_h=1, kernel_w=2, stride=4, legacy_pad=2),
    conv((2, 4, 12, 10), (6, 4, 3, 3), kernel=3, stride=3, pad=1, legacy_pad=3),
    conv((2, 4, 7, 8), (6, 4, 3, 3), bias=6, kernel=3, pads=[-1, 1, 0, -2]),
    conv((2, 4, 9, 9), (6, 2, 3, 2), bias=6, kernel_h=3, kernel_w=2, group=2, dilation_h=2, dilation_w=3, pad=2),
    conv((2, 7, 8, 4), (6, 3, 3, 2), bias=6, kernel=3, stride=2, group=2, order="NHWC"),
    conv((2, 6, 5, 7, 4), (3, 2, 3, 2, 4), bias=3, kernels=[2, 3, 2], order="NHWC"),
    conv((2, 9, 4), (3, 4, 4), bias=3, kernels=[4], strides=[2], order="NHWC"),
    conv((0, 4, 7, 8), (6, 4, 3, 3), bias=6, kernel=3),
    conv((2, 4, 7, 8), (6, 4, 3, 3), bias=6, kernel=3, op_type="ConvRelu"),
    *(
        conv((2, 4, 5, 6), (4, 3, 3, 3), bias=3, kernel=3, stride=2, adj=a, pad=p, op_type="ConvTranspose")
        for a, p in ((1, 0), (1, 1))
    ),
    conv(
        (2, 4, 5, 6),
        (4, 3, 3, 3),
        kernel=3,
        stride_h=2,
        stride_w=3,
        adj_h=1,
        adj_w=2,
        pads=[1, 0, 1, 2],
        op_type="ConvTranspose",
    ),
    conv((2, 4, 5, 6), (4, 3, 2, 3), bias=6, kernels=[2, 3], group=2, op_type="ConvTranspose"),
    conv((2, 5, 6, 4), (4, 3, 3, 2), bias=4, kernel=3, stride=2, pad=1, group=2, order="NHWC", op_type="ConvTranspose"),
    conv((2, 5, 6, 4), (4, 2, 3, 3), bias=3, kernels=[2, 3], stride=2, order="NHWC", op_type="ConvTranspose"),
    *(conv((2, 4, 5, 6), (4, 3, 2, 2), kernel=2, stride=2, legacy_pad=p, op_type="ConvTranspose") for p in (1, 2)),
    conv((0, 4, 5, 6), (4, 3, 2, 2), kernel=2, op_type="ConvTranspose"),
    lc((2, 2, 6, 7), (3, 3, 6, 2, 3, 2), (3, 3, 6), kernel_h=3, kernel_w=2, stride=2, pads=[0, 0, 1, 0]),
    lc(
        (2, 3, 7, 8),
        (3, 4, 2, 3, 3, 3),
        kernel=3,
        dilation_h=2,
        dilation_w=1,
        stride_h=1,
        stride_w=2,
        pads=[0, 1, 0, 1],
    ),
    lc((2, 6, 7, 3), (3, 3, 4, 2, 2, 3), (3, 3, 4), kernel=2, stride=2, order="NHWC", pads=[0, 0, 0, 0]),
    lc((2, 4, 9), (4, 6, 4, 3), (4, 6), kernels=[3], strides=[2]),
    lc((2, 2, 4, 5, 4), (3, 2, 3, 3, 2, 2, 4, 2), (3, 2, 3, 3), kernels=[2, 4, 2]),
    lc((2, 3, 7, 7), (4, 4, 2, 3, 3, 3), (4, 4, 2), kernel=3, stride=2, legacy_pad=2),
    *(
        case(
            "Im2Col", {"X": normal(7, *shape)}, args={"kernel": 2, "stride": 2, "dilation": 2, "pad": 1, "order": order}
        )
        for shape, order in (((2, 3, 6, 7), "NCHW"), ((2, 6, 7, 3), "NHWC"))
    ),
    *(
        case(
            "Im2Col",
            {"X": normal(8, *shape)},
            args={"kernel_h": 3, "kernel_w": 2, "stride_h": 1, "stride_w": 3, "order": order},
        )
        for shape, order in (((2, 3, 6, 7), "NCHW"), ((2, 6, 7, 3), "NHWC"))
    ),
    *(
        case(
            "Col2Im",
            {"X": normal(9, *columns), "Z": normal(10, *image)},
            args={"kernel_h": 3, "kernel_w": 2, "stride": 2, "pad": 1, "order": order},
        )
        for columns, image, order in (((2, 18, 3, 5), (2, 3, 6, 8), "NCHW"), ((2, 3, 5, 18), (2, 6, 8, 3), "NHWC"))
    ),
    # Refused by real Caffe2.
    pool("MaxPool", (1, 1, 5, 5), kernel=2, pad=2),
    pool("MaxPool", (1, 1, 5, 5), kernel=2, dilation=2),
    pool("MaxPool", (1, 1, 5, 5), kernel=2, pad=1, legacy_pad=2),
    pool("MaxPool", (1, 1, 5, 5), kernel=2, strides=[1, 1, 1]),
    pool("MaxPool", (1, 1, 5, 5), global_pooling=1, stride=2),
    pool("AveragePool", (1, 1, 5, 5), kernel=6),
    pool("AveragePool", (1, 1, 5, 5), kernel=2, order="NCWH"),
    pool("AveragePool", (1, 1, 5, 5)),
    conv((1, 4, 5, 5), (2, 4, 3, 3), kernel=2),
    conv((1, 4, 5, 5), (2, 3, 3, 3), kernel=3),
    conv((1, 4, 5, 5), (3, 2, 3, 3), kernel=3, group=2),
    conv((1, 4, 5, 5), (2, 4, 3, 3), bias=3, kernel=3),
    conv((1, 4, 5), (2, 4, 3), kernel=3),
    conv((1, 4, 5, 5), (2, 4, 3, 3), kernel=3, dilation=2, legacy_pad=2),
    conv((1, 4, 5, 5), (4, 3, 2, 2), kernel=2, stride=2, adj=3, op_type="ConvTranspose"),
    conv((1, 4, 5, 5), (3, 3, 2, 2), kernel=2, op_type="ConvTranspose"),
    conv((1, 4, 5), (4, 3, 2), kernels=[2], op_type="ConvTranspose"),
    conv((1, 4, 5, 5), (4, 3, 2, 2), kernel=2, group=3, op_type="ConvTranspose"),
    conv((1, 4, 5, 5), (4, 3, 2, 2), bias=3, kernel=2, group=2, op_type="ConvTranspose"),
    conv((1, 4, 5, 5), (4, 3, 3, 3), kernel=2, op_type="ConvTranspose"),
    conv((1, 4, 5, 5), (4, 3, 2, 2), kernel=2, pad=-1, op_type="ConvTranspose"),
    lc((1, 2, 4, 4), (2, 3, 1, 2, 2, 2), kernel=2),
    lc((1, 2, 4, 4), (3, 3, 1, 2, 2), kernel=2),
    case("Im2Col", {"X": normal(11, 1, 1, 2, 5)}, args={"kernel": 3, "pad": 1}),
    case("Im2Col", {"X": normal(12, 1, 1, 5)}, args={"kernel": 3}),
    # Images that end before the first window does, by up to a stride and by more.
    *(
        pool(t, (1, 2, size, 7), kernel=kernel, stride=stride, legacy_pad=3, **args)
        for t in POOLS
        for size, kernel, stride in ((1, 3, 2), (1, 3, 3), (2, 4, 1), (1, 4, 2), (2, 5, 2), (1, 5, 2))
        for args in ({}, {"count_include_pad": 1}, {"pad": 1})
        if "count_include_pad" not in args or t == "AveragePool"
    ),
    # Last windows that start behind the image: channels first, Caffe2 reads out of bounds there.
    *(
        pool(t, (1, size, size + 1, 2), kernel=kernel, stride=stride, legacy_pad=3, order="NHWC", **args)
        for t in POOLS
        for size, kernel, stride in ((8, 1, 3), (3, 2, 5), (6, 1, 4))
        for args in ({}, {"count_include_pad": 1})
        if not args or t == "AveragePool"
    ),
    # Integers beyond 32 bits.
    pool("MaxPool", (1, 1, 5, 5), kernel=2, stride=(1 << 32) + 1),
    pool("AveragePool", (1, 1, 5, 5), kernels=[2, (1 << 32) + 2]),
    conv((1, 4, 5, 5), (2, 4, 3, 3), kernel=3, pad=1 << 32),
]

# Images of many dims, and elements that are not finite.
MANY_DIMS, NOT_FINITE = generator(22), generator(50)
IMAGE = NOT_FINITE.standard_normal((2, 3, 5, 4), dtype="float32")
IMAGE[0, 1, 2, 1], IMAGE[1, 2, 0, 3] = np.inf, np.nan
LOCAL = NOT_FINITE.standard_normal((2, 3, 2, 3, 3, 2), dtype="float32")

CASES += [
    *(
        case(kind, {"X": MANY_DIMS.standard_normal((2, 2, 2, 3, 1, 2), dtype="float32")}, args={"global_pooling": 1})
        for kind in ("MaxPool", "AveragePool")
    ),
    *(
        case("Im2Col", {"X": IMAGE}, args={"kernel": k, "stride": s, "pad": p, "dilation": d, "order": order})
        for k, s, p, d in ((2, 1, 0, 1), (3, 2, 1, 1), (2, 1, 1, 2))
        for order in ("NCHW", "NHWC")
    ),
    case("LC", {"X": IMAGE, "W": LOCAL}, args={"kernel_h": 3, "kernel_w": 2, "stride_h": 2, "stride_w": 1}),
]
