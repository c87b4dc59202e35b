"""Shapes: reshapes, transposes, joins and splits, and tensors that follow from a shape."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.broadcast import elementwise_max, elementwise_min, expand
from caffe2_backend.emit.conversion import cast_back, computable
from caffe2_backend.emit.fill import full, zeros_like
from caffe2_backend.emit.masks import axis_mask, drop_axes, non_negative_axes, scatter_over
from caffe2_backend.emit.selection import concat, gather, slice_axis, transpose
from caffe2_backend.emit.shapes import (
    Size,
    arange,
    dim_of,
    dims_of,
    product,
    product_of_list,
    reshape,
    reshape_exactly,
    shape_of,
)
from caffe2_backend.emit.unsigned import bits_of
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import NUMBERS
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.operators import CASTS, FUNCTIONS, MEASURES, OF_FIRST
from caffe2_frontend.interop.types import BOOL, INT32, INT64

family = Family("shape")


@family.converts("Reshape")
def reshape_(op: Op) -> Value:
    """``Reshape(data, shape; allowzero=0) -> reshaped``: Reshape, where a dim of 0 keeps that of the operand.

    With ``allowzero`` a dim of 0 is 0: a ResizeLike of a template.
    """
    allow_zero = op.args.flag("allowzero", default=False)
    data, shape = op.input(0), op.input(1)
    known = op.known(shape)
    if known is not None and (not allow_zero or 0 not in known):
        return data.reshape(_with_known_dims(known.reshape(-1).tolist(), data.shape))
    if not allow_zero:
        return op.emit("Reshape", data, shape, outputs=2)[0]
    is_complete = known is not None or _are_sizes(op.operand(1))
    return reshape_exactly(op, data, shape if is_complete else _without_inferred(op, data, shape))


def _with_known_dims(sizes: list[int], shape: ir.Shape | None) -> list[int]:
    """Return a Reshape's dims; those that are kept are given where an operand of some unknown dims tells them.

    Caffe2 does not keep dims of an operand without elements. Where all dims are known it has elements.
    """
    dims = [dim if isinstance(dim, int) else 0 for dim in shape or ()]
    if all(dims):
        return sizes
    return [dims[i] if size == 0 and i < len(dims) else size for i, size in enumerate(sizes)]


def _without_inferred(op: Op, data: Value, shape: Value) -> Value:
    """Return a shape whose -1 is replaced by the number of elements divided by the product of the other dims."""
    count = op.list_length(shape)
    if count is None:
        op.needs_shape("the rank of the result is unknown")
    ones = op.const([1] * count, INT64)
    is_inferred = shape.equals(op.const([-1] * count, INT64))
    others = product_of_list(op, op.emit("Where", is_inferred, ones, shape), count)
    rest = op.emit("Size", data).quotient(elementwise_max(op, others, op.const([1], INT64)))
    return op.emit("Where", is_inferred, ones * rest, shape)


def _are_sizes(value: ir.Value | None) -> bool:
    """Whether the elements of a list are certainly not negative."""
    waiting: list[ir.Value | None] = [value]
    seen: set[ir.Value] = set()
    while waiting:
        part = waiting.pop()
        if part is None:
            return False
        if part in seen:
            continue
        seen.add(part)
        node = part.producer()
        if part.const_value is not None:
            if (part.const_value.numpy() < 0).any():
                return False
        elif node is None or node.domain:
            return False
        elif node.op_type in OF_FIRST:
            waiting.append(node.inputs[0])
        elif node.op_type == "Concat":
            waiting += node.inputs
        elif node.op_type not in MEASURES:
            return False
    return True


@family.converts("Flatten")
def flatten(op: Op) -> Value:
    """``Flatten(input; axis=1) -> output``: Flatten."""
    axis = op.args.integer("axis", default=1)
    return op.emit("Flatten", op.input(0), axis=axis + op.rank(op.input(0)) if axis < 0 else axis)


@family.converts("Transpose")
def transpose_(op: Op) -> Value:
    """``Transpose(data; perm) -> transposed``: Transpose; the axes in reverse by default."""
    data = op.input(0)
    op.dtype(data)
    order = op.args.integers("perm", default=()) or tuple(reversed(range(op.rank(data))))
    return transpose(op, data, order)


@family.converts("Unsqueeze")
def unsqueeze(op: Op) -> Value:
    """``Unsqueeze(data, axes) -> expanded``: ExpandDims, or a reshape where the axes are computed at run time."""
    data, axes = op.input(0), op.input(1)
    known = op.known(axes)
    count = op.list_length(axes) if op.rank(axes) else 1
    if known is None and count is None:
        op.needs_shape("the number of axes is unknown")
    if known is not None and (known >= 0).all() and data.shape is None:
        return op.emit("ExpandDims", data, dims=sorted(set(known.reshape(-1).tolist())))
    rank = op.rank(data) + (known.size if known is not None else count or 0)
    if known is not None:
        return op.emit("ExpandDims", data, dims=sorted(op.axis(int(axis), rank) for axis in known.reshape(-1)))
    if not op.rank(data):
        return data.reshape([1] * rank)
    mask = axis_mask(op, non_negative_axes(op, axes, rank), rank)
    kept = op.emit("BooleanMask", op.const(np.arange(rank), INT64), ~mask)
    return reshape_exactly(op, data, scatter_over(op, op.const([1] * rank, INT64), rank, kept, op.emit("Shape", data)))


def _declared_rank(value: ir.Value) -> int | None:
    """Return the rank of a value, or that which is declared of what is computed of it element by element."""
    while value.shape is None and len(value.uses()) == 1:
        reader = next(iter(value.uses())).node
        if reader.op_type not in FUNCTIONS | CASTS or reader.domain:
            return None
        value = reader.outputs[0]
    return None if value.shape is None else len(value.shape)


@family.converts("Squeeze")
def squeeze(op: Op) -> Value:
    """``Squeeze(data, axes=None) -> squeezed``: Squeeze, or a reshape where the axes are computed at run time."""
    data, axes = op.input(0), op.optional(1)
    rank, shape = op.rank(data), op.static_shape(data)
    known = None if axes is None else op.known(axes)
    if not rank:
        return data
    if known is not None and known.size:
        dropped = sorted(op.axis(int(axis), rank) for axis in known.reshape(-1))
    elif axes is not None and known is None:
        return drop_axes(op, data, axis_mask(op, non_negative_axes(op, axes, rank), rank))
    elif shape is not None or _declared_rank(op.node.outputs[0]) == rank - list(op.shape(data)).count(1):
        dropped = [axis for axis, dim in enumerate(op.shape(data)) if dim == 1]
    else:
        return drop_axes(op, data, op.emit("Shape", data).equals(op.const([1] * rank, INT64)))
    return op.emit("Squeeze", data, dims=dropped) if dropped else data


@family.converts("Shape")
def shape(op: Op) -> Value:
    """``Shape(data; start=0, end=None) -> shape``: Shape of the chosen axes."""
    data = op.input(0)
    rank = op.rank(data)
    start, end = op.args.integer("start", default=0), op.args.integer("end", default=rank)
    chosen = list(range(rank))[start:end]
    if len(chosen) == rank:
        return shape_of(op, data)
    return op.emit("Shape", data, axes=chosen) if chosen else op.const(np.zeros(0), INT64)


@family.converts("Size")
def size(op: Op) -> Value:
    """``Size(data) -> size``: Size."""
    return op.emit("Size", op.input(0))


@family.converts("Expand")
def expand_(op: Op) -> Value:
    """``Expand(input, shape) -> output``: Expand of known sizes, else Mul or And by ones."""
    shape, data = op.input(1), op.require(bits_of(op, op.input(0)), *NUMBERS, BOOL)
    if op.list_length(shape) == 0:
        return data
    known = op.known(shape)
    return expand(op, data, shape if known is None else op.const(known, INT64))


@family.converts("Tile")
def tile(op: Op) -> Value:
    """``Tile(input, repeats) -> output``: Tile for each axis."""
    data, repeats = op.require(bits_of(op, op.input(0)), *NUMBERS, BOOL), op.input(1)
    known = op.known(repeats)
    y = data.cast(INT32) if data.dtype == BOOL else data
    if known is not None:
        for axis, count in enumerate(known.reshape(-1).tolist()):
            if count != 1:
                y = op.emit("Tile", y, tiles=int(count), axis=axis)
    else:
        for axis in range(op.rank(data)):
            y = op.emit("Tile", y, op.emit("Cast", slice_axis(op, repeats, 0, axis, axis + 1), to=INT32), axis=axis)
    return y.cast(data.dtype)


@family.converts("Concat")
def concat_(op: Op) -> Value:
    """``Concat(*inputs; axis) -> concat_result``: Concat."""
    axis = op.axis(op.args.integer("axis", default=0), op.rank(op.input(0)))
    return concat(op, op.inputs, axis)


def _chunk_sizes(op: Op, size: Value, count: int) -> Value:
    """Return the sizes of ``count`` pieces of an axis: ceil(size / count) each, and what is left for the last ones."""
    op.bounded(count)
    chunk = (size + op.const([count - 1], INT64)).quotient(op.const([count], INT64))
    chunks = op.const([1] * count, INT64) * chunk
    left = size - op.const(np.arange(count), INT64) * chunk
    return elementwise_min(op, elementwise_max(op, left, op.const([0] * count, INT64)), chunks)


@family.converts("Split")
def split(op: Op) -> tuple[Value, ...]:
    """``Split(input, split=None; axis=0, num_outputs) -> *outputs``: Split; Slice where a piece is empty."""
    data, given = op.input(0), op.optional(1)
    axis = op.axis(op.args.integer("axis", default=0), op.rank(data))
    count = op.output_count
    op.args.ignore("num_outputs")
    known = None if given is None else op.known(given)
    dim = op.static_dim(data, axis)
    if known is not None:
        sizes = [int(size) for size in known.reshape(-1)]
        if len(sizes) != count:
            op.unsupported(
                f"split must have {count} elements, one an output, not {len(sizes)}", code="invalid-operands"
            )
    elif given is not None or (dim is None and count > 1):
        parts = given if given is not None else _chunk_sizes(op, dim_of(op, data, axis), count)
        made = op.emit("Split", data, op.emit("Cast", parts, to=INT32), outputs=count, axis=axis)
        return (made,) if isinstance(made, Value) else made
    else:
        chunk = -(-(dim or 0) // count)
        sizes = [min(chunk, (dim or 0) - i * chunk) for i in range(count)]
    if count == 1:
        return (data,)
    if min(sizes) <= 0:
        starts = np.cumsum([0, *sizes])
        return tuple(
            slice_axis(op, data, axis, int(start), int(start) + size)
            for start, size in zip(starts, sizes, strict=False)
        )
    return op.emit("Split", data, outputs=count, axis=axis, split=sizes)


@family.converts("ConstantOfShape")
def constant_of_shape(op: Op) -> Value:
    """``ConstantOfShape(input; value=0) -> output``: ConstantFill."""
    value = op.args.tensor("value") if "value" in op.args else np.zeros(1, np.float32)
    if value.size != 1:
        op.unsupported(f"value must have one element, not {value.size}", code="invalid-argument")
    dtype, number = op.output_dtype(0), value.reshape(-1)[0].item()
    declared = op.node.outputs[0].dtype
    if declared is not None and declared != ir.DataType.from_numpy(value.dtype):
        op.unsupported(f"value is of type {value.dtype}, and the result of {declared.name}", code="invalid-argument")
    if op.static_shape(op.input(0)) == (0,):
        return op.const(number, dtype)
    return full(op, [op.input(0)], dtype, number)


@family.converts("Range")
def range_(op: Op) -> Value:
    """``Range(start, limit, delta) -> output``: Range.

    Caffe2's Range of integers with a negative step is one element short. Unless the step is known to be positive, their
    number ceil((limit - start) / delta) is computed first.
    """
    operands = [computable(op, op.input(i)) for i in range(3)]
    dtype, known = operands[0].dtype, op.known_number(op.input(2))
    if dtype not in (INT32, INT64) or (known is not None and known > 0):
        return cast_back(op, op.emit("Range", *operands), op.input(0))
    start, limit, delta = (value.reshape([1]) for value in operands)
    zero, one = op.const([0], dtype), op.const([1], dtype)
    way = limit - start
    whole = way.quotient(delta)
    has_rest = ~(whole * delta).equals(way)
    is_forward = (way < zero).equals(delta < zero)  # else the quotient was truncated upwards already
    count = whole + (has_rest & is_forward).cast(dtype)
    steps = op.emit("Range", zero, elementwise_max(op, count, zero), one)
    return cast_back(op, steps * delta + start, op.input(0))


def _columns_less_rows(op: Op, height: Size, width: Size) -> Value:
    """Return the column of each element of a matrix less its row, int64 [height, width]."""
    return arange(op, width) - reshape(op, arange(op, height), [height, 1])


@family.converts("EyeLike")
def eye_like(op: Op) -> Value:
    """``EyeLike(input; k=0, dtype) -> output``: a constant, or one of two numbers at each column and row."""
    offset = op.args.integer("k", default=0)
    op.args.ignore("dtype")
    known = op.static_shape(op.input(0))
    if known is not None:
        op.bounded(*known)
        return op.const(np.eye(known[0], known[1], offset), op.output_dtype(0))
    height, width = dims_of(op, op.input(0))
    is_one = _columns_less_rows(op, height, width).equals(op.const([offset], INT64))
    numbers = op.const([0, 1], op.output_dtype(0))  # of any type: Cast makes few
    return gather(op, numbers, 0, is_one.cast(INT32))


@family.converts("Trilu")
def trilu(op: Op) -> Value:
    """``Trilu(input, k=0; upper=1) -> output``: Where, with a mask of the triangle; zero outside of it."""
    upper, data = op.args.flag("upper", default=True), op.input(0)
    height, width = dims_of(op, data)[-2:]
    offset = op.input(1).reshape([1]) if op.has_input(1) else op.const([0], INT64)
    ahead = _columns_less_rows(op, height, width)
    mask = ahead >= offset if upper else ahead <= offset
    if op.dtype(data) == BOOL:
        return data & mask
    value = computable(op, data)
    full_mask = zeros_like(op, value, BOOL) | mask  # Where does not broadcast
    return cast_back(op, op.emit("Where", full_mask, value, zeros_like(op, value, value.dtype)), data)


@family.converts("DepthToSpace")
def depth_to_space(op: Op) -> Value:
    """``DepthToSpace(input; blocksize, mode="DCR") -> output``: Reshape, Transpose, Reshape."""
    block, mode = op.args.integer("blocksize", default=1), op.args.choice("mode", "DCR", "CRD")
    data = op.require(bits_of(op, op.input(0)), *NUMBERS)
    n, c, h, w = dims_of(op, data)
    inner = c.quotient(op.const([block**2], INT64))
    first: list[Size] = [n, block, block, inner, h, w] if mode == "DCR" else [n, inner, block, block, h, w]
    order = [0, 3, 4, 1, 5, 2] if mode == "DCR" else [0, 1, 4, 2, 5, 3]
    split_ = transpose(op, reshape(op, data, first), order)
    return reshape(op, split_, [n, inner, product(op, [h, block]), product(op, [w, block])])


@family.converts("SpaceToDepth")
def space_to_depth(op: Op) -> Value:
    """``SpaceToDepth(input; blocksize, mode="DCR") -> output``: Reshape, Transpose, Reshape."""
    block, mode = op.args.integer("blocksize", default=1), op.args.choice("mode", "DCR", "CRD")
    data = op.require(bits_of(op, op.input(0)), *NUMBERS)
    n, c, h, w = dims_of(op, data)
    high, wide = (size_.quotient(op.const([block], INT64)) for size_ in (h, w))
    split_ = reshape(op, data, [n, c, high, block, wide, block])
    order = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    return reshape(op, transpose(op, split_, order), [n, product(op, [c, block**2]), high, wide])
