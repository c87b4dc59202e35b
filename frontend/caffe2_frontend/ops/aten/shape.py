"""ATen operators that move, repeat, join and cut elements."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, mul
from caffe2_frontend.emit.shapes import (
    END,
    Size,
    indices,
    product,
    reshape,
    size,
    sizes,
    slice_axis,
    squeeze,
    unsqueeze,
    vector,
)
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.aten.operands import axis_list, name_of, number

# What onnxruntime has a DepthToSpace of.
_OF_DEPTHS: Final = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE})

family = Family("aten shape")


@family.converts("unsqueeze")
def add_dim(op: Op) -> Value:
    """aten::unsqueeze(self; dim)."""
    x = op.input(0)
    return unsqueeze(op, x, [op.axis(op.args.integer("dim"), op.rank(x) + 1, "dim")])


@family.converts("squeeze")
def remove_dims(op: Op) -> Value:
    """aten::squeeze(self; dim): one dim if its size is 1, or all such dims."""
    x = op.input(0)
    if "dim" not in op.args:
        if not op.shape(x).is_static():
            op.needs_shape("the sizes of the dims, those of which that are 1 are removed, are unknown")
        return squeeze(op, x, [axis for axis in range(op.rank(x)) if op.static_dim(x, axis) == 1])
    axis = op.axis(op.args.integer("dim"), max(op.rank(x), 1), "dim")
    if op.rank(x) == 0 or op.static_dim(x, axis) not in (None, 1):
        return x
    if op.static_dim(x, axis) is None:
        op.needs_shape(f"the size of dim {axis}, which is removed if it is 1, is unknown")
    return squeeze(op, x, [axis])


@family.converts("view", "reshape", "_unsafe_view", "_reshape_alias")
def change_shape(op: Op) -> Value:
    """aten::view(self; size) | reshape(self; shape): one of the sizes may be -1."""
    dims = op.args.integers("shape" if name_of(op) == "reshape" else "size")
    return reshape(op, op.input(0), list(dims))


@family.converts("view_as", "reshape_as")
def change_shape_like(op: Op) -> Value:
    """aten::view_as | reshape_as(self, other)."""
    return reshape(op, op.input(0), sizes(op, op.input(1)))


@family.converts("flatten")
def convert_flatten(op: Op) -> Value:
    """aten::flatten(self; start_dim=0, end_dim=-1)."""
    x = op.input(0)
    rank = op.rank(x)
    if rank == 0:
        return reshape(op, x, [1])
    start = op.axis(op.args.integer("start_dim", default=0), rank, "start_dim")
    end = op.axis(op.args.integer("end_dim", default=-1), rank, "end_dim")
    if start > end:
        op.unsupported(f"start_dim ({start}) must not exceed end_dim ({end})", code="invalid-argument")
    if start == end:
        return x
    outer = [*sizes(op, x, 0, start), *sizes(op, x, end + 1)]
    # -1 is not allowed beside sizes that may be 0.
    whole = product(op, sizes(op, x, start, end + 1)) if outer else -1
    return reshape(op, x, [*outer[:start], whole, *outer[start:]])


@family.converts("transpose", "t", "numpy_T", "permute")
def convert_permute(op: Op) -> Value:
    """aten::transpose(self; dim0, dim1) | t(self) | numpy_T(self) | permute(self; dims)."""
    x = op.input(0)
    rank = op.rank(x)
    order = list(range(rank))
    match name_of(op):
        case "transpose":
            a, b = (op.axis(op.args.integer(name), max(rank, 1), name) for name in ("dim0", "dim1"))
            if rank:
                order[a], order[b] = b, a
        case "permute":
            order = [op.axis(axis, rank, "dims") for axis in op.args.integers("dims")]
            if sorted(order) != list(range(rank)):
                op.unsupported(f"dims must name each of the {rank} dims once", code="invalid-argument")
        case _:
            order.reverse()
    return x if order == sorted(order) else op.emit("Transpose", x, perm=order)


@family.converts("expand")
def convert_expand(op: Op) -> Value:
    """aten::expand(self; size, implicit=0): a size of -1 keeps the dim."""
    op.args.ignore("implicit")
    dims = [1 if d == -1 else d for d in op.args.integers("size")]
    return op.emit("Expand", op.input(0), op.const(dims, np.int64))


@family.converts("expand_as")
def convert_expand_as(op: Op) -> Value:
    """aten::expand_as(self, other)."""
    other = op.input(1)
    return op.emit("Expand", op.input(0), vector(op, sizes(op, other)), shape=op.shape(other))


@family.converts("repeat")
def convert_repeat(op: Op) -> Value:
    """aten::repeat(self; repeats): missing dims are put before the first."""
    x, repeats = op.input(0), op.args.integers("repeats")
    missing = len(repeats) - op.rank(x)
    if missing < 0:
        op.unsupported("repeats must have a number for each dim", code="invalid-argument")
    return op.emit("Tile", unsqueeze(op, x, range(missing)), op.const(list(repeats), np.int64))


@family.converts("flip", "fliplr", "flipud")
def convert_flip(op: Op) -> Value:
    """aten::flip(self; dims) | fliplr(self) | flipud(self)."""
    x = op.input(0)
    named = {"fliplr": (1,), "flipud": (0,)}.get(name_of(op))
    axes = [op.axis(axis, op.rank(x), "dims") for axis in (named or op.args.integers("dims"))]
    ends = [np.iinfo(np.int64).min] * len(axes)
    return op.emit("Slice", x, *(op.const(v, np.int64) for v in ([-1] * len(axes), ends, axes, [-1] * len(axes))))


@family.converts("roll")
def convert_roll(op: Op) -> Value:
    """aten::roll(self; shifts, dims=[]): without dims, of all elements as one vector.

    Of a dim whose size is unknown the shift must not be longer.
    """
    x = op.input(0)
    shifts, dims = axis_list(op, "shifts") or (), axis_list(op, "dims") or ()
    if not shifts or (not dims and len(shifts) > 1):
        op.unsupported("shifts must have a number for each dim, or one", code="invalid-argument")
    if not dims:
        return reshape(op, _rolled(op, reshape(op, x, [-1]), 0, shifts[0]), sizes(op, x))
    if len(dims) != len(shifts):
        op.unsupported("shifts and dims must have one length", code="invalid-argument")
    for shift, dim in zip(shifts, dims, strict=True):
        x = _rolled(op, x, op.axis(dim, op.rank(x), "dims"), shift)
    return x


def _rolled(op: Op, x: Value, axis: int, shift: int) -> Value:
    dim = op.static_dim(x, axis)
    shift = shift % dim if dim else shift
    if shift == 0:
        return x
    parts = (slice_axis(op, x, axis, -shift, END), slice_axis(op, x, axis, 0, -shift))
    return op.emit("Concat", *parts, axis=axis, shape=op.shape(x))


@family.converts("unfold")
def convert_unfold(op: Op) -> Value:
    """aten::unfold(self; dimension, size, step): windows along a dim, whose elements become the last dim."""
    x = op.input(0)
    axis = op.axis(op.args.integer("dimension"), op.rank(x), "dimension")
    length, step = op.args.integer("size"), op.args.integer("step")
    count = _windows(op, size(op, x, axis), length, step)
    starts = unsqueeze(op, mul(op, indices(op, count), step), [1])
    windows = op.emit("Gather", x, add(op, starts, op.const(np.arange(op.bounded(length)), np.int64)), axis=axis)
    order = [i for i in range(op.rank(x) + 1) if i != axis + 1]
    return op.emit("Transpose", windows, perm=[*order, axis + 1])


def _windows(op: Op, dim: Size, length: int, step: int) -> Size:
    """Return the number of windows: ``(dim - length) // step + 1``."""
    if isinstance(dim, int):
        return (dim - length) // step + 1
    places = op.emit("Div", op.emit("Sub", dim, op.const([length], np.int64)), op.const([step], np.int64))
    return op.emit("Add", places, op.const([1], np.int64))


@family.converts(
    "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d",
    "replication_pad3d",
)  # fmt: skip
def pad(op: Op) -> Value:
    """aten::constant_pad_nd(self; pad, value=0) | reflection_pad*(self; padding) | replication_pad*(self; padding).

    Pads are pairs (before, after), for the last dim first; negative ones crop.
    """
    x, constant = op.input(0), name_of(op) == "constant_pad_nd"
    given = op.args.integers("pad" if constant else "padding")
    if len(given) % 2 or len(given) > 2 * op.rank(x):
        op.unsupported(f"pads must be pairs for at most {op.rank(x)} dims, not {len(given)}", code="invalid-argument")
    absent = op.rank(x) - len(given) // 2
    before, after = [0] * absent + list(given[-2::-2]), [0] * absent + list(given[::-2])
    pads = op.const([*before, *after], np.int64)
    if constant:
        return op.emit("Pad", x, pads, op.const(number(op, "value", 0), x))
    return op.emit("Pad", x, pads, mode="reflect" if name_of(op).startswith("reflection") else "edge")


@family.converts("pixel_shuffle", "pixel_unshuffle")
def convert_pixel_shuffle(op: Op) -> Value:
    """aten::pixel_shuffle(self; upscale_factor) | pixel_unshuffle(self; downscale_factor), of any leading dims."""
    x, shuffle = op.input(0), name_of(op) == "pixel_shuffle"
    factor = op.args.integer("upscale_factor" if shuffle else "downscale_factor")
    rank = op.rank(x)
    if rank < 3:
        op.unsupported(f"the input must have at least rank 3, not {rank}", code="invalid-operands")
    if rank == 4 and shuffle and op.dtype(x) in _OF_DEPTHS:
        return op.emit("DepthToSpace", x, blocksize=factor, mode="CRD")
    lead, (c, h, w) = sizes(op, x, 0, rank - 3), sizes(op, x, rank - 3)
    n = len(lead)
    if shuffle:
        parts: list[Size] = [*lead, _divided(op, c, factor * factor), factor, factor, h, w]
        order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
        last = [parts[n], _times(op, h, factor), _times(op, w, factor)]
    else:
        parts = [*lead, c, _divided(op, h, factor), factor, _divided(op, w, factor), factor]
        order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
        last = [_times(op, c, factor * factor), parts[n + 1], parts[n + 3]]
    return reshape(op, op.emit("Transpose", reshape(op, x, parts), perm=order), [*lead, *last])


def _divided(op: Op, value: Size, divisor: int) -> Size:
    return value // divisor if isinstance(value, int) else op.emit("Div", value, op.const([divisor], np.int64))


def _times(op: Op, value: Size, factor: int) -> Size:
    return value * factor if isinstance(value, int) else op.emit("Mul", value, op.const([factor], np.int64))
