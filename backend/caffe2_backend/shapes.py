"""Shapes computed at run time, and broadcasting where Caffe2 has none: what several families need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.op import BOOL, DOUBLE, FLOAT, INT32, INT64, Op

NUMBERS: Final = (FLOAT, DOUBLE, INT32, INT64)
# Types that int32 holds whole: arithmetic on them is done there.
NARROW: Final = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16)
# Types of which float holds every value.
FLOAT_HOLDS: Final = (FLOAT, ir.DataType.FLOAT16, BOOL, *NARROW)

LARGEST: Final = float(np.finfo(np.float32).max)

Part = int | str


def widened(op: Op, index: int, accepted: Sequence[ir.DataType] = NUMBERS) -> tuple[str, ir.DataType]:
    """An operand in a type that Caffe2 computes with, and that type: int32 for narrower integers, float for float16."""
    dtype, blob = op.dtype(index), op.input(index)
    if dtype in accepted:
        return blob, dtype
    if dtype in NARROW and INT32 in accepted:
        return op.cast(blob, INT32), INT32
    if dtype in NARROW and FLOAT in accepted:
        return op.cast(blob, FLOAT), FLOAT
    if dtype == ir.DataType.FLOAT16 and FLOAT in accepted:
        return op.emit("HalfToFloat", blob), FLOAT
    op.require(index, *accepted)
    return blob, dtype


def in_float(op: Op, index: int) -> str:
    """An operand of float, or of float16, which is computed in float."""
    if op.dtype(index) == ir.DataType.FLOAT16:
        return op.emit("HalfToFloat", op.input(index))
    op.require(index, FLOAT)
    return op.input(index)


def narrowed(op: Op, blob: str, dtype: ir.DataType) -> str:
    """A result of widened operands in the type that the node gives."""
    if dtype == ir.DataType.FLOAT16:
        return op.emit("FloatToHalf", blob)
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


def steps_to(op: Op, size: str) -> str:
    """The numbers from zero up to a size, int64 [1]; int64 [size]."""
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
        return narrowed(op, expanded(op, op.emit("HalfToFloat", blob), FLOAT, target), dtype)
    shape = op.const(target, np.int64) if isinstance(target, list) else target
    return op.emit("Expand", blob, shape)


def taken(op: Op, blob: str, indices: Sequence[int], axis: int) -> str:
    """The entries of a blob at known places of an axis."""
    return op.emit("Gather", blob, op.const(list(indices), np.int64), axis=axis)


def cut(op: Op, blob: str, axis: int, start: int, end: int) -> str:
    """Entries ``start`` to ``end`` of an axis; -1 as the end is the end itself."""
    return op.emit("Slice", blob, starts=[0] * axis + [start], ends=[-1] * axis + [end])


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
