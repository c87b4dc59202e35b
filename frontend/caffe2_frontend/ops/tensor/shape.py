"""Shapes: the same elements under other dims, repeated along dims, and the dims themselves."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.constant_evaluation import evaluated
from caffe2_frontend.emit.shapes import (
    Size,
    cast,
    flatten,
    known_size,
    product,
    reshape,
    size,
    sizes,
    squeeze,
    unsqueeze,
)
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("shape")

_VECTOR = TensorInfo(ir.DataType.INT64, (None,))
_INTEGER = TensorInfo(ir.DataType.INT32, (1,))


@family.converts("Reshape", expects={1: _VECTOR})
def reshape_to(op: Op) -> tuple[Value, Value | None]:
    """In a shape -1 is what is left, and 0 the dim at that place; for an empty tensor both are 0.

    The shape is an argument or an operand. The second output is the shape as it was, of the operand's type.
    """
    x = op.input(0)
    dims = op.args.integers("shape", default=())
    old_type = ir.DataType.INT64
    if not op.has_input(1):
        if "shape" not in op.args:
            op.unsupported("shape is given neither as argument nor as operand", code="invalid-argument")
        y = _reshape_static(op, x, list(dims))
    else:
        if "shape" in op.args:
            op.unsupported("shape is given as argument and as operand", code="invalid-argument")
        shape = op.input(1)
        old_type = op.dtype(shape)
        known = evaluated(op, shape)
        y = _reshape_runtime(op, x, shape) if known is None else _reshape_static(op, x, known.tolist())
    return y, cast(op, op.emit("Shape", x), old_type) if op.wants(1) else None


def _reshape_static(op: Op, x: Value, dims: list[int]) -> Value:
    if dims.count(-1) > 1 or any(d < -1 for d in dims):
        op.unsupported(f"{dims} is no shape: one dim may be -1", code="invalid-argument")
    if 0 not in dims:
        return reshape(op, x, dims)
    total = known_size(op, x)
    filled: list[Size] = list(dims)
    if total == 0:
        return reshape(op, x, [max(d, 0) for d in dims])
    if any(d == 0 for d in dims[op.rank(x) :]):
        op.unsupported(f"{dims} has a zero beyond rank {op.rank(x)}", code="invalid-argument")
    filled = [size(op, x, i) if d == 0 else d for i, d in enumerate(dims)]
    if total is not None:
        return reshape(op, x, filled)
    # 1 where there are elements, else 0.
    some = op.emit("Min", op.emit("Reshape", op.emit("Size", x), op.const([1], np.int64)), op.const([1], np.int64))
    for i, d in enumerate(dims):
        if d == -1:
            filled[i] = op.emit("Neg", some)
        elif d == 0:
            kept = filled[i]
            filled[i] = op.emit("Mul", op.const([kept], np.int64) if isinstance(kept, int) else kept, some)
    y = reshape(op, x, filled)
    y.shape = ir.Shape([(op.shape(x)[i] if d == 0 else None if d == -1 else d) for i, d in enumerate(dims)])
    return y


def _reshape_runtime(op: Op, x: Value, shape: Value) -> Value:
    origin = _measured(shape)
    if origin is not None:
        op.looks_behind(shape)
        # The shape of a tensor holds no -1, and a zero only if the tensor is empty.
        return op.emit("Reshape", x, cast(op, shape, ir.DataType.INT64), allowzero=1, shape=origin.shape)
    asked = cast(op, shape, ir.DataType.INT64)
    zero, one = op.const([0], np.int64), op.const([1], np.int64)
    some = op.emit("Min", op.emit("Reshape", op.emit("Size", x), one), one)
    count = op.emit("Shape", asked)
    padded = op.emit("Concat", op.emit("Shape", x), op.emit("Expand", zero, count), axis=0)
    kept = op.emit("Mul", op.emit("Slice", padded, zero, count), some)
    rest = op.emit("Where", op.emit("Less", asked, zero), op.emit("Neg", some), asked)
    target = op.emit("Where", op.emit("Equal", asked, zero), kept, rest)
    length = op.static_dim(shape, 0)
    return op.emit("Reshape", x, target, allowzero=1, shape=None if length is None else [None] * length)


def _measured(shape: Value) -> Value | None:
    """The tensor of known rank whose shape this vector is, if it is one."""
    node = shape.producer()
    while node is not None and node.op_type == "Cast" and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None or node.op_type != "Shape" or {"start", "end"} & node.attributes.keys():
        return None
    origin = node.inputs[0]
    return None if origin is None or origin.shape is None else origin


@family.converts("Squeeze", "ExpandDims")
def squeeze_or_expand(op: Op) -> Value:
    """Dims may come in any order and more than once; those of ExpandDims are places in the result."""
    x = op.input(0)
    dims = sorted(set(op.args.integers("dims")))
    if not dims or dims[0] < 0:
        op.unsupported("dims must be given and none negative", code="invalid-argument")
    rank = op.rank(x) + (len(dims) if op.type == "ExpandDims" else 0)
    if dims[-1] >= rank:
        op.unsupported(f"dim {dims[-1]} is out of range for rank {rank}", code="invalid-operands")
    return unsqueeze(op, x, dims) if op.type == "ExpandDims" else squeeze(op, x, dims)


@family.converts("Transpose")
def transpose(op: Op) -> Value:
    x = op.input(0)
    axes = list(op.args.integers("axes", default=())) or [*range(op.rank(x))][::-1]
    if sorted(axes) != list(range(op.rank(x))):
        op.unsupported(f"axes {axes} are no permutation of {op.rank(x)} axes", code="invalid-argument")
    return op.emit("Transpose", x, perm=axes)


@family.converts("Flatten")
def flatten_to_matrix(op: Op) -> Value:
    x, axis = op.input(0), op.args.integer("axis", default=1)
    if not 0 <= axis <= op.rank(x):
        op.unsupported(f"axis {axis} is out of range for rank {op.rank(x)}", code="invalid-argument")
    return flatten(op, x, axis)


@family.converts("FlattenToVec")
def flatten_to_vector(op: Op) -> Value:
    x = op.input(0)
    if op.rank(x) == 0:
        op.unsupported("a scalar cannot be flattened", code="invalid-operands")
    return reshape(op, x, [-1])


@family.converts("MergeDim")
def merge_dim(op: Op) -> Value:
    """The first two dims become one."""
    x = op.input(0)
    if op.rank(x) < 2:
        op.unsupported("at least two dims are needed", code="invalid-operands")
    return reshape(op, x, [product(op, sizes(op, x, 0, 2)), *sizes(op, x, 2)])


@family.converts("PrependDim")
def prepend_dim(op: Op) -> Value:
    """The first dim becomes ``dim_size`` times what is left of it."""
    x, count = op.input(0), op.args.integer("dim_size", default=0)
    if count <= 0:
        op.unsupported(f"dim_size must be positive, not {count}", code="invalid-argument")
    if op.rank(x) == 0:
        op.unsupported("a scalar has no first dim", code="invalid-operands")
    first = size(op, x, 0)
    if isinstance(first, int):
        if first % count:
            op.unsupported(f"the first dim, {first}, is no multiple of {count}", code="invalid-operands")
        first //= count
    else:
        first = op.emit("Div", first, op.const([count], np.int64))
    return reshape(op, x, [count, first, *sizes(op, x, 1)])


@family.converts("ResizeLike")
def resize_like(op: Op) -> Value:
    """The elements of the first operand under the second's dims."""
    x, like = op.input(0), op.input(1)
    totals = known_size(op, x), known_size(op, like)
    if None not in totals and totals[0] != totals[1]:
        op.unsupported(f"{totals[0]} elements do not fill {totals[1]}", code="invalid-operands")
    if None not in totals:
        return reshape(op, x, sizes(op, like))
    return op.emit("Reshape", x, op.emit("Shape", like), allowzero=1, shape=op.shape(like))


@family.converts("Shape")
def shape_of(op: Op) -> Value:
    """All dims, or those that ``axes`` name, in their order."""
    x, axes = op.input(0), list(op.args.integers("axes", default=()))
    if any(not 0 <= axis < op.rank(x) for axis in axes):
        op.unsupported(f"axes {axes} are out of range for rank {op.rank(x)}", code="invalid-argument")
    shape = op.emit("Shape", x)
    return op.emit("Gather", shape, op.const(axes, np.int64)) if axes else shape


@family.converts("Size")
def size_of(op: Op) -> Value:
    return op.emit("Size", op.input(0))


@family.converts("Expand", expects={1: _VECTOR})
def expand(op: Op) -> Value:
    """A dim below one in the shape leaves the operand's dim as it is."""
    x, shape = op.input(0), op.input(1)
    known = evaluated(op, shape)
    if known is not None:
        return op.emit("Expand", x, op.const(np.maximum(known, 1), np.int64))
    return op.emit("Expand", x, op.emit("Max", shape, op.const([1], np.int64)))


@family.converts("Tile", expects={1: _INTEGER, 2: _INTEGER})
def tile(op: Op) -> Value:
    """Along one axis only. Where ``tiles`` is an int64 operand the argument ``axis`` is not heeded: the axis is 0."""
    x = op.input(0)
    rank = op.rank(x)
    axis = op.args.optional_integer("axis")
    if not op.has_input(1):
        tiles = op.args.integer("tiles")
        if axis is None:
            op.unsupported("axis is given neither as argument nor as operand", code="invalid-argument")
        if tiles < 0:
            op.unsupported(f"tiles is negative: {tiles}", code="invalid-argument")
        repeats = [1] * rank
        repeats[op.axis(axis, rank)] = tiles
        return op.emit("Tile", x, op.const(repeats, np.int64))
    op.args.ignore("tiles")
    places = op.const(np.arange(rank), np.int64)
    if op.has_input(2):
        at = cast(op, op.input(2), ir.DataType.INT64)
        at = op.emit("Where", op.emit("Less", at, op.const([0], np.int64)), _plus(op, at, rank), at)
        here = op.emit("Equal", places, at)
    elif axis is None:
        op.unsupported("axis is given neither as argument nor as operand", code="invalid-argument")
    else:
        axis = 0 if op.dtype(op.input(1)) == ir.DataType.INT64 else op.axis(axis, rank)
        here = op.const(np.arange(rank) == axis)
    tiles_value = cast(op, op.input(1), ir.DataType.INT64)
    return op.emit("Tile", x, op.emit("Where", here, tiles_value, op.const([1], np.int64)))


def _plus(op: Op, x: Value, count: int) -> Value:
    return op.emit("Add", x, op.const([count], np.int64))


@family.converts("NumpyTile", expects={1: _VECTOR})
def numpy_tile(op: Op) -> Value:
    return op.emit("Tile", op.input(0), op.input(1))
