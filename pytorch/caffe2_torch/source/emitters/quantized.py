"""Int8 tensors, which source has as a named tuple of their data, scale and zero point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from caffe2_torch.source.emitters import image, shape
from caffe2_torch.source.names import exact, literal
from caffe2_torch.source.op import Family, Source, SourceOp

family = Family("quantized")


def _scaling(op: SourceOp) -> list[str]:
    """Return the output's scale and zero point."""
    if "DNNLOWP" in op.step.view.engine:
        op.refuse("the engine DNNLOWP is not supported")
    scale, zero_point = op.args.number("Y_scale", default=1.0), op.args.integer("Y_zero_point", default=0)
    return [exact(scale), str(zero_point)]


def _relu(op: SourceOp) -> dict[str, bool]:
    return {"relu": op.type.endswith("Relu")}


def _window(op: SourceOp) -> dict[str, object]:
    """Return the options of a window over images whose channels are last."""
    window = op.window(4)
    if window.legacy or window.head != window.tail or not (window.channels_last or not window.kernel):
        op.refuse("unequal pads, legacy padding and order NCHW are not supported")
    sizes = {"stride": window.stride, "padding": window.head, "dilation": window.dilation}
    return {name: v[0] if len(set(v)) == 1 else v for name, v in sizes.items() if v}


@family.emits("Int8Quantize")
def quantize(op: SourceOp) -> Source:
    return op.call("quantize", op.x(0), *_scaling(op))


@family.emits("Int8Dequantize")
def dequantize(op: SourceOp) -> Source:
    return op.call("dequantize", op.x(0))


@family.emits("Int8Conv", "Int8ConvRelu")
def convolution(op: SourceOp) -> Source:
    options = {**_window(op), "groups": op.args.integer("group", default=1), **_relu(op)}
    return op.call("convolve_quantized", op.x(0), op.x(1), op.data(2), *_scaling(op), **options)


@family.emits("Int8FC")
def fully_connected(op: SourceOp) -> Source:
    op.args.ignore("order", "axis", "axis_w")
    return op.call("multiply_quantized", op.x(0), op.x(1), op.data(2), *_scaling(op))


@family.emits("Int8AveragePool", "Int8AveragePoolRelu")
def average_pool(op: SourceOp) -> Source:
    options, kernel = _window(op), op.window(4).kernel
    if options.pop("dilation", 1) != 1:
        op.refuse("dilation is not supported")
    own = [literal(kernel)] if kernel else []
    return op.call("average_pool_quantized", op.x(0), *_scaling(op), *own, **options, **_relu(op))


@family.emits("Int8Add", "Int8AddRelu", "Int8Sum", "Int8SumRelu")
def add(op: SourceOp) -> Source:
    op.args.ignore("order")
    return op.call("add_quantized", op.x(0), op.x(1), *_scaling(op), **_relu(op))


@family.emits("Int8Relu")
def relu(op: SourceOp) -> Source:
    op.args.ignore("order")
    _scaling(op)
    x = op.x(0)
    return f"{x}._replace(data={x}.data.clamp(min={x}.zero_point))"


@family.emits("Int8LeakyRelu")
def leaky_relu(op: SourceOp) -> Source:
    op.args.ignore("order")
    alpha = exact(op.args.number("alpha", default=0.01))
    return op.call("leaky_relu_quantized", op.x(0), *_scaling(op), alpha)


@family.emits("Int8Sigmoid", "Int8Softmax")
def unit(op: SourceOp) -> Source:
    op.args.ignore("order", "axis")
    _scaling(op)
    return op.call(f"{op.type.removeprefix('Int8').lower()}_quantized", op.x(0))


_MOVES: Final[dict[str, Callable[[SourceOp], Source]]] = {
    "Int8Flatten": shape.flatten,
    "Int8Reshape": shape.reshape,
    "Int8Transpose": shape.transpose,
}


@family.emits(*_MOVES)
def move(op: SourceOp) -> Source:
    _scaling(op)
    results = _MOVES[op.type](op.of_data())
    data, *others = results if isinstance(results, tuple) else (results,)
    return (f"{op.x(0)}._replace(data={data})", *others)


@family.emits("Int8Slice")
def slice_ranges(op: SourceOp) -> Source:
    """Take starts and ends, of which start_idx and end_idx replace those of the axis dim."""
    _scaling(op)
    if op.has(1) or "dim" not in op.args:
        data = shape.slice_ranges(op.of_data())
    else:
        axis = op.axis("dim", 0)
        starts, ends = (
            [*op.args.integers(name, default=()), *[whole] * op.known_rank(0)][: op.known_rank(0)]
            for name, whole in (("starts", 0), ("ends", -1))
        )
        starts[axis], ends[axis] = op.args.integer("start_idx"), op.args.integer("end_idx")
        data = shape.ranges_of(op.of_data(), starts, ends)
    return f"{op.x(0)}._replace(data={data})"


@family.emits("Int8ResizeNearest")
def resize_nearest(op: SourceOp) -> Source:
    op.args.ignore("order")
    _scaling(op)
    scales = [literal(op.args.number(name, default=1.0)) for name in ("height_scale", "width_scale")]
    data = image.oriented(f"{op.x(0)}.data", op.call("resize_nearest", "{x}", *scales), channels_last=True)
    return f"{op.x(0)}._replace(data={data})"


@family.emits("Int8Concat")
def concat(op: SourceOp) -> Source:
    _scaling(op)
    order = op.args.text("order", default="")
    axis = op.args.integer("axis", default={"NHWC": 3, "NCHW": 1}.get(order, 0))
    parts = ", ".join(f"{x}.data" for x in op.operands)
    return (f"{op.x(0)}._replace(data=torch.cat([{parts}], dim={axis}))", None)
