"""ATen's normalizations, pools, resizing and grid sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add, mul, reshape_like
from caffe2_frontend.emit.operand_checks import require_groups
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.shapes import (
    broadcast_over_channels,
    product,
    quotient,
    reshape,
    size,
    sizes,
    slice_axis,
    squeeze,
    unsqueeze,
    vector,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Outputs, Value
from caffe2_frontend.ops.aten.operands import axis_list, name_of

family = Family("aten nn")


@family.converts("layer_norm")
def convert_layer_norm(op: Op) -> Value:
    """aten::layer_norm(input[, weight, bias]; normalized_shape, eps=1e-5, cudnn_enable): over the last dims."""
    op.args.ignore("cudnn_enable")
    x, shape = op.input(0), list(op.args.integers("normalized_shape"))
    weight = op.optional(1)
    if weight is None:
        op.bounded(*shape)
        weight = op.const(np.ones(shape), x)
    epsilon = op.args.number("eps", default=1e-5)
    return op.emit("LayerNormalization", x, weight, op.optional(2), axis=-len(shape), epsilon=epsilon)


@family.converts("group_norm")
def convert_group_norm(op: Op) -> Value:
    """aten::group_norm(input[, weight, bias]; num_groups, eps=1e-5, cudnn_enabled)."""
    op.args.ignore("cudnn_enabled")
    x, groups = op.input(0), op.args.integer("num_groups")
    require_groups(op, op.static_dim(x, 1), groups, "channels")
    inside = quotient(op, product(op, sizes(op, x, 1)), groups)
    rows = reshape(op, x, [size(op, x, 0), groups, inside])
    ones, zeros = (op.const(np.full(op.bounded(groups), value), x) for value in (1.0, 0.0))
    y = op.emit("InstanceNormalization", rows, ones, zeros, epsilon=op.args.number("eps", default=1e-5))
    y = reshape_like(op, y, x)
    for value, combine in ((op.optional(1), mul), (op.optional(2), add)):
        if value is not None:
            y = combine(op, y, broadcast_over_channels(op, value, x))
    return y


@family.converts("instance_norm", "batch_norm")
def running_norm(op: Op) -> Value:
    """aten::instance_norm | batch_norm(input, weight, bias, mean, var; eps, use_input_stats | training, ...).

    Instances are normalized by their own moments with use_input_stats=1; all else by the running moments.
    """
    op.args.ignore("cudnn_enabled", "momentum")
    own = op.args.flag("use_input_stats", default=True) if name_of(op) == "instance_norm" else False
    if op.args.flag("training", default=False):
        op.unsupported("training must be 0", hint="export the model for inference")
    epsilon = op.args.number("eps", default=1e-5)
    x, weight, bias, mean, var = (op.input(i) for i in range(5))
    if own:
        return op.emit("InstanceNormalization", x, weight, bias, epsilon=epsilon)
    return op.emit("BatchNormalization", x, weight, bias, mean, var, epsilon=epsilon)


_INTERPOLATIONS: Final = ("linear", "nearest", "cubic")
_PADDINGS: Final = ("zeros", "border", "reflection")


def _image(op: OpView, _: int) -> TensorInfo:
    name = op.args.text("operator", default="")
    ranks = {"1d": 3, "2d": 4, "3d": 5}
    rank = next((rank for suffix, rank in ranks.items() if name.endswith(suffix)), None)
    return TensorInfo(ir.DataType.FLOAT, None if rank is None else (None,) * rank)


@family.converts("grid_sampler", "grid_sampler_2d", "grid_sampler_3d", expects=_image)
def convert_grid_sampler(op: Op) -> Value:
    """aten::grid_sampler(input, grid; interpolation_mode, padding_mode, align_corners=1).

    Models from before PyTorch 1.3 have no align_corners; corners were aligned.
    """
    mode, padding = op.args.integer("interpolation_mode"), op.args.integer("padding_mode")
    if not 0 <= mode < 3 or not 0 <= padding < 3:
        op.unsupported(f"interpolation_mode ({mode}) and padding_mode ({padding}) must be 0, 1 or 2")
    align = op.args.flag("align_corners", default=True)
    return op.emit(
        "GridSample", op.input(0), op.input(1), mode=_INTERPOLATIONS[mode], padding_mode=_PADDINGS[padding],
        align_corners=int(align), shape=[*op.shape(op.input(0))[:2], *op.shape(op.input(1))[1:-1]],
    )  # fmt: skip


_RESIZES: Final = {
    "upsample_nearest1d": "nearest", "upsample_nearest2d": "nearest", "upsample_nearest3d": "nearest",
    "upsample_linear1d": "linear", "upsample_bilinear2d": "linear", "upsample_trilinear3d": "linear",
    "upsample_bicubic2d": "cubic",
}  # fmt: skip


@family.converts(*_RESIZES, expects=_image)
def upsample(op: Op) -> Value:
    """upsample_nearest* | upsample_linear1d | upsample_bilinear2d | ...(self; output_size, align_corners, scales*).

    Scales that are given must be the quotients of the sizes.
    """
    x, mode = op.input(0), _RESIZES[name_of(op)]
    output = op.args.integers("output_size")
    if len(output) != op.rank(x) - 2:
        op.unsupported(f"output_size must have {op.rank(x) - 2} sizes, not {len(output)}", code="invalid-argument")
    names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}[len(output)]
    for axis, name in enumerate(names, 2):
        _require_scale(op, x, axis, output[axis - 2], name)
    target = vector(op, [*sizes(op, x, 0, 2), *output])
    shape = [*op.shape(x)[:2], *output]
    if mode == "nearest":
        return op.emit(
            "Resize", x, None, None, target, mode=mode, shape=shape,
            coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        )  # fmt: skip
    align = op.args.flag("align_corners", default=False)
    if mode == "cubic" and not align and 1 in output:
        op.unsupported("output_size must be greater than 1 in each dim for bicubic interpolation")
    return op.emit(
        "Resize", x, None, None, target, mode=mode, shape=shape,
        coordinate_transformation_mode="align_corners" if align else "pytorch_half_pixel",
        cubic_coeff_a=-0.75 if mode == "cubic" else None,
    )  # fmt: skip


def _require_scale(op: Op, x: Value, axis: int, output: int, name: str) -> None:
    """Refuse a scale that is not the quotient of output and input size."""
    if name not in op.args:
        return
    scale, dim = op.args.number(name), op.static_dim(x, axis)
    if dim is None:
        op.needs_shape(f"the size of dim {axis}, to which {name} applies, is unknown")
    if abs(output - dim * scale) > 1e-4 * output:
        op.unsupported(f"{name} ({scale}) must be {output} / {dim}", code="invalid-argument")


_REDUCERS: Final = {"avg": ("ReduceMean", "AveragePool"), "max": ("ReduceMax", "MaxPool")}


@family.converts(
    *(f"{prefix}adaptive_{kind}_pool{rank}d" for prefix in ("", "_") for kind in _REDUCERS for rank in (1, 2, 3)),
    expects=_image,
)
def adaptive_pool(op: Op) -> Outputs:
    """adaptive_avg_pool* | adaptive_max_pool*(self; output_size) -> Y[, indices].

    Cell i of n along a dim of size d covers [floor(i * d / n), ceil((i + 1) * d / n)). Indices are not supported.
    """
    x = op.input(0)
    reducer, pool = _REDUCERS["avg" if "avg" in name_of(op) else "max"]
    output = axis_list(op, "output_size") or ()
    if any(count < 0 for count in output):
        op.unsupported(f"output_size must not be negative, but is {list(output)}", code="invalid-argument")
    first = op.rank(x) - len(output)
    if 0 in output:
        return _values(op, op.emit("Expand", op.const(0, x), vector(op, [*sizes(op, x, 0, first), *output])))
    if all(count == 1 for count in output):
        return _values(op, reduce_axes(op, reducer, x, list(range(first, op.rank(x))), keep=True))
    dims = [op.static_dim(x, axis) for axis in range(first, op.rank(x))]
    if any(dim is None for dim in dims):
        op.needs_shape("the sizes of the dims that are pooled are unknown")
    known = [dim for dim in dims if dim is not None]
    if first == 2 and all(dim % count == 0 for dim, count in zip(known, output, strict=True)):
        kernel = [dim // count for dim, count in zip(known, output, strict=True)]
        return _values(op, op.emit(pool, x, kernel_shape=kernel, strides=kernel))
    for axis, (dim, count) in enumerate(zip(known, map(op.unrolled, output), strict=True), first):
        cells = [slice_axis(op, x, axis, i * dim // count, -(-(i + 1) * dim // count)) for i in range(count)]
        x = op.emit("Concat", *(reduce_axes(op, reducer, cell, [axis], keep=True) for cell in cells), axis=axis)
    return _values(op, x)


def _values(op: Op, y: Value) -> Outputs:
    """Return the values of a pool; the indices, if listed, are not a tensor that operators can read."""
    return (y, None) if op.output_count == 2 else y


_POOLS: Final[dict[str, str]] = {
    **{f"avg_pool{rank}d": "AveragePool" for rank in (1, 2, 3)},
    **{f"max_pool{rank}d": "MaxPool" for rank in (1, 2, 3)},
    **{f"max_pool{rank}d_with_indices": "MaxPool" for rank in (1, 2, 3)},
}


@family.converts(*_POOLS, expects=_image)
def pool(op: Op) -> Outputs:
    """avg_pool* | max_pool*(self; kernel_size, stride=kernel, padding=0, dilation=1, ceil_mode=0, ...) -> Y[, indices].

    Indices are not supported.
    """
    x, kind = op.input(0), _POOLS[name_of(op)]
    rank = int(name_of(op).partition("d")[0][-1])
    if op.rank(x) == rank + 1 and name_of(op) != "avg_pool1d":
        x = unsqueeze(op, x, [0])
    elif op.rank(x) != rank + 2:
        op.unsupported(f"the input must have rank {rank + 1} or {rank + 2}, not {op.rank(x)}", code="invalid-operands")
    kernel = _spread(op, "kernel_size", rank, ())
    stride, padding = _spread(op, "stride", rank, kernel), _spread(op, "padding", rank, (0,) * rank)
    dilation = _spread(op, "dilation", rank, (1,) * rank) if kind == "MaxPool" else None
    ceil_mode = op.args.flag("ceil_mode", default=False)
    counted = op.args.flag("count_include_pad", default=True) if kind == "AveragePool" else None
    attributes: dict[str, Any] = {
        "kernel_shape": kernel, "strides": stride, "pads": [*padding, *padding], "dilations": dilation,
        "ceil_mode": int(ceil_mode), "count_include_pad": None if counted is None else int(counted),
    }  # fmt: skip
    y = op.emit(kind, x, **attributes)
    return _values(op, squeeze(op, y, [0]) if op.rank(op.input(0)) == rank + 1 else y)


def _spread(op: Op, name: str, rank: int, default: Sequence[int]) -> Sequence[int]:
    """Return an argument with a number for each dim, or one for all; ``default`` if it is absent or empty."""
    given = axis_list(op, name) or default
    if len(given) not in (1, rank):
        op.unsupported(f"{name} must have 1 or {rank} numbers, not {len(given)}", code="invalid-argument")
    return list(given) * (rank if len(given) == 1 else 1)
