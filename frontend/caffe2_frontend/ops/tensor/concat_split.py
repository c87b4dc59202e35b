"""Joining tensors along an axis and taking them apart again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.constant_evaluation import evaluated
from caffe2_frontend.emit.shapes import cast, reshape, size, size_vector, squeeze, unsqueeze, vector
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("slicing")

_LENGTHS = TensorInfo(ir.DataType.INT32, (None,))
_TO_THE_END = np.iinfo(np.int64).max


def _axis(op: Op, rank: int) -> int:
    """The axis that ``axis`` names, or that ``order`` has the channels on."""
    axis = op.args.optional_integer("axis")
    order = op.args.text("order", default="")
    if axis is None:
        if order not in ("", "NCHW", "NHWC"):
            op.unsupported(f"order must be NCHW or NHWC, not {order!r}", code="invalid-argument")
        axis = 3 if order == "NHWC" else 1
    elif order:
        op.unsupported("axis and order are given both", code="invalid-argument")
    return op.axis(axis, rank)


def _add_axis(op: Op) -> bool:
    """Whether the axis exists in the joined tensor only; not heeded where the axis comes from ``order``."""
    return op.args.flag("add_axis", default=False) and "axis" in op.args


@family.converts("Concat", "DepthConcat")
def concat(op: Op) -> tuple[Value, Value | None]:
    """Along an axis, or a new one with ``add_axis``; the second output holds the operands' sizes along it (int32)."""
    # Left over on operators that were made as another one's gradient.
    op.args.ignore("split", "use_scaling_lengths")
    adds = _add_axis(op)
    axis = _axis(op, op.rank(op.input(0)) + adds)
    parts = [unsqueeze(op, x, [axis]) for x in op.inputs] if adds else list(op.inputs)
    joined = op.emit("Concat", *parts, axis=axis)
    if not op.wants(1):
        return joined, None
    return joined, _as_int32(op, [1 if adds else size(op, x, axis) for x in parts])


def _as_int32(op: Op, values: Sequence[int | Value]) -> Value:
    known = [v for v in values if isinstance(v, int)]
    if len(known) == len(values):
        return op.const(known, np.int32)
    return cast(op, vector(op, values), ir.DataType.INT32)


@family.converts("Append")
def append(op: Op) -> Value:
    """The rows of the second operand behind those of the first, which is updated in place."""
    return op.emit("Concat", op.input(0), op.input(1), axis=0)


@family.converts("Split", "DepthSplit", expects={1: _LENGTHS})
def split(op: Op) -> tuple[Value, ...]:
    """The sizes are an operand, an argument, or equal. With ``add_axis`` each part is one place, without the axis."""
    x, count = op.input(0), op.output_count
    axis = _axis(op, op.rank(x))
    op.args.ignore("use_scaling_lengths")
    given = op.args.integers("split", default=())
    total = op.static_dim(x, axis)
    if op.has_input(1) and given:
        op.unsupported("split is given as argument and as operand", code="invalid-argument")
    if _add_axis(op):
        _enforce_total(op, total, count)
        parts = _parts(op, x, axis, op.const([1] * count, np.int64))
        return tuple(squeeze(op, part, [axis]) for part in parts)
    if op.has_input(1):
        return _parts(op, x, axis, cast(op, op.input(1), ir.DataType.INT64))
    if given:
        if len(given) != count or min(given) < 0:
            op.unsupported(f"split {list(given)} does not give {count} sizes", code="invalid-argument")
        _enforce_total(op, total, sum(given))
        return _parts(op, x, axis, op.const(given, np.int64))
    if total is not None and total % count:
        op.unsupported(f"{total} along axis {axis} does not divide into {count} parts", code="invalid-operands")
    return op.emit("Split", x, axis=axis, num_outputs=count, outputs=count) if count > 1 else (x,)


def _enforce_total(op: Op, total: int | None, asked: int) -> None:
    if total is not None and total != asked:
        op.unsupported(f"the parts are {asked} in all, the axis has {total}", code="invalid-operands")


def _parts(op: Op, x: Value, axis: int, lengths: Value, count: int | None = None) -> tuple[Value, ...]:
    parts = op.emit("Split", x, lengths, axis=axis, outputs=count or op.output_count)
    parts = parts if isinstance(parts, tuple) else (parts,)
    for part in parts:
        if part.shape is None:
            part.shape = ir.Shape([None if i == axis else dim for i, dim in enumerate(op.shape(x))])
    return parts


@family.converts("SplitByLengths", expects={1: _LENGTHS})
def split_by_lengths(op: Op) -> tuple[Value, ...]:
    """The lengths are shared out evenly: a part is as long as its share's sum.

    With ``use_scaling_lengths`` the lengths are proportions of the axis.
    """
    x, count = op.input(0), op.output_count
    axis = _axis(op, op.rank(x))
    shares = reshape(op, cast(op, op.input(1), ir.DataType.INT64), [count, -1])
    lengths = op.emit("ReduceSum", shares, op.const([1], np.int64), keepdims=0)
    if not op.args.flag("use_scaling_lengths", default=False):
        return _parts(op, x, axis, lengths)
    total = size_vector(op, x, axis)
    asked = op.emit("ReduceSum", lengths, keepdims=1)
    factor = op.emit("Div", total, op.emit("Max", asked, op.const([1], np.int64)))
    lengths = op.emit("Mul", lengths, factor)
    # Lengths that are all zero leave the whole axis over.
    rest = op.emit("Sub", total, op.emit("Mul", asked, factor))
    return _parts(op, x, axis, op.emit("Concat", lengths, rest, axis=0), count + 1)[:-1]


@family.converts("Slice", expects={1: _LENGTHS, 2: _LENGTHS})
def slice_ranges(op: Op) -> Value:
    """Negative places count from the end so that -1 is the end itself, not the last place."""
    x = op.input(0)
    if op.has_input(1):
        op.args.ignore("starts", "ends")
        starts, ends = op.input(1), op.input(2)
        known = evaluated(op, starts), evaluated(op, ends)
        if known[0] is None or known[1] is None:
            return _slice_runtime(op, x, starts, ends)
        pair = known[0].tolist(), known[1].tolist()
    else:
        pair = list(op.args.integers("starts")), list(op.args.integers("ends"))
    return slice_static(op, x, *pair)


def slice_static(op: Op, x: Value, starts: list[int], ends: list[int]) -> Value:
    """The places from ``starts`` up to ``ends`` along the first axes; negative ones as Caffe2 counts them."""
    if len(starts) != len(ends) or len(starts) > op.rank(x):
        op.unsupported(f"starts {starts} and ends {ends} do not fit rank {op.rank(x)}", code="invalid-argument")
    _enforce_slice(op, x, starts, ends)
    axes = [i for i, bounds in enumerate(zip(starts, ends, strict=True)) if bounds != (0, -1)]
    if not axes:
        return x
    bounds = [[_onnx_place(places[i]) for i in axes] for places in (starts, ends)]
    return op.emit("Slice", x, *(op.const(values, np.int64) for values in (*bounds, axes)))


def _onnx_place(place: int) -> int:
    return _TO_THE_END if place == -1 else place + (place < 0)


def _enforce_slice(op: Op, x: Value, starts: list[int], ends: list[int]) -> None:
    """Refuse what cannot be sliced, where dims are known: at most one axis is cut, no range ends before it starts."""
    dims = [op.static_dim(x, i) for i in range(len(starts))]
    if 0 in op.shape(x):
        return
    cut = []
    for axis, (dim, *bounds) in enumerate(zip(dims, starts, ends, strict=True)):
        if dim is None:
            continue
        start, end = (min(dim, v + dim + 1 if v < 0 else v) for v in bounds)
        if not 0 <= start <= end:
            op.unsupported(f"range {bounds} along axis {axis} of size {dim} is impossible", code="invalid-operands")
        if (start, end) != (0, dim):
            cut.append(axis)
    if len(cut) > 1 and all(isinstance(d, int) for d in op.shape(x)):
        op.unsupported(f"only one axis can be sliced, not {cut}", code="invalid-operands")


def _slice_runtime(op: Op, x: Value, starts: Value, ends: Value) -> Value:
    zero, minus_one, end = (op.const([v], np.int64) for v in (0, -1, _TO_THE_END))
    bounds = []
    for places in (starts, ends):
        place = cast(op, places, ir.DataType.INT64)
        shifted = op.emit("Add", place, cast(op, op.emit("Less", place, zero), ir.DataType.INT64))
        bounds.append(op.emit("Where", op.emit("Equal", place, minus_one), end, shifted))
    return op.emit("Slice", x, *bounds, shape=[None] * op.rank(x))


@family.converts("RemoveDataBlocks", expects={1: _LENGTHS})
def remove_data_blocks(op: Op) -> Value:
    """All rows but those that the second operand names."""
    x, indices = op.input(0), cast(op, op.input(1), ir.DataType.INT64)
    keep = op.emit("Expand", op.const([True]), op.emit("Shape", x, end=1))
    drop = op.emit("Expand", op.const([False]), op.emit("Shape", indices))
    keep = op.emit("ScatterElements", keep, indices, drop, axis=0)
    return op.emit("Compress", x, keep, axis=0, shape=[None, *op.shape(x)[1:]])
