"""Shapes: reshaping, squeezing, transposing, tiling and expanding; and the shape itself."""

from __future__ import annotations

import math

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value, sizes_tensor

family = Family("shape")


@family.converts("Reshape")
def reshape_to(op: Op) -> tuple[Value, Value]:
    """Read 0 in the shape as the dim of X at that position; if X is empty, 0 and -1 are 0."""
    x = op.tensor(0)
    if op.has(1):
        if "shape" in op.args:
            op.refuse("shape must not be given both as argument and as operand")
        dims, old = op.tensor(1).tolist(), op.tensor(1).dtype
    else:
        dims, old = list(op.args.integers("shape")), torch.int64
    if x.numel() == 0 and 0 in dims:
        dims = [max(dim, 0) for dim in dims]
    else:
        if any(dim == 0 and index >= x.dim() for index, dim in enumerate(dims)):
            op.refuse(f"shape must not have a 0 beyond the rank of X ({x.dim()}): {dims}")
        dims = [x.shape[index] if dim == 0 else dim for index, dim in enumerate(dims)]
    if x.numel() == 0:
        dims = [max(dim, 0) for dim in dims]
    return x.reshape(dims), sizes_tensor(x.shape, old)


@family.converts("Squeeze", "ExpandDims")
def squeeze_or_expand(op: Op) -> Value:
    x, dims = op.tensor(0), sorted(set(op.args.integers("dims")))
    if not dims or dims[0] < 0:
        op.refuse("dims must be given, and none may be negative")
    if op.type == "ExpandDims":
        for dim in dims:
            x = x.unsqueeze(dim)
        return x
    if any(x.shape[dim] != 1 for dim in dims):
        op.refuse(f"dims {dims} of shape {tuple(x.shape)} must be 1")
    return x.squeeze(tuple(dims))


@family.converts("Transpose")
def transpose(op: Op) -> Value:
    x = op.tensor(0)
    return x.permute(list(op.args.integers("axes", default=())) or list(range(x.dim()))[::-1])


@family.converts("Flatten")
def flatten_to_matrix(op: Op) -> Value:
    return flatten(op, op.tensor(0), op.args.integer("axis", default=1))


def flatten(op: Op, x: torch.Tensor, axis: int) -> torch.Tensor:
    """Return a matrix of the dims before ``axis`` and those from it on."""
    axis = axis + x.dim() if axis < 0 else axis
    if not 0 <= axis <= x.dim():
        op.refuse(f"axis {axis} is out of range for rank {x.dim()}")
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@family.converts("FlattenToVec")
def flatten_to_vector(op: Op) -> Value:
    if op.tensor(0).dim() == 0:
        op.refuse("X must have at least rank 1, not 0")
    return op.tensor(0).reshape(-1)


@family.converts("MergeDim")
def merge_dim(op: Op) -> Value:
    if op.tensor(0).dim() < 2:
        op.refuse("X must have at least rank 2")
    return op.tensor(0).flatten(0, 1)


@family.converts("PrependDim")
def prepend_dim(op: Op) -> Value:
    x, count = op.tensor(0), op.args.integer("dim_size", default=0)
    if count <= 0 or x.shape[0] % count:
        op.refuse(f"the first dim ({x.shape[0]}) must be a multiple of dim_size ({count})")
    return x.reshape(count, x.shape[0] // count, *x.shape[1:])


@family.converts("ResizeLike")
def resize_like(op: Op) -> Value:
    return op.tensor(0).reshape(op.tensor(1).shape)


@family.converts("Shape")
def shape_of(op: Op) -> Value:
    value, axes = op.values[0], op.args.integers("axes", default=())
    shape = tuple(value.shape) if value is not None and not isinstance(value, tuple) else op.tensor(0).shape
    return sizes_tensor([shape[axis] for axis in axes] if axes else shape, torch.int64)


@family.converts("Size")
def size_of(op: Op) -> Value:
    return sizes_tensor([op.tensor(0).numel()], torch.int64)[0]


@family.converts("Expand")
def expand(op: Op) -> Value:
    x, dims = op.tensor(0), [max(int(dim), 1) for dim in op.tensor(1).reshape(-1).tolist()]
    return x.expand(torch.broadcast_shapes(x.shape, dims))


@family.converts("Tile")
def tile(op: Op) -> Value:
    """Take axis 0 if ``tiles`` is an int64 operand: Caffe2 does not read the argument ``axis`` then."""
    x, axis = op.tensor(0), op.args.optional_integer("axis")
    tiles = op.tensor(1).reshape(-1)[0].item() if op.has(1) else op.args.integer("tiles")
    op.args.ignore("tiles")
    if op.has(2):
        axis = int(op.tensor(2).reshape(-1)[0].item())
    if axis is None:
        op.refuse("axis must be given, as argument or as operand")
    if op.has(1) and not op.has(2) and op.tensor(1).dtype == torch.int64:
        axis = 0
    repeats = [1] * x.dim()
    repeats[op.axis(axis, x.dim())] = int(tiles)
    return x.repeat(repeats)


@family.converts("NumpyTile")
def numpy_tile(op: Op) -> Value:
    x, repeats = op.tensor(0), op.tensor(1).tolist()
    if len(repeats) != x.dim():
        op.refuse(f"{x.dim()} repeats are needed, not {len(repeats)}")
    return x.repeat(repeats)
