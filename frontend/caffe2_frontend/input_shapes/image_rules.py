"""Rules of operators over images: their channels, and the weights that go with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.netdef.window import window_argument
from caffe2_frontend.emit.windows.window import image_rank
from caffe2_frontend.input_shapes.known_shapes import KnownShapes


def _channel_axis(op: OpView, rank: int) -> int:
    return rank - 1 if op.args.text("order", default="NCHW") == "NHWC" else 1


def _convolution(op: OpView, shapes: KnownShapes, *, transposed: bool = False, weight: int = 1) -> None:
    """X and Y have the rank of W, and its input and output channels; its other dims are the kernel."""
    if len(op.inputs) <= weight:
        return
    x, w, y = op.inputs[0], op.inputs[weight], op.outputs[0]
    rank = shapes.relate_ranks(x, w, y, rank=image_rank(op))
    bias = op.inputs[weight + 1] if len(op.inputs) > weight + 1 else ""
    shapes.set_rank(bias, 1)
    if rank is None or rank < 3:
        return
    axis, groups = _channel_axis(op, rank), max(op.args.integer("group", default=1), 1)
    kernel = window_argument(op.args, "kernel", rank - 2)
    for i, size in enumerate(kernel[: rank - 2]):
        shapes.set_size(w, i + (1 if axis == rank - 1 else 2), size)
    # A weight is [M, C / group, kernel], or [C, M / group, kernel] if transposed; with NHWC its dim 1 comes last.
    whole, grouped = ((x, axis), (y, axis)) if transposed else ((y, axis), (x, axis))
    shapes.relate_sizes(whole, (w, 0), *([] if transposed else [(bias, 0)]))
    _relate_multiple(shapes, grouped, (w, axis), groups)
    if transposed:
        shapes.relate_sizes(grouped, (bias, 0))


def _relate_multiple(shapes: KnownShapes, large: tuple[str, int], small: tuple[str, int], factor: int) -> None:
    """One dim is ``factor`` times as large as the other."""
    one, many = shapes.size(*small), shapes.size(*large)
    if one is not None:
        shapes.set_size(*large, one * factor)
    elif many is not None and many % factor == 0:
        shapes.set_size(*small, many // factor)


def _window(op: OpView, shapes: KnownShapes) -> None:
    """Pooling, padding and resizing keep the rank and the channels."""
    x, y = op.inputs[0], op.outputs[0]
    rank = shapes.relate_ranks(x, y, rank=image_rank(op))
    if rank is not None:
        axis = _channel_axis(op, rank)
        shapes.relate_sizes((x, axis), (y, axis))


def _per_channel(op: OpView, shapes: KnownShapes, *, count: int) -> None:
    """X and Y have one shape, and ``count`` operands are vectors with an element for each channel."""
    x, y, vectors = op.inputs[0], op.outputs[0], op.inputs[1 : 1 + count]
    shapes.relate_shapes(x, y)
    for vector in vectors:
        shapes.set_rank(vector, 1)
    rank = shapes.rank(x)
    channels = [] if rank is None else [(x, _channel_axis(op, rank))]
    shapes.relate_sizes(*channels, *((vector, 0) for vector in vectors))


def _layout(op: OpView, shapes: KnownShapes) -> None:
    """NCHW2NHWC, NHWC2NCHW: the channels move, the ranks agree."""
    x, y = op.inputs[0], op.outputs[0]
    first, last = (x, y) if op.type == "NCHW2NHWC" else (y, x)
    rank = shapes.relate_ranks(x, y)
    if rank is not None and rank > 1:
        shapes.relate_sizes((first, 0), (last, 0))
        for axis in range(1, rank):
            shapes.relate_sizes((first, axis), (last, axis - 1 or rank - 1))


def _regions(op: OpView, shapes: KnownShapes) -> None:
    """RoIAlign, RoIPool, RoIPoolF: the channels of the feature map, for each region."""
    x, y = op.inputs[0], op.outputs[0]
    shapes.set_rank(x, 4)
    shapes.set_rank(y, 4)
    axis = _channel_axis(op, 4)
    shapes.relate_sizes((x, axis), (y, axis))


RULES: Final[Mapping[str, Callable[[OpView, KnownShapes], None]]] = {
    **dict.fromkeys(
        ["Conv", "Conv1D", "Conv2D", "Conv3D", "ConvRelu", "Int8Conv", "Int8ConvRelu"], partial(_convolution)
    ),
    **dict.fromkeys(["ConvTranspose", "Int8ConvTranspose"], partial(_convolution, transposed=True)),
    "DeformConv": partial(_convolution, weight=2),
    **dict.fromkeys(
        ["MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D", "AveragePool", "AveragePool1D", "AveragePool2D",
         "AveragePool3D", "LpPool", "Int8MaxPool", "Int8AveragePool", "ResizeNearest", "Int8ResizeNearest",
         "ResizeNearest3D", "UpsampleBilinear", "UpsampleNearest", "PadImage"],
        _window,
    ),
    "SpatialBN": partial(_per_channel, count=4),
    **dict.fromkeys(["InstanceNorm", "GroupNorm", "AffineChannel"], partial(_per_channel, count=2)),
    **dict.fromkeys(["NCHW2NHWC", "NHWC2NCHW"], _layout),
    **dict.fromkeys(["RoIAlign", "RoIPool", "RoIPoolF"], _regions),
}  # fmt: skip
