"""Concatenation, splitting and slicing along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.constant_evaluation import known_values
from caffe2_frontend.emit.operand_checks import require_rank
from caffe2_frontend.emit.shapes import (
    as_vector,
    cast,
    leading,
    reshape,
    size,
    size_vector,
    squeeze,
    unsqueeze,
    vector,
)
from caffe2_frontend.emit.slicing import require_ranges, split_equally
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("slicing")

_LENGTHS = TensorInfo(ir.DataType.INT32, (None,))
_TO_THE_END = np.iinfo(np.int64).max


def _axis(op: Op, rank: int) -> int:
    """Return the axis that ``axis`` names, or the channel axis of ``order``."""
    axis = op.args.optional_integer("axis")
    order = op.args.text("order", default="")
    if axis is None:
        if order not in ("", "NCHW", "NHWC"):
            op.unsupported(f"order must be NCHW or NHWC, not {order!r}", code="invalid-argument")
        axis = 3 if order == "NHWC" else 1
    elif order:
        op.unsupported("axis and order must not both be given", hint="remove order", code="invalid-argument")
    return op.axis(axis, rank)


def _add_axis(op: Op) -> bool:
    """Return the argument ``add_axis``, which Caffe2 reads only if ``axis`` is given."""
    return op.args.flag("add_axis", default=False) and "axis" in op.args


@family.converts("Concat", "DepthConcat", uniform=True)
def concat(op: Op) -> tuple[Value, Value | None]:
    """Concat | DepthConcat(X0, X1, ...; axis=1, order="NCHW", add_axis=0) -> Y, split_info.

    With ``add_axis`` the tensors are stacked along a new axis. The second output holds their sizes along the axis
    (int32).
    """
    # Left over on operators that were generated as the gradient of another one.
    op.args.ignore("split", "use_scaling_lengths")
    adds = _add_axis(op)
    axis = _axis(op, op.rank(op.input(0)) + adds)
    parts = [unsqueeze(op, x, [axis]) for x in op.inputs] if adds else list(op.inputs)
    result = op.emit("Concat", *parts, axis=axis)
    if not op.wants(1):
        return result, None
    return result, _as_int32(op, [1 if adds else size(op, x, axis) for x in parts])


def _as_int32(op: Op, values: Sequence[int | Value]) -> Value:
    """Return sizes as an int32 vector."""
    known = [v for v in values if isinstance(v, int)]
    if len(known) == len(values):
        return op.const(known, np.int32)
    return cast(op, vector(op, values), ir.DataType.INT32)


@family.converts("Append")
def append(op: Op) -> Value:
    """Append(dataset, X) -> dataset: the rows of X are appended."""
    return op.emit("Concat", op.input(0), op.input(1), axis=0)


@family.converts("Split", "DepthSplit", expects={1: _LENGTHS}, uniform=True)
def split(op: Op) -> tuple[Value, ...]:
    """Split | DepthSplit(X[, split]; axis=1, order="NCHW", split, add_axis=0) -> Y0, Y1, ...

    The sizes are an operand, an argument, or equal. With ``add_axis`` each output is one slice, without the axis.
    """
    x, count = op.input(0), op.output_count
    axis = _axis(op, op.rank(x))
    op.args.ignore("use_scaling_lengths")
    given = op.args.integers("split", default=())
    total = op.static_dim(x, axis)
    if op.has_input(1) and given:
        op.unsupported(
            "split must not be given both as argument and as operand", hint="remove one", code="invalid-argument"
        )
    if _add_axis(op):
        _enforce_total(op, total, count)
        parts = _parts(op, x, axis, op.const([1] * count, np.int64))
        return tuple(squeeze(op, part, [axis]) for part in parts)
    if op.has_input(1):
        return _parts(op, x, axis, cast(op, as_vector(op, op.input(1)), ir.DataType.INT64))
    if given:
        if len(given) != count or min(given) < 0:
            op.unsupported(
                f"split must hold {count} sizes, none of them negative, not {list(given)}", code="invalid-argument"
            )
        _enforce_total(op, total, sum(given))
        return _parts(op, x, axis, op.const(given, np.int64))
    if total is not None and total % count:
        op.unsupported(
            f"the size of axis {axis} ({total}) must be a multiple of the number of outputs ({count})",
            code="invalid-operands",
        )
    return split_equally(op, x, axis, count)


def _enforce_total(op: Op, total: int | None, requested: int) -> None:
    """Refuse sizes whose sum is known to differ from the size of the axis."""
    if total is not None and total != requested:
        op.unsupported(f"the sizes must sum to {total}, the size of the axis, not {requested}", code="invalid-operands")


def _parts(op: Op, x: Value, axis: int, lengths: Value, count: int | None = None) -> tuple[Value, ...]:
    """Split ``x`` along ``axis`` into parts of the given lengths."""
    parts = op.emit("Split", x, lengths, axis=axis, outputs=count or op.output_count)
    parts = parts if isinstance(parts, tuple) else (parts,)
    for part in parts:
        if part.shape is None:
            part.shape = ir.Shape([None if i == axis else dim for i, dim in enumerate(op.shape(x))])
    return parts


@family.converts("SplitByLengths", expects={1: _LENGTHS})
def split_by_lengths(op: Op) -> tuple[Value, ...]:
    """SplitByLengths(X, lengths; axis=1, order="NCHW", use_scaling_lengths=0) -> Y0, Y1, ...

    The lengths, of a matrix as many as it has rows, are distributed evenly over the outputs; an output is as long as
    the sum of its share. With ``use_scaling_lengths`` the lengths are proportions of the axis.
    """
    x, count = op.input(0), op.output_count
    axis = _axis(op, op.rank(x))
    lengths = op.input(1)
    if op.rank(lengths) != 1:
        lengths = leading(op, lengths, size(op, lengths, 0))
    shares = reshape(op, cast(op, lengths, ir.DataType.INT64), [count, -1])
    lengths = op.emit("ReduceSum", shares, op.const([1], np.int64), keepdims=0)
    if not op.args.flag("use_scaling_lengths", default=False):
        return _parts(op, x, axis, lengths)
    total = size_vector(op, x, axis)
    length_sum = op.emit("ReduceSum", lengths, keepdims=1)
    factor = op.emit("Div", total, op.emit("Max", length_sum, op.const([1], np.int64)))
    lengths = op.emit("Mul", lengths, factor)
    # The remainder goes to one more part, which is dropped; it is not empty where all lengths are zero.
    rest = op.emit("Sub", total, op.emit("Mul", length_sum, factor))
    return _parts(op, x, axis, op.emit("Concat", lengths, rest, axis=0), count + 1)[:-1]


@family.converts("Slice", expects={1: _LENGTHS, 2: _LENGTHS})
def slice_ranges(op: Op) -> Value:
    """Slice(X[, starts, ends]; starts, ends) -> Y.

    A negative index ``i`` means ``size + 1 + i``: -1 is the end itself, where it is the last element in ONNX.
    """
    x = op.input(0)
    if op.has_input(1):
        op.args.ignore("starts", "ends")
        starts, ends = op.input(1), op.input(2)
        require_rank(op, starts, 1, "starts")
        require_rank(op, ends, 1, "ends")
        count = op.static_dim(starts, 0)
        if count is not None and count > op.rank(x):
            op.unsupported(
                f"starts and ends must have at most {op.rank(x)} elements, not {count}", code="invalid-operands"
            )
        known = known_values(op, starts), known_values(op, ends)
        if known[0] is None or known[1] is None:
            return _slice_runtime(op, x, starts, ends)
        pair = known[0].tolist(), known[1].tolist()
    else:
        pair = list(op.args.integers("starts")), list(op.args.integers("ends"))
    return slice_static(op, x, *pair)


def slice_static(op: Op, x: Value, starts: list[int], ends: list[int]) -> Value:
    """Slice the first axes of ``x`` from ``starts`` up to ``ends``, negative indices as in Caffe2."""
    require_ranges(op, x, starts, ends)
    axes = [i for i, bounds in enumerate(zip(starts, ends, strict=True)) if bounds != (0, -1)]
    if not axes:
        return x
    bounds = [[_onnx_index(indices[i]) for i in axes] for indices in (starts, ends)]
    return op.emit("Slice", x, *(op.const(values, np.int64) for values in (*bounds, axes)))


def _onnx_index(index: int) -> int:
    """Convert an index as Caffe2 counts it to ONNX's convention."""
    return _TO_THE_END if index == -1 else index + (index < 0)


def _slice_runtime(op: Op, x: Value, starts: Value, ends: Value) -> Value:
    """Slice ``x`` by ``starts`` and ``ends`` that are known only when the model runs."""
    zero, minus_one, end = (op.const([v], np.int64) for v in (0, -1, _TO_THE_END))
    bounds = []
    for indices in (starts, ends):
        index = cast(op, indices, ir.DataType.INT64)
        shifted = op.emit("Add", index, cast(op, op.emit("Less", index, zero), ir.DataType.INT64))
        bounds.append(op.emit("Where", op.emit("Equal", index, minus_one), end, shifted))
    return op.emit("Slice", x, *bounds, shape=[None] * op.rank(x))


@family.converts("RemoveDataBlocks", expects={1: _LENGTHS})
def remove_data_blocks(op: Op) -> Value:
    """RemoveDataBlocks(X, indices) -> Y: all rows except those that the indices name."""
    x, indices = op.input(0), cast(op, as_vector(op, op.input(1)), ir.DataType.INT64)
    keep = op.emit("Expand", op.const([True]), op.emit("Shape", x, end=1))
    drop = op.emit("Expand", op.const([False]), op.emit("Shape", indices))
    keep = op.emit("ScatterElements", keep, indices, drop, axis=0)
    return op.emit("Compress", x, keep, axis=0, shape=[None, *op.shape(x)[1:]])
