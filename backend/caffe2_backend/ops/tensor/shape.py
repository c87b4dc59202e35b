"""Shapes: reshape, transpose, join and split, and what fills them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.dynamic import mask_of, named_axes, product_of, resized, spread, without, zeros_like
from caffe2_backend.emit.shapes import (
    NARROW,
    NUMBERS,
    Part,
    concat,
    cut,
    dim_of,
    dim_parts,
    expanded,
    from_float,
    greater,
    joined,
    moved,
    narrowed,
    places_along,
    product,
    reshaped,
    scalar,
    shape_of,
    widened,
)
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import BOOL, CAFFE2_TYPES, FLOAT, INT32, INT64, Op

family = Family("shape")


@family.converts("Reshape")
def reshape(op: Op) -> str:
    """With ``allowzero`` a dim of zero is none of the operand's, as it is in Caffe2."""
    allow_zero = op.integer("allowzero", 0)
    known = op.known(1)
    if known is not None and (not allow_zero or 0 not in known):
        return op.reshape(op.input(0), known.tolist())
    if not allow_zero:
        return op.emit("Reshape", op.input(0), op.input(1), outputs=2)[0]
    complete = known is not None or _are_sizes(op.value(1))
    return resized(op, op.input(0), op.input(1) if complete else _complete(op))


def _complete(op: Op) -> str:
    """The shape at input 1 with what is left of the operand's entries in the place of -1."""
    count, asked = op.dim(0, 1), op.input(1)
    if count is None:
        op.unsupported("a shape of unknown rank", code="needs-shape")
    left = op.emit("EQ", asked, op.const([-1] * count, np.int64))
    others = product_of(op, op.emit("Where", left, op.const([1] * count, np.int64), asked), count)
    rest = op.emit("Div", op.emit("Size", op.input(0)), greater(op, others, op.const([1], np.int64)))
    return op.emit("Where", left, op.emit("Mul", op.const([1] * count, np.int64), rest), asked)


@family.converts("Flatten")
def flatten(op: Op) -> str:
    rank = op.rank()
    axis = op.integer("axis", 1)
    return op.emit("Flatten", op.input(0), axis=axis + rank if axis < 0 else axis)


def _are_sizes(value: ir.Value | None) -> bool:
    """Whether a list of dims is known to have none below zero."""
    node = None if value is None else value.producer()
    if value is not None and value.const_value is not None:
        return bool((value.const_value.numpy() >= 0).all())
    if node is None or node.domain:
        return False
    if node.op_type in ("Identity", "Squeeze", "Unsqueeze", "Gather", "Slice"):
        return _are_sizes(node.inputs[0])
    return node.op_type in ("Shape", "Size") or (node.op_type == "Concat" and all(map(_are_sizes, node.inputs)))


@family.converts("Transpose")
def transpose(op: Op) -> str:
    order = op.integers("perm")
    if order is None:
        order = list(range(op.rank()))[::-1]
    return moved(op, op.input(0), order, op.dtype())


@family.converts("Unsqueeze")
def unsqueeze(op: Op) -> str:
    known = op.known(1)
    count = op.dim(0, 1) if op.rank(1) else 1
    if known is None and count is None:
        op.unsupported("an unknown number of axes", code="needs-shape")
    rank = op.rank() + (known.size if known is not None else count or 0)
    if known is not None:
        return op.emit("ExpandDims", op.input(0), dims=sorted(op.axis(int(axis), rank) for axis in known.reshape(-1)))
    if not op.rank():
        return op.reshape(op.input(0), [1] * rank)
    mask = mask_of(op, named_axes(op, 1, rank), rank)
    places = op.emit("BooleanMask", op.const(np.arange(rank), np.int64), op.emit("Not", mask))
    return resized(op, op.input(0), spread(op, op.const([1] * rank, np.int64), places, op.emit("Shape", op.input(0))))


@family.converts("Squeeze")
def squeeze(op: Op) -> str:
    rank, dims = op.rank(), op.dims()
    known = op.known(1) if op.has_input(1) else None
    if not rank:
        return op.input(0)
    if op.has_input(1) and known is None:
        return without(op, op.input(0), mask_of(op, named_axes(op, 1, rank), rank))
    if known is not None:
        axes = sorted(op.axis(int(axis), rank) for axis in known.reshape(-1))
    elif dims is not None:
        axes = [axis for axis, dim in enumerate(dims) if dim == 1]
    else:
        return without(op, op.input(0), op.emit("EQ", op.emit("Shape", op.input(0)), op.const([1] * rank, np.int64)))
    return op.emit("Squeeze", op.input(0), dims=axes) if axes else op.input(0)


@family.converts("Shape")
def shape(op: Op) -> str:
    rank = op.rank()
    start, end = op.integer("start", 0), op.integer("end", rank)
    chosen = list(range(rank))[start:end]
    if len(chosen) == rank:
        return shape_of(op, op.input(0), rank)
    return op.emit("Shape", op.input(0), axes=chosen) if chosen else op.const(np.zeros(0, np.int64))


@family.converts("Size")
def size(op: Op) -> str:
    return op.emit("Size", op.input(0))


@family.converts("Expand")
def expand(op: Op) -> str:
    known = op.known(1)
    target = op.input(1) if known is None else [int(dim) for dim in known]
    op.require(0, *NUMBERS, BOOL)
    return expanded(op, op.input(0), op.dtype(), target)


@family.converts("Tile")
def tile(op: Op) -> str:
    repeats = op.known(1)
    op.require(0, *NUMBERS, BOOL)
    dtype, blob = op.dtype(), op.input(0)
    if dtype == BOOL:
        blob = op.cast(blob, INT32)
    if repeats is not None:
        for axis, count in enumerate(repeats.tolist()):
            if count != 1:
                blob = op.emit("Tile", blob, tiles=int(count), axis=axis)
    else:
        for axis in range(op.rank()):
            blob = op.emit("Tile", blob, op.cast(cut(op, op.input(1), 0, axis, axis + 1), INT32), axis=axis)
    return op.cast(blob, dtype) if dtype == BOOL else blob


@family.converts("Concat")
def join(op: Op) -> str:
    axis = op.axis(op.integer("axis", 0), op.rank())
    if op.input_count == 1:
        return op.input(0)
    return concat(op, op.inputs, axis)


def _chunks(op: Op, size: str, count: int) -> str:
    """The sizes of ``count`` pieces of an axis, of which the last may be shorter than the others."""
    chunk = op.emit("Div", op.emit("Add", size, op.const([count - 1], np.int64)), op.const([count], np.int64))
    chunks = op.emit("Mul", op.const([1] * count, np.int64), chunk)
    left = op.emit("Sub", size, op.emit("Mul", op.const(np.arange(count), np.int64), chunk))
    return greater(op, greater(op, left, op.const([0] * count, np.int64)), chunks, least=True)


@family.converts("Split")
def split(op: Op) -> tuple[str, ...]:
    axis = op.axis(op.integer("axis", 0), op.rank())
    count = len(op.node.outputs)
    op.ignore("num_outputs")
    if op.has_input(1):
        sizes = op.known(1)
        if sizes is None:
            made = op.emit("Split", op.input(0), op.cast(op.input(1), INT32), outputs=count, axis=axis)
            return (made,) if isinstance(made, str) else made
        parts = [int(part) for part in sizes]
    else:
        dim = op.dim(axis)
        if dim is None and count > 1:
            chunks = op.cast(_chunks(op, dim_of(op, op.input(0), axis), count), INT32)
            made = op.emit("Split", op.input(0), chunks, outputs=count, axis=axis)
            return (made,) if isinstance(made, str) else made
        dim = dim or 0
        chunk = -(-dim // count)
        parts = [min(chunk, dim - i * chunk) for i in range(count)]
    if count == 1:
        return (op.input(0),)
    if min(parts) <= 0:
        starts = np.cumsum([0, *parts])
        return tuple(cut(op, op.input(0), axis, int(s), int(s) + p) for s, p in zip(starts, parts, strict=False))
    return op.emit("Split", op.input(0), outputs=count, axis=axis, split=parts)


def full(op: Op, dims: list[Part], dtype: ir.DataType, value: float | str) -> str:
    """A blob of one value, a number or a blob that holds it."""
    if dtype == ir.DataType.FLOAT16:
        inner = op.emit("HalfToFloat", value) if isinstance(value, str) else value
        return from_float(op, full(op, dims, FLOAT, inner), dtype)
    if dtype == ir.DataType.DOUBLE:
        held = op.const([value], dtype) if not isinstance(value, str) else op.reshape(value, [1])
        return op.emit("Add", op.cast(full(op, dims, FLOAT, 0), dtype), held)
    if dtype not in (FLOAT, INT32, INT64, BOOL):
        if dtype not in NARROW:
            op.unsupported(f"Caffe2 fills no {dtype.name.lower()}", code="dtype")
        inner = value if not isinstance(value, str) else op.cast(value, INT32)
        return op.cast(full(op, dims, INT32, inner), dtype)
    number = 0 if isinstance(value, str) else value
    plain: float = float(number) if dtype == FLOAT else int(number)
    made = op.emit("ConstantFill", joined(op, dims), input_as_shape=1, dtype=CAFFE2_TYPES[dtype], value=plain)
    if isinstance(value, str):
        return op.emit("Or" if dtype == BOOL else "Add", made, op.reshape(value, [1]))
    return made


@family.converts("ConstantOfShape")
def constant_of_shape(op: Op) -> str:
    value = op.tensor("value")
    dtype = op.output_dtype(0)
    number = 0 if value is None else value.reshape(-1)[0].item()
    if op.dims(1 - 1) == (0,):
        return scalar(op, number, dtype)
    return full(op, [op.input(0)], dtype, number)


@family.converts("Range")
def numbers(op: Op) -> str:
    """Caffe2 counts integers one short where the step is below zero: there the numbers are counted first."""
    dtype, step = widened(op, 0)[1], op.known(2)
    start, limit, delta = (op.reshape(widened(op, i)[0], [1]) for i in range(3))
    if dtype not in (INT32, INT64) or (step is not None and step.item() > 0):
        return narrowed(op, op.emit("Range", start, limit, delta), op.dtype())
    zero, one = op.const([0], dtype), op.const([1], dtype)
    way = op.emit("Sub", limit, start)
    whole = op.emit("Div", way, delta)
    rest = op.emit("Not", op.emit("EQ", op.emit("Mul", whole, delta), way))
    ahead = op.emit("EQ", op.emit("LT", way, zero), op.emit("LT", delta, zero))
    count = op.emit("Add", whole, op.cast(op.emit("And", rest, ahead), dtype))
    steps = op.emit("Range", zero, greater(op, count, zero), one)
    return narrowed(op, op.emit("Add", op.emit("Mul", steps, delta), start), op.dtype())


@family.converts("EyeLike")
def eye(op: Op) -> str:
    offset = op.integer("k", 0)
    dims = op.dims()
    op.ignore("dtype")
    if dims is not None:
        return op.const(np.eye(dims[0], dims[1], offset), op.output_dtype(0))
    height, width = dim_parts(op, 0)
    ahead = op.emit("Sub", places_along(op, width), reshaped(op, places_along(op, height), [height, 1]))
    return op.cast(op.emit("EQ", ahead, op.const([offset], np.int64)), op.output_dtype(0))


@family.converts("Trilu")
def triangle(op: Op) -> str:
    """Entries whose column is far enough ahead of their row, or far enough behind; zero for all others."""
    upper, dtype = op.integer("upper", 1), op.dtype()
    height, width = dim_parts(op, 0)[-2:]
    ahead = op.emit("Sub", places_along(op, width), reshaped(op, places_along(op, height), [height, 1]))
    offset = op.reshape(op.input(1), [1]) if op.has_input(1) else op.const([0], np.int64)
    mask = op.emit("GE" if upper else "LE", ahead, offset)
    if dtype == BOOL:
        return op.emit("And", op.input(0), mask)
    blob, kind = widened(op, 0)
    full_mask = op.emit("Or", zeros_like(op, blob, BOOL), mask)
    return narrowed(op, op.emit("Where", full_mask, blob, zeros_like(op, blob, kind)), dtype)


@family.converts("DepthToSpace")
def depth_to_space(op: Op) -> str:
    block, mode = op.integer("blocksize", 1), op.text("mode", "DCR")
    op.require(0, *NUMBERS)
    n, c, h, w = dim_parts(op, 0)
    inner = quotient(op, c, block**2)
    first: list[Part] = [n, block, block, inner, h, w] if mode == "DCR" else [n, inner, block, block, h, w]
    order = [0, 3, 4, 1, 5, 2] if mode == "DCR" else [0, 1, 4, 2, 5, 3]
    parted = moved(op, reshaped(op, op.input(0), first), order)
    return reshaped(op, parted, [n, inner, product(op, [h, block]), product(op, [w, block])])


@family.converts("SpaceToDepth")
def space_to_depth(op: Op) -> str:
    block, mode = op.integer("blocksize", 1), op.text("mode", "DCR")
    op.require(0, *NUMBERS)
    n, c, h, w = dim_parts(op, 0)
    high, wide = quotient(op, h, block), quotient(op, w, block)
    parted = reshaped(op, op.input(0), [n, c, high, block, wide, block])
    order = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    return reshaped(op, moved(op, parted, order), [n, product(op, [c, block**2]), high, wide])


def quotient(op: Op, size: Part, number: int) -> Part:
    """A dim divided by a number."""
    return size // number if isinstance(size, int) else op.emit("Div", size, op.const([number], np.int64))
