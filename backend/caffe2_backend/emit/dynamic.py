"""Operands that are computed at run time where Caffe2 takes arguments: axes as masks over dims, shapes made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from caffe2_backend.emit.shapes import NARROW, Part, concat, cut, joined, written
from caffe2_backend.lowering.op import BOOL, CAFFE2_TYPES, DOUBLE, FLOAT, FLOAT16, INT32, INT64, Op
from caffe2_bridge.control import onnx_while_arguments
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def integers(op: Op, index: int) -> str:
    """An operand as a list of integers, int64 [k]."""
    blob = op.input(index)
    if op.dtype(index) != INT64:
        blob = op.cast(blob, INT64)
    return op.reshape(blob, [1]) if op.rank(index) == 0 else blob


def named_axes(op: Op, index: int, rank: int) -> str:
    """The axes at operand ``index``, int64 [k], those below zero counted from the end."""
    axes = integers(op, index)
    below = op.cast(op.emit("LT", axes, op.const([0], np.int64)), INT64)
    return op.emit("Add", axes, op.emit("Mul", below, op.const([rank], np.int64)))


def mask_of(op: Op, axes: str, rank: int) -> str:
    """Which of ``rank`` axes are named, bool [rank]; ``rank`` is at least 1."""
    same = op.emit("EQ", op.const(np.arange(rank)[:, None], np.int64), axes)
    count = op.emit("ReduceSum", op.cast(same, INT32), axes=[1], keepdims=0)
    return op.emit("GT", count, op.const([0], np.int32))


def spread(op: Op, default: str, axes: str, values: str) -> str:
    """A list of one number an axis, int64 [rank]: ``values`` at ``axes``, and ``default`` elsewhere."""
    made = op.emit("Copy", default)
    return written(op, made, axes, values)


def resized(op: Op, blob: str, shape: str) -> str:
    """A blob in the shape that a list says, int64 [n]; the list may be empty, and its dims zero.

    Reshape reads a dim of zero as the operand's, and neither it nor a fill takes an empty list: hence a template with
    one dim more.
    """
    template = op.emit("ConstantFill", joined(op, [1, shape]), input_as_shape=1, dtype=CAFFE2_TYPES[BOOL], value=0)
    return op.emit("Squeeze", op.emit("ResizeLike", blob, template), dims=[0])


def zeros_like(op: Op, blob: str, dtype: object) -> str:
    """Zeros in the shape of a blob."""
    if dtype in (DOUBLE, FLOAT16):
        made = zeros_like(op, blob, FLOAT)
        return op.cast(made, DOUBLE) if dtype == DOUBLE else op.emit("FloatToHalf", made)
    if dtype in NARROW:
        return op.cast(zeros_like(op, blob, INT32), dtype)  # type: ignore[arg-type] # one of NARROW
    return op.emit("ConstantFill", blob, dtype=CAFFE2_TYPES[dtype], value=0.0 if dtype == FLOAT else 0)  # type: ignore[index]


def product_of(op: Op, sizes: str, count: int) -> str:
    """The product of a list of ``count`` numbers, int64 [1]."""
    if not count:
        return op.const([1], np.int64)
    return reduce(lambda a, b: op.emit("Mul", a, b), (cut(op, sizes, 0, i, i + 1) for i in range(count)))


def chosen_dims(op: Op, blob: str, mask: str, rank: int) -> tuple[str, str]:
    """The dims of a blob with 1 at the axes outside of ``mask``, and with 1 at those inside; int64 [rank] each."""
    dims = op.emit("Shape", blob)
    ones = op.const(np.ones(rank), np.int64)
    return op.emit("Where", mask, dims, ones), op.emit("Where", mask, ones, dims)


def parted(op: Op, blob: str, mask: str, rank: int) -> str:
    """A blob with every axis as two, of which one has its entries and the other is 1: the first where ``mask`` is."""
    inside, outside = (op.reshape(dims, [rank, 1]) for dims in chosen_dims(op, blob, mask, rank))
    return resized(op, blob, op.reshape(concat(op, [inside, outside], 1), [2 * rank]))


def without(op: Op, blob: str, mask: str) -> str:
    """A blob without the axes of ``mask``, each of which is 1 long."""
    rest = op.emit("BooleanMask", op.emit("Shape", blob), op.emit("Not", mask))
    return resized(op, blob, rest)


def around(op: Op, blob: str, axis: str, rank: int) -> str:
    """A blob as three dims: what lies before an axis, int64 [1], the axis, and what lies behind it."""
    dims, ones = op.emit("Shape", blob), op.const(np.ones(rank), np.int64)
    places = op.const(np.arange(rank), np.int64)
    lists = (op.emit("Where", op.emit(kind, places, axis), dims, ones) for kind in ("LT", "EQ", "GT"))
    return resized(op, blob, concat(op, [product_of(op, sizes, rank) for sizes in lists], 0))


def span(op: Op, blob: str, start: Part, end: Part, axis: int) -> str:
    """Entries ``start`` to ``end`` of an axis, neither of them below zero."""
    if isinstance(start, int) and isinstance(end, int):
        return cut(op, blob, axis, start, end)
    lists = (joined(op, [*[fill] * axis, place]) for fill, place in ((0, start), (-1, end)))
    return op.emit("Slice", blob, *lists)


def repeated(op: Op, going: str, states: Sequence[str], step: Callable[..., tuple[str, ...]]) -> tuple[str, ...]:
    """``step(inside, *states)`` gives whether to go on, bool, and the next states, as long as it says so."""
    inside = op.inside()
    formals = [op.fresh(what) for what in ("number", "going", *(f"state{i}" for i in range(len(states))))]
    after = [inside.emit("Copy", blob) for blob in step(inside, *formals[2:])]
    net = NetDef(name=op.fresh("body"), op=inside.made.ops, external_input=formals, external_output=after)
    outer = _outer(inside.made.ops, formals)
    net.external_input.extend(outer)
    made = tuple(op.fresh("result") for _ in states)
    arguments = onnx_while_arguments(net, carried=len(states), has_trip_count=False, has_condition=True)
    operands = [op.const(0, np.int64), op.reshape(going, []), *states, *outer]
    op.made.ops.append(make_operator("ONNXWhile", operands, made, arguments))
    return made


def _outer(ops: Sequence[OperatorDef], formals: Sequence[str]) -> list[str]:
    """The blobs around a body that it reads, among them those that it writes too."""
    own, outer = set(formals), dict[str, None]()
    for op in ops:
        outer.update(dict.fromkeys(name for name in op.input if name not in own))
        own.update(op.output)
    return list(outer)


def accumulated(op: Op, kind: str, blob: str, axis: int, size: Part) -> str:
    """Each entry of an axis combined by ``kind`` with all before it: with that s before it, for s = 1, 2, 4, ..."""

    def step(inside: Op, sums: str, back: Part, rest: Part) -> str:
        head = span(inside, sums, 0, back, axis)
        tail = inside.emit(kind, span(inside, sums, back, size, axis), span(inside, sums, 0, rest, axis))
        return concat(inside, [head, tail], axis)

    if isinstance(size, int):
        back = 1
        while back < size:
            blob, back = step(op, blob, back, size - back), 2 * back
        return blob

    def body(inside: Op, sums: str, back: str) -> tuple[str, str, str]:
        made = step(inside, sums, back, inside.emit("Sub", size, back))
        further = inside.emit("Add", back, back)
        return inside.reshape(inside.emit("LT", further, size), []), made, further

    one = op.const([1], np.int64)
    return repeated(op, op.emit("LT", one, size), [blob, one], body)[0]


def combined(op: Op, kind: str, rows: str, neutral: str) -> str:
    """All rows of a blob combined by ``kind``, as one row, its first half with its second; ``neutral`` is a row too."""

    def body(inside: Op, left: str) -> tuple[str, str]:
        size = inside.emit("Shape", left, axes=[0])
        half = inside.emit("Div", size, inside.const([2], np.int64))
        both = inside.emit("Add", half, half)
        pairs = inside.emit(kind, span(inside, left, 0, half, 0), span(inside, left, half, both, 0))
        made = concat(inside, [pairs, span(inside, left, both, size, 0)], 0)
        more = inside.emit("GT", inside.emit("Shape", made, axes=[0]), inside.const([1], np.int64))
        return inside.reshape(more, []), made

    start = concat(op, [neutral, rows], 0)
    going = op.emit("GT", op.emit("Shape", start, axes=[0]), op.const([1], np.int64))
    return repeated(op, going, [start], body)[0]
