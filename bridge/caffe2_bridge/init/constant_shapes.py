"""Evaluate operators of init nets that arrange elements: shapes, slices, copies of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from caffe2_bridge.init.fill import FillError
from caffe2_bridge.init.operand import Evaluate, axis_of, integers_of, require_inputs
from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.netdef.views import OpView


def _expand_dims(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 1)
    shape = list(inputs[0].shape)
    for dim in sorted(set(op.args.integers("dims"))):
        if not 0 <= dim <= len(shape):
            raise FillError(f"'dims' holds {dim}, which is out of range")
        shape.insert(dim, 1)
    return (inputs[0].reshape(shape),)


def _squeeze(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 1)
    dims = set(op.args.integers("dims"))
    shape = inputs[0].shape
    if any(not 0 <= dim < len(shape) or shape[dim] != 1 for dim in dims):
        raise FillError(f"'dims' must hold dims of size 1, but the shape is {list(shape)}")
    return (inputs[0].reshape([size for dim, size in enumerate(shape) if dim not in dims]),)


def _reshape(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """``Reshape(X, [shape]; shape) -> Y, old_shape``: 0 keeps a dim, -1 is what is left."""
    require_inputs(inputs, 1, 2)
    x = inputs[0]
    shape = list(integers_of(inputs[1], "the shape") if len(inputs) > 1 else op.args.integers("shape"))
    for axis, size in enumerate(shape):
        if size == 0 and axis < x.ndim:
            shape[axis] = x.shape[axis]
    rest = math.prod(size for size in shape if size != -1)
    if shape.count(-1) == 1:
        shape[shape.index(-1)] = x.size // rest if rest else 0
    if any(size < 0 for size in shape) or math.prod(shape) != x.size:
        raise FillError(f"a tensor of {x.size} elements does not have shape {shape}")
    return x.reshape(shape), np.array(x.shape, inputs[1].dtype if len(inputs) > 1 else np.int64)


def _concat(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """``Concat(X...; axis=1, add_axis=0) -> Y, sizes``: the second output holds the sizes along the axis, int32."""
    if not inputs:
        raise FillError("the operator must have at least one input")
    rank = inputs[0].ndim
    if op.args.flag("add_axis", default=False):
        axis = axis_of(_axis(op), rank + 1)
        return np.stack(inputs, axis), np.ones(len(inputs), np.int32)
    axis = axis_of(_axis(op), rank)
    return np.concatenate(inputs, axis), np.array([x.shape[axis] for x in inputs], np.int32)


def _axis(op: OpView) -> int:
    if "axis" in op.args:
        return op.args.integer("axis")
    return 3 if op.args.text("order", default="NCHW") == "NHWC" else 1


def _split(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 1, 2)
    x = inputs[0]
    axis = axis_of(_axis(op), x.ndim)
    count = len(op.outputs)
    sizes = op.args.integers("split", default=())
    if len(inputs) > 1:
        sizes = integers_of(inputs[1], "the sizes")
    if op.args.flag("add_axis", default=False):
        sizes = (1,) * x.shape[axis]
    if not sizes and x.shape[axis] % count == 0:
        sizes = (x.shape[axis] // count,) * count
    if len(sizes) != count or sum(sizes) != x.shape[axis] or min(sizes) < 0:
        raise FillError(
            f"an axis of size {x.shape[axis]} cannot be split into {list(sizes) or count} for {count} outputs"
        )
    parts = np.split(x, np.cumsum(sizes)[:-1], axis)
    return tuple(part.squeeze(axis) for part in parts) if op.args.flag("add_axis", default=False) else tuple(parts)


def _slice(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """``Slice(X, [starts, ends]; starts, ends) -> Y``: -1 is the end of an axis, -2 its last element."""
    require_inputs(inputs, 1, 3)
    x = inputs[0]
    if len(inputs) == 3:
        starts, ends = (integers_of(array, "starts and ends") for array in inputs[1:])
    else:
        starts, ends = op.args.integers("starts"), op.args.integers("ends")
    if len(starts) != len(ends) or len(starts) > x.ndim:
        raise FillError(f"'starts' has {len(starts)} elements, 'ends' {len(ends)}, for a tensor of rank {x.ndim}")
    bounds = [tuple(min(size, at + size + 1 if at < 0 else at) for at in pair)
              for size, pair in zip(x.shape, zip(starts, ends, strict=True), strict=False)]  # fmt: skip
    if any(start < 0 or end < start for start, end in bounds):
        raise FillError(
            f"starts {list(starts)} and ends {list(ends)} must be in ascending order within {list(x.shape)}"
        )
    if sum(end - start != size for (start, end), size in zip(bounds, x.shape, strict=False)) > 1:
        raise FillError("Caffe2 slices along one axis at a time")
    return (x[tuple(slice(*bound) for bound in bounds)],)


def _transpose(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 1)
    axes = op.args.integers("axes", default=tuple(reversed(range(inputs[0].ndim))))
    if sorted(axes) != list(range(inputs[0].ndim)):
        raise FillError(f"'axes' must be a permutation of the {inputs[0].ndim} axes, not {list(axes)}")
    return (np.asarray(inputs[0].transpose(axes), order="C"),)


def _flatten(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 1)
    x = inputs[0]
    axis = op.args.integer("axis", default=1)
    axis = x.ndim if axis == x.ndim else axis_of(axis, x.ndim)
    return (x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])),)


def _flatten_to_vector(_: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 1)
    return (inputs[0].reshape(-1),)


def _shape(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 1)
    rank = inputs[0].ndim
    axes = op.args.integers("axes", default=()) or range(rank)
    return (np.array([inputs[0].shape[axis_of(axis, rank)] for axis in axes], np.int64),)


def _gather(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 2)
    x, indices = inputs
    integers_of(indices, "the indices")
    axis = axis_of(op.args.integer("axis", default=0), x.ndim)
    size = x.shape[axis]
    if op.args.flag("wrap_indices", default=False):
        indices = np.where(indices < 0, indices + size, indices)
    if indices.size and not 0 <= indices.min() <= indices.max() < size:
        raise FillError(f"the indices must be from 0 to {size - 1}")
    if not op.args.flag("match_outer", default=False):
        return (x.take(indices, axis),)
    outer = x.shape[:axis]
    if indices.shape[:axis] != outer:
        raise FillError(f"the indices must have the outer dims of the data, {list(outer)}")
    rows = x.reshape(-1, *x.shape[axis:])
    picked = [row[at] for row, at in zip(rows, indices.reshape(len(rows), *indices.shape[axis:]), strict=True)]
    return (np.reshape(picked, (*indices.shape, *x.shape[axis + 1 :])).astype(x.dtype),)


def _scatter_assign(_: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """``ScatterAssign(X, indices, rows) -> X``: rows of X are overwritten."""
    require_inputs(inputs, 3)
    x, indices, rows = inputs
    at = integers_of(indices, "the indices")
    if rows.dtype != x.dtype or rows.size != len(at) * math.prod(x.shape[1:]):
        raise FillError("the third input must hold a row of the first for each index")
    if any(not 0 <= index < len(x) for index in at):
        raise FillError(f"the indices must be from 0 to {len(x) - 1}")
    x = x.copy()
    for index, row in zip(at, rows.reshape(len(at), *x.shape[1:]), strict=True):
        x[index] = row
    return (x,)


def _expand(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 1, 2)
    shape = integers_of(inputs[1], "the shape") if len(inputs) > 1 else op.args.integers("shape")
    return (np.array(np.broadcast_to(inputs[0], np.broadcast_shapes(inputs[0].shape, shape))),)


def _numpy_tile(_: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 2)
    repeats = integers_of(inputs[1], "the repeats")
    if len(repeats) != inputs[0].ndim:
        raise FillError(f"the repeats must be {inputs[0].ndim} integers, one for each axis")
    return (np.tile(inputs[0], repeats),)


def _tile(op: OpView, inputs: Sequence[Array]) -> tuple[Array, ...]:
    require_inputs(inputs, 1, 3)
    x = inputs[0]
    tiles, axis = (
        integers_of(inputs[at], name)[0] if len(inputs) > at else op.args.integer(name, default=default)
        for at, name, default in ((1, "tiles", 1), (2, "axis", 0))
    )
    return (np.concatenate([x] * tiles, axis_of(axis, x.ndim)),)


SHAPES: Final[Mapping[str, Evaluate]] = MappingProxyType({
    "Concat": _concat,
    "Expand": _expand,
    "ExpandDims": _expand_dims,
    "Flatten": _flatten,
    "FlattenToVec": _flatten_to_vector,
    "Gather": _gather,
    "NumpyTile": _numpy_tile,
    "Reshape": _reshape,
    "ScatterAssign": _scatter_assign,
    "Shape": _shape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
})  # fmt: skip
