"""Shapes: reshaping, squeezing, transposing, tiling and expanding; and the shape itself."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import reshape_like
from caffe2_frontend.emit.constant_evaluation import known_elements, known_values
from caffe2_frontend.emit.operand_checks import require_rank
from caffe2_frontend.emit.partly_known_shape import fits_elements, reshape_to_elements
from caffe2_frontend.emit.shapes import (
    as_vector,
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
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("shape")

_VECTOR = TensorInfo(ir.DataType.INT64, (None,))
_INTEGER = TensorInfo(ir.DataType.INT32, (1,))


@family.converts("Reshape", expects={1: _VECTOR}, uniform=True)
def reshape_to(op: Op) -> tuple[Value, Value | None]:
    """Reshape(X[, shape]; shape) -> Y, old_shape.

    In the shape, -1 is the remaining size and 0 the dim of X at that position; if X is empty, both are 0. The second
    output is the shape of X, of the operand's type.
    """
    x = op.input(0)
    dims = op.args.integers("shape", default=())
    old_type = ir.DataType.INT64
    if not op.has_input(1):
        if "shape" not in op.args:
            op.unsupported(
                "shape must be given, as argument or as operand", hint="add the argument shape", code="invalid-argument"
            )
        y = _reshape_static(op, x, list(dims))
    else:
        if "shape" in op.args:
            op.unsupported(
                "shape must not be given both as argument and as operand", hint="remove one", code="invalid-argument"
            )
        shape = op.input(1)
        require_rank(op, shape, 1, "the shape")
        old_type = op.dtype(shape)
        known = known_values(op, shape)
        y = _reshape_runtime(op, x, shape) if known is None else _reshape_static(op, x, known.tolist())
    return y, cast(op, op.emit("Shape", x), old_type) if op.wants(1) else None


def _reshape_static(op: Op, x: Value, dims: list[int]) -> Value:
    """Reshape ``x`` to ``dims`` that are known at conversion, -1 and 0 as in Caffe2."""
    if dims.count(-1) > 1 or any(d < -1 for d in dims):
        op.unsupported(
            f"shape must have at most one dim -1, and no other negative dim: {dims}", code="invalid-argument"
        )
    if 0 not in dims:
        return reshape(op, x, dims)
    if known_size(op, x) == 0:
        return reshape(op, x, [max(d, 0) for d in dims])
    rank = op.rank(x)
    if 0 in dims[rank:]:
        op.unsupported(f"shape must not have a 0 beyond the rank of X ({rank}): {dims}", code="invalid-argument")
    return reshape_to_elements(op, x, dims)


def _reshape_runtime(op: Op, x: Value, shape: Value) -> Value:
    """Reshape ``x`` to a shape that is known only when the model runs."""
    origin = _shape_origin(shape)
    if origin is not None:
        op.looks_behind(shape)
        # A tensor's shape never contains -1, and 0 only if the tensor is empty.
        return op.emit("Reshape", x, cast(op, shape, ir.DataType.INT64), allowzero=1, shape=origin.shape)
    elements = known_elements(op, shape)
    if elements is not None and fits_elements(op, x, elements):
        op.looks_behind(shape)
        return reshape_to_elements(op, x, elements)
    requested = cast(op, shape, ir.DataType.INT64)
    zero, one = op.const([0], np.int64), op.const([1], np.int64)
    nonempty = op.emit("Min", op.emit("Reshape", op.emit("Size", x), one), one)
    count = op.emit("Shape", requested)
    # The dims of X, followed by zeros, as many as the shape has: a 0 beyond the rank of X stays 0.
    padded = op.emit("Concat", op.emit("Shape", x), op.emit("Expand", zero, count), axis=0)
    kept = op.emit("Mul", op.emit("Slice", padded, zero, count), nonempty)
    rest = op.emit("Where", op.emit("Less", requested, zero), op.emit("Neg", nonempty), requested)
    target = op.emit("Where", op.emit("Equal", requested, zero), kept, rest)
    length = op.list_length(shape)
    return op.emit("Reshape", x, target, allowzero=1, shape=None if length is None else [None] * length)


def _shape_origin(shape: Value) -> Value | None:
    """Return the tensor of known rank whose shape this vector is; None if it is not the output of Shape."""
    node = shape.producer()
    while node is not None and standard_type(node) == "Cast" and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None or standard_type(node) != "Shape" or {"start", "end"} & node.attributes.keys():
        return None
    origin = node.inputs[0]
    return None if origin is None or origin.shape is None else origin


@family.converts("Squeeze", "ExpandDims", uniform=True)
def squeeze_or_expand(op: Op) -> Value:
    """Squeeze | ExpandDims(X; dims) -> Y.

    The dims may be in any order and repeated; those of ExpandDims are axes of the result.
    """
    x = op.input(0)
    dims = sorted(set(op.args.integers("dims")))
    if not dims or dims[0] < 0:
        op.unsupported("dims must be given, and none may be negative", code="invalid-argument")
    rank = op.rank(x) + (len(dims) if op.type == "ExpandDims" else 0)
    if dims[-1] >= rank:
        op.unsupported(f"dim {dims[-1]} is out of range for rank {rank}", code="invalid-operands")
    return unsqueeze(op, x, dims) if op.type == "ExpandDims" else squeeze(op, x, dims)


@family.converts("Transpose", uniform=True)
def transpose(op: Op) -> Value:
    """Transpose(X; axes=[]) -> Y. Without ``axes`` they are reversed."""
    x = op.input(0)
    axes = list(op.args.integers("axes", default=())) or [*range(op.rank(x))][::-1]
    if sorted(axes) != list(range(op.rank(x))):
        op.unsupported(f"axes must be a permutation of the {op.rank(x)} axes of X, not {axes}", code="invalid-argument")
    return op.emit("Transpose", x, perm=axes)


@family.converts("Flatten", uniform=True)
def flatten_to_matrix(op: Op) -> Value:
    """Flatten(X; axis=1) -> Y."""
    x, axis = op.input(0), op.args.integer("axis", default=1)
    if not 0 <= axis <= op.rank(x):
        op.unsupported(f"axis {axis} is out of range for rank {op.rank(x)}", code="invalid-argument")
    return flatten(op, x, axis)


@family.converts("FlattenToVec", uniform=True)
def flatten_to_vector(op: Op) -> Value:
    """FlattenToVec(X) -> Y."""
    x = op.input(0)
    if op.rank(x) == 0:
        op.unsupported("X must have at least rank 1, not 0", code="invalid-operands")
    return reshape(op, x, [-1])


@family.converts("MergeDim")
def merge_dim(op: Op) -> Value:
    """MergeDim(X) -> Y: the first two dims become one."""
    x = op.input(0)
    if op.rank(x) < 2:
        op.unsupported(f"X must have at least rank 2, not {op.rank(x)}", code="invalid-operands")
    return reshape(op, x, [product(op, sizes(op, x, 0, 2)), *sizes(op, x, 2)])


@family.converts("PrependDim")
def prepend_dim(op: Op) -> Value:
    """PrependDim(X; dim_size) -> Y: the first dim is split into ``dim_size`` and the quotient."""
    x, count = op.input(0), op.args.integer("dim_size", default=0)
    if count <= 0:
        op.unsupported(f"dim_size must be positive, not {count}", code="invalid-argument")
    if op.rank(x) == 0:
        op.unsupported("X must have at least rank 1, not 0", code="invalid-operands")
    first = size(op, x, 0)
    if isinstance(first, int):
        if first % count:
            op.unsupported(f"the first dim ({first}) must be a multiple of dim_size ({count})", code="invalid-operands")
        first //= count
    else:
        first = op.emit("Div", first, op.const([count], np.int64))
    return reshape(op, x, [count, first, *sizes(op, x, 1)])


@family.converts("ResizeLike")
def resize_like(op: Op) -> Value:
    """ResizeLike(X, like) -> Y: the elements of X in the shape of ``like``."""
    x, like = op.input(0), op.input(1)
    totals = known_size(op, x), known_size(op, like)
    if None not in totals and totals[0] != totals[1]:
        op.unsupported(
            f"the operands must have equally many elements, not {totals[0]} and {totals[1]}", code="invalid-operands"
        )
    if None not in totals:
        return reshape(op, x, sizes(op, like))
    return reshape_like(op, x, like)


@family.converts("Shape", uniform=True)
def shape_of(op: Op) -> Value:
    """Shape(X; axes=[]) -> shape. With ``axes`` only these dims, in the given order."""
    x, axes = op.input(0), list(op.args.integers("axes", default=()))
    if any(not 0 <= axis < op.rank(x) for axis in axes):
        op.unsupported(f"axes {axes} are out of range for rank {op.rank(x)}", code="invalid-argument")
    shape = op.emit("Shape", x)
    return op.emit("Gather", shape, op.const(axes, np.int64)) if axes else shape


@family.converts("Size", uniform=True)
def size_of(op: Op) -> Value:
    """Size(X) -> size."""
    return op.emit("Size", op.input(0))


@family.converts("Expand", expects={1: _VECTOR})
def expand(op: Op) -> Value:
    """Expand(X, shape) -> Y. A dim below 1 in the shape, a tensor of any rank, keeps the dim of X."""
    x, shape = op.input(0), as_vector(op, op.input(1))
    known = known_values(op, shape)
    if known is not None:
        return op.emit("Expand", x, op.const(np.maximum(known, 1), np.int64))
    return op.emit("Expand", x, op.emit("Max", shape, op.const([1], np.int64)))


@family.converts("Tile", expects={1: _INTEGER, 2: _INTEGER})
def tile(op: Op) -> Value:
    """Tile(X[, tiles, axis]; tiles, axis) -> Y.

    One axis is repeated. If ``tiles`` is an int64 operand, Caffe2 does not read the argument ``axis``: the axis is 0.
    """
    x = op.input(0)
    rank = op.rank(x)
    axis = op.args.optional_integer("axis")
    if not op.has_input(1):
        tiles = op.args.integer("tiles")
        if axis is None:
            op.unsupported(
                "axis must be given, as argument or as operand", hint="add the argument axis", code="invalid-argument"
            )
        if tiles < 0:
            op.unsupported(f"tiles must not be negative: {tiles}", code="invalid-argument")
        repeats = [1] * rank
        repeats[op.axis(axis, rank)] = tiles
        return op.emit("Tile", x, op.const(repeats, np.int64))
    op.args.ignore("tiles")
    axes = op.const(np.arange(rank), np.int64)
    if op.has_input(2):
        chosen = cast(op, op.input(2), ir.DataType.INT64)
        negative = op.emit("Less", chosen, op.const([0], np.int64))
        chosen = op.emit("Where", negative, _plus(op, chosen, rank), chosen)
        tiled = op.emit("Equal", axes, chosen)
    elif axis is None:
        op.unsupported(
            "axis must be given, as argument or as operand", hint="add the argument axis", code="invalid-argument"
        )
    else:
        axis = 0 if op.dtype(op.input(1)) == ir.DataType.INT64 else op.axis(axis, rank)
        tiled = op.const(np.arange(rank) == axis)
    tiles_value = cast(op, op.input(1), ir.DataType.INT64)
    return op.emit("Tile", x, op.emit("Where", tiled, tiles_value, op.const([1], np.int64)))


def _plus(op: Op, x: Value, count: int) -> Value:
    """Add ``count`` to an int64 vector."""
    return op.emit("Add", x, op.const([count], np.int64))


@family.converts("NumpyTile", expects={1: _VECTOR})
def numpy_tile(op: Op) -> Value:
    """NumpyTile(X, repeats) -> Y."""
    return op.emit("Tile", op.input(0), op.input(1))
