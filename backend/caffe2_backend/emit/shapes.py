"""Shapes computed at run time, and broadcasting where Caffe2 has none: what several families need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.lowering.op import BOOL, CAFFE2_TYPES, DOUBLE, FLOAT, INT32, INT64, Op

NUMBERS: Final = (FLOAT, DOUBLE, INT32, INT64)
# Types that int32 holds whole: arithmetic on them is done there.
NARROW: Final = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16)
# Types of which float holds every value.
FLOAT_HOLDS: Final = (FLOAT, ir.DataType.FLOAT16, BOOL, *NARROW)

LARGEST: Final = float(np.finfo(np.float32).max)

Part = int | str


def widened(op: Op, index: int, accepted: Sequence[ir.DataType] = NUMBERS) -> tuple[str, ir.DataType]:
    """An operand in a type that Caffe2 computes with, and that type: int32 for narrower integers, float for float16.

    Where only floats are accepted, narrow integers are floats; the result is then for :func:`narrowed` to convert.
    """
    if op.dtype(index) in NARROW and INT32 not in accepted and FLOAT in accepted:
        return op.cast(op.input(index), FLOAT), FLOAT
    op.require(index, *accepted)
    return op.input(index), op.dtype(index)


def in_float(op: Op, index: int) -> str:
    """An operand of float; one of float16 is widened."""
    op.require(index, FLOAT)
    return op.input(index)


def narrowed(op: Op, blob: str, dtype: ir.DataType) -> str:
    """A result in the type of the operand that :func:`widened` made floats of."""
    return op.cast(blob, dtype) if dtype in NARROW else blob


def as_float(op: Op, blob: str, dtype: ir.DataType) -> str:
    """A blob of float, float16, bool or a narrow integer type as float, which holds each of them whole."""
    if dtype == FLOAT:
        return blob
    return op.emit("HalfToFloat", blob) if dtype == ir.DataType.FLOAT16 else op.cast(blob, FLOAT)


def from_float(op: Op, blob: str, dtype: ir.DataType) -> str:
    """What :func:`as_float` took, in its own element type again."""
    if dtype == FLOAT:
        return blob
    return op.emit("FloatToHalf", blob) if dtype == ir.DataType.FLOAT16 else op.cast(blob, dtype)


def shape_of(op: Op, blob: str, rank: int) -> str:
    """The dims of a blob, int64 [rank]; of a scalar the empty list."""
    return op.emit("Shape", blob) if rank else op.const(np.zeros(0, np.int64))


def dim_of(op: Op, blob: str, axis: int) -> str:
    """One dim of a blob, int64 [1]."""
    return op.emit("Shape", blob, axes=[axis])


def places_along(op: Op, size: Part) -> str:
    """The numbers from zero up to a size; int64 [size]."""
    if isinstance(size, int):
        return op.const(np.arange(size), np.int64)
    return op.emit("Range", op.const([0], np.int64), size, op.const([1], np.int64))


def joined(op: Op, parts: Sequence[Part]) -> str:
    """A list of dims, int64 [n], of numbers and of blobs [k]."""
    blobs: list[str] = []
    run: list[int] = []
    for part in [*parts, ""]:
        if isinstance(part, int):
            run.append(part)
            continue
        if run:
            blobs.append(op.const(run, np.int64))
            run = []
        if part:
            blobs.append(part)
    return concat(op, blobs, 0)


def concat(op: Op, blobs: Sequence[str], axis: int) -> str:
    """Blobs one after the other along an axis."""
    if len(blobs) == 1:
        return blobs[0]
    return op.emit("Concat", *blobs, outputs=2, axis=axis)[0]


def reshaped(op: Op, blob: str, parts: Sequence[Part]) -> str:
    """A blob in another shape, some of whose dims are blobs, int64 [1]."""
    if all(isinstance(part, int) for part in parts):
        return op.reshape(blob, [int(part) for part in parts])
    return op.emit("Reshape", blob, joined(op, parts), outputs=2)[0]


def dim_parts(op: Op, index: int) -> list[Part]:
    """The dims of an operand: numbers where they are known, else blobs."""
    dims = op.shape(index)
    return [dim if isinstance(dim, int) else dim_of(op, op.input(index), axis) for axis, dim in enumerate(dims)]


def product(op: Op, parts: Sequence[Part]) -> Part:
    """The product of dims."""
    number = 1
    blob = ""
    for part in parts:
        if isinstance(part, int):
            number *= part
        else:
            blob = op.emit("Mul", blob, part) if blob else part
    if not blob:
        return number
    return blob if number == 1 else op.emit("Mul", blob, op.const([number], np.int64))


def same_shape(op: Op, indices: Sequence[int], blobs: Sequence[str], dtypes: Sequence[ir.DataType]) -> list[str]:
    """Blobs of the operands at ``indices``, each in the shape that all broadcast to."""
    shapes = [op.shape(i) for i in indices]
    if all(shape == shapes[0] and shape.is_static() for shape in shapes):
        return list(blobs)
    rank = max(map(len, shapes))
    target = _common(op, shapes, blobs, rank)
    return [
        blob if _is(shape, target) else expanded(op, blob, dtype, target)
        for blob, dtype, shape in zip(blobs, dtypes, shapes, strict=True)
    ]


def greater(op: Op, a: str, b: str, *, least: bool = False) -> str:
    """The greater of two blobs of one shape, or the lesser, entry by entry: Caffe2's own Max is for floats alone."""
    return op.emit("Where", op.emit("LT" if least else "GT", a, b), a, b)


def _is(shape: ir.Shape, target: list[int] | str) -> bool:
    return isinstance(target, list) and shape.is_static() and list(shape.numpy()) == target


def _common(op: Op, shapes: Sequence[ir.Shape], blobs: Sequence[str], rank: int) -> list[int] | str:
    if all(shape.is_static() for shape in shapes):
        try:
            return list(np.broadcast_shapes(*(tuple(shape.numpy()) for shape in shapes)))
        except ValueError as error:
            op.unsupported(str(error), code="invalid-operands")
    full = []
    for shape, blob in zip(shapes, blobs, strict=True):
        if len(shape):
            own = op.emit("Shape", blob)
            missing = rank - len(shape)
            full.append(joined(op, [*[1] * missing, own]) if missing else own)
    return reduce(lambda a, b: greater(op, a, b), full)


def expanded(op: Op, blob: str, dtype: ir.DataType, target: list[int] | str) -> str:
    """A blob broadcast to a shape."""
    if dtype in (BOOL, *NARROW):
        return op.cast(expanded(op, op.cast(blob, INT32), INT32, target), dtype)
    if dtype == ir.DataType.FLOAT16:
        return from_float(op, expanded(op, as_float(op, blob, dtype), FLOAT, target), dtype)
    shape = op.const(target, np.int64) if isinstance(target, list) else target
    return op.emit("Expand", blob, shape)


def taken(op: Op, blob: str, indices: Sequence[int], axis: int) -> str:
    """The entries of a blob at known places of an axis."""
    return op.emit("Gather", blob, op.const(list(indices), np.int64), axis=axis)


def cut(op: Op, blob: str, axis: int, start: int, end: int) -> str:
    """Entries ``start`` to ``end`` of an axis; -1 as the end is the end itself."""
    return op.emit("Slice", blob, starts=[0] * axis + [start], ends=[-1] * axis + [end])


def extended(op: Op, blob: str, dtype: ir.DataType, axis: int, value: float) -> str:
    """A blob with one entry more at the end of an axis, all of one value; of float, double, int32 or int64."""
    filled = FLOAT if dtype == DOUBLE else dtype
    plain: float = float(value) if filled == FLOAT else int(value)
    more = op.emit("ConstantFill", cut(op, blob, axis, 0, 1), dtype=CAFFE2_TYPES[filled], value=plain)
    return concat(op, [blob, more if filled == dtype else op.cast(more, dtype)], axis)


def written(op: Op, blob: str, places: str, rows: str) -> str:
    """A blob whose rows at places [n] are now others; ScatterAssign works in place, so the blob must be no other's."""
    op.emit("ScatterAssign", blob, places, rows)
    op.made.ops[-1].output[0] = blob
    return blob


def moved(op: Op, blob: str, order: Sequence[int], dtype: ir.DataType = FLOAT) -> str:
    """A blob with its axes in another order; Caffe2 transposes numbers, other types go through float."""
    if list(order) == list(range(len(order))):
        return blob
    if dtype in FLOAT_HOLDS:
        return from_float(op, op.emit("Transpose", as_float(op, blob, dtype), axes=list(order)), dtype)
    return op.emit("Transpose", blob, axes=list(order))


def along_last(op: Op, blob: str, axis: int, rank: int, compute: Callable[[str], str]) -> str:
    """What ``compute`` gives for the blob with ``axis`` as its last, with the axes in their order again."""
    order = [i for i in range(rank) if i != axis] + [axis]
    back = [order.index(i) for i in range(rank)]
    return moved(op, compute(moved(op, blob, order)), back)


def scalar(op: Op, value: float, dtype: ir.DataType) -> str:
    """A constant of no dims."""
    return op.const(value, dtype)


def round_half_even(op: Op, x: str) -> str:
    """floor(x), and one more where the rest is above one half, or is it and floor(x) is odd; floats."""
    half, zero = scalar(op, 0.5, FLOAT), scalar(op, 0.25, FLOAT)
    floor = op.emit("Floor", x)
    rest, halved = op.emit("Sub", x, floor), op.emit("Mul", floor, half)
    odd = op.emit("GT", op.emit("Sub", halved, op.emit("Floor", halved)), zero)  # a rest of 0 or 0.5
    tie = op.emit("And", op.emit("GE", rest, half), op.emit("LE", rest, half))
    up = op.emit("Or", op.emit("GT", rest, half), op.emit("And", tie, odd))
    return op.emit("Add", floor, op.cast(up, FLOAT))
