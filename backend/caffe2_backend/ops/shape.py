"""Shapes: reshape, transpose, slice, pad, join and split."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_backend.family import Family
from caffe2_backend.op import BOOL, CAFFE2_TYPES, FLOAT, INT32, INT64, Op
from caffe2_backend.shapes import (
    NARROW,
    NUMBERS,
    Part,
    concat,
    cut,
    dim_of,
    dim_parts,
    expanded,
    greater,
    joined,
    moved,
    narrowed,
    product,
    reshaped,
    scalar,
    shape_of,
    taken,
)

family = Family("shape")

_END = np.iinfo(np.int64).max // 2


@family.converts("Reshape")
def reshape(op: Op) -> str:
    allow_zero = op.integer("allowzero", 0)
    known = op.known(1)
    if known is not None and (not allow_zero or 0 not in known):
        return op.reshape(op.input(0), known.tolist())
    if allow_zero:
        if not _are_sizes(op.value(1)):
            op.unsupported("a dim of zero copies the operand's in Caffe2, and -1 is not told from other dims")
        return op.emit("ResizeLike", op.input(0), full(op, [op.input(1)], FLOAT, 0))
    return op.emit("Reshape", op.input(0), op.input(1), outputs=2)[0]


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
    axes = op.integers_of(1, "the list of axes")
    rank = op.rank() + len(axes)
    return op.emit("ExpandDims", op.input(0), dims=sorted(op.axis(axis, rank) for axis in axes))


@family.converts("Squeeze")
def squeeze(op: Op) -> str:
    rank = op.rank()
    if op.has_input(1):
        axes = sorted(op.axis(axis, rank) for axis in op.integers_of(1, "the list of axes"))
    else:
        dims = op.dims()
        if dims is None:
            op.unsupported("which dims are one is only known at run time", code="needs-shape")
        axes = [axis for axis, dim in enumerate(dims) if dim == 1]
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
        if dim is None:
            made = op.emit("Split", op.input(0), outputs=count, axis=axis)
            return (made,) if isinstance(made, str) else made
        chunk = -(-dim // count)
        parts = [min(chunk, dim - i * chunk) for i in range(count)]
    if count == 1:
        return (op.input(0),)
    if min(parts) <= 0:
        starts = np.cumsum([0, *parts])
        return tuple(cut(op, op.input(0), axis, int(s), int(s) + p) for s, p in zip(starts, parts, strict=False))
    return op.emit("Split", op.input(0), outputs=count, axis=axis, split=parts)


@family.converts("Slice")
def slicing(op: Op) -> str:
    """Caffe2 cuts one axis at a time, and counts an end from the back with one more."""
    starts, ends = op.known(1), op.known(2)
    rank = op.rank()
    axes = (
        op.integers_of(3, "the list of axes")
        if op.has_input(3)
        else list(range(len(op.shape(1)) and (op.dim(0, 1) or 0)))
    )
    steps = op.integers_of(4, "the list of steps") if op.has_input(4) else [1] * len(axes)
    if starts is None or ends is None:
        return _sliced_at_run_time(op, axes, steps)
    blob = op.input(0)
    for axis, start, end, step in zip(axes, starts.tolist(), ends.tolist(), steps, strict=True):
        blob = _sliced(op, blob, op.axis(axis, rank), start, end, step)
    return blob


def _sliced(op: Op, blob: str, axis: int, start: int, end: int, step: int) -> str:
    dim = op.dim(axis)
    if dim is not None:
        places = range(*slice(start, None if step < 0 and end < -dim else end, step).indices(dim))
        if step == 1:
            first = min(max(start + dim if start < 0 else start, 0), dim)
            return blob if len(places) == dim else cut(op, blob, axis, first, first + len(places))
        return taken(op, blob, places, axis)
    if step != 1:
        op.unsupported("steps along an axis of unknown size", code="needs-shape")
    if start == 0 and end >= _END:
        return blob
    return cut(op, blob, axis, start - 1 if start < 0 else start, -1 if end >= _END else end - 1 if end < 0 else end)


def _sliced_at_run_time(op: Op, axes: list[int], steps: list[int]) -> str:
    """Starts and ends are cut off at the axis's ends by Max and Min, after those below zero are counted from it."""
    if any(step != 1 for step in steps):
        op.unsupported("steps between a start and an end that are computed at run time")
    blob, rank = op.input(0), op.rank()
    for i, named in enumerate(axes):
        axis = op.axis(named, rank)
        size = dim_of(op, op.input(0), axis)
        start, end = (_place(op, op.cast(cut(op, op.input(k), 0, i, i + 1), INT64), size) for k in (1, 2))
        end = greater(op, start, end)
        starts = joined(op, [*[0] * axis, start])
        ends = joined(op, [*[-1] * axis, end])
        blob = op.emit("Slice", blob, starts, ends)
    return blob


def _place(op: Op, place: str, size: str) -> str:
    zero = op.const([0], np.int64)
    wrapped = op.emit("Add", place, op.emit("Mul", op.cast(op.emit("LT", place, zero), INT64), size))
    return greater(op, greater(op, wrapped, zero), size, least=True)


@family.converts("Pad")
def pad(op: Op) -> str:
    mode = op.text("mode", "constant")
    pads = op.integers_of(1, "the list of pads")
    rank = op.rank()
    axes = [op.axis(axis, rank) for axis in op.integers_of(3, "the list of axes")] if op.has_input(3) else range(rank)
    before = dict(zip(axes, pads[: len(pads) // 2], strict=True))
    after = dict(zip(axes, pads[len(pads) // 2 :], strict=True))
    blob = op.input(0)
    parts = dim_parts(op, 0)
    for axis in axes:
        low, high, size = before[axis], after[axis], parts[axis]
        if low == high == 0:
            continue
        if mode == "constant":
            blob = _filled(op, blob, parts, axis, low, high)
        elif isinstance(size, int):
            modes = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}
            if mode not in modes or min(low, high) < 0:
                op.unsupported(f"mode {mode!r} with these pads")
            places = np.pad(np.arange(size), (low, high), mode=mode)  # type: ignore[call-overload] # one of three
            blob = taken(op, blob, places.tolist(), axis)
        else:
            op.unsupported(f"mode {mode!r} along an axis of unknown size", code="needs-shape")
        parts[axis] = (
            size + low + high if isinstance(size, int) else op.emit("Add", size, op.const([low + high], np.int64))
        )
    return blob


def _filled(op: Op, blob: str, parts: list[Part], axis: int, low: int, high: int) -> str:
    if low < 0 or high < 0:
        blob = cut(op, blob, axis, max(-low, 0), min(high, 0) - 1)
    sides = [
        _block(op, parts, axis, count, size_change=min(low, 0) + min(high, 0)) for count in (max(low, 0), max(high, 0))
    ]
    return concat(op, [side for side in (sides[0], blob, sides[1]) if side], axis)


def _block(op: Op, parts: list[Part], axis: int, count: int, *, size_change: int) -> str:
    del size_change  # the axis itself is ``count`` long, whatever was cut from the operand
    if not count:
        return ""
    dims: list[Part] = [*parts[:axis], count, *parts[axis + 1 :]]
    return full(op, dims, op.dtype(), _pad_value(op))


def _pad_value(op: Op) -> float | str:
    if not op.has_input(2):
        return 0
    known = op.known(2)
    return op.input(2) if known is None else known.item()


def full(op: Op, dims: list[Part], dtype: ir.DataType, value: float | str) -> str:
    """A blob of one value, a number or a blob that holds it."""
    if dtype == ir.DataType.FLOAT16:
        inner = op.emit("HalfToFloat", value) if isinstance(value, str) else value
        return narrowed(op, full(op, dims, FLOAT, inner), dtype)
    if dtype not in (FLOAT, INT32, INT64, BOOL):
        if dtype not in (*NARROW, ir.DataType.DOUBLE):
            op.unsupported(f"Caffe2 fills no {dtype.name.lower()}", code="dtype")
        inner = value if not isinstance(value, str) else op.cast(value, FLOAT if dtype == ir.DataType.DOUBLE else INT32)
        return op.cast(full(op, dims, FLOAT if dtype == ir.DataType.DOUBLE else INT32, inner), dtype)
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
    start, limit, delta = (op.reshape(op.input(i), [1]) for i in range(3))
    dtype, step = op.dtype(), op.known(2)
    op.require(0, *NUMBERS)
    if dtype not in (INT32, INT64) or (step is not None and step.item() > 0):
        return op.emit("Range", start, limit, delta)
    zero, one = op.const([0], dtype), op.const([1], dtype)
    way = op.emit("Sub", limit, start)
    whole = op.emit("Div", way, delta)
    rest = op.emit("Not", op.emit("EQ", op.emit("Mul", whole, delta), way))
    ahead = op.emit("EQ", op.emit("LT", way, zero), op.emit("LT", delta, zero))
    count = op.emit("Add", whole, op.cast(op.emit("And", rest, ahead), dtype))
    steps = op.emit("Range", zero, greater(op, count, zero), one)
    return op.emit("Add", op.emit("Mul", steps, delta), start)


@family.converts("EyeLike")
def eye(op: Op) -> str:
    offset = op.integer("k", 0)
    dims = op.dims()
    op.ignore("dtype")
    if dims is None:
        op.unsupported("a diagonal of unknown length", code="needs-shape")
    return op.const(np.eye(dims[0], dims[1], offset), op.output_dtype(0))


@family.converts("Trilu")
def triangle(op: Op) -> str:
    upper = op.integer("upper", 1)
    offset = int(op.constant(1, "the diagonal").item()) if op.has_input(1) else 0
    dims = op.dims()
    if dims is None:
        op.unsupported("a diagonal of unknown length", code="needs-shape")
    ones = np.ones(dims, bool)
    mask = op.const(np.triu(ones, offset) if upper else np.tril(ones, offset))
    blob = op.input(0)
    return (
        op.emit("Where", mask, blob, op.emit("Sub", blob, blob)) if op.dtype() != BOOL else op.emit("And", mask, blob)
    )


@family.converts("DepthToSpace")
def depth_to_space(op: Op) -> str:
    block, mode = op.integer("blocksize", 1), op.text("mode", "DCR")
    op.require(0, *NUMBERS)
    n, c, h, w = dim_parts(op, 0)
    inner = c // block**2 if isinstance(c, int) else op.unsupported("an unknown number of channels", code="needs-shape")
    first: list[Part] = [n, block, block, inner, h, w] if mode == "DCR" else [n, inner, block, block, h, w]
    order = [0, 3, 4, 1, 5, 2] if mode == "DCR" else [0, 1, 4, 2, 5, 3]
    parted = moved(op, reshaped(op, op.input(0), first), order)
    return reshaped(op, parted, [n, inner, product(op, [h, block]), product(op, [w, block])])


@family.converts("SpaceToDepth")
def space_to_depth(op: Op) -> str:
    block, mode = op.integer("blocksize", 1), op.text("mode", "DCR")
    op.require(0, *NUMBERS)
    n, c, h, w = dim_parts(op, 0)
    if not (isinstance(h, int) and isinstance(w, int) and isinstance(c, int)):
        op.unsupported("an image of unknown size", code="needs-shape")
    parted = reshaped(op, op.input(0), [n, c, h // block, block, w // block, block])
    order = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    return reshaped(op, moved(op, parted, order), [n, c * block**2, h // block, w // block])
