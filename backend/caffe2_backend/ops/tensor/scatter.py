"""Writing at indices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from caffe2_backend.emit.dynamic import repeated, resized
from caffe2_backend.emit.indices import flat_places, indices, row_places
from caffe2_backend.emit.shapes import (
    NUMBERS,
    Part,
    concat,
    dim_parts,
    greater,
    joined,
    moved,
    places_along,
    product,
    reshaped,
    shape_of,
    widened,
    written,
)
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import FLOAT, FLOAT16, INT32, INT64, Op

family = Family("scattering")

Combine = Callable[[Op, str, str], str]
_REDUCTIONS: dict[str, Combine] = {
    "add": lambda op, old, new: op.emit("Add", old, new),
    "mul": lambda op, old, new: op.emit("Mul", old, new),
    "max": greater,
    "min": lambda op, old, new: greater(op, old, new, least=True),
}


@family.converts("ScatterElements", "Scatter")
def scatter_elements(op: Op) -> str:
    axis = op.axis(op.integer("axis", 0), op.rank())
    places = op.reshape(flat_places(op, axis), [-1])
    return _scattered(op, [product(op, dim_parts(op, 0))], places, [-1])


@family.converts("ScatterND")
def scatter_nd(op: Op) -> str:
    places, depth = row_places(op)
    parts = dim_parts(op, 0)
    width = product(op, parts[depth:])
    return _scattered(op, [product(op, parts[:depth]), width], op.reshape(places, [-1]), [-1, width])


def _scattered(op: Op, rows: list[Part], places: str, updates: list[Part]) -> str:
    """The operand, as ``rows``, with the rows at ``places`` replaced by those of input 2, or combined with them."""
    kind, dtype = op.text("reduction", "none"), op.dtype()
    if kind not in ("none", *_REDUCTIONS):
        op.unsupported(f"reduction {kind!r}", code="invalid-argument")
    blob, held = _held(op, 0)
    flat = reshaped(op, op.emit("Copy", blob), rows)
    new = reshaped(op, _held(op, 2)[0], updates)
    if kind == "none":
        flat = written(op, flat, places, new)
    elif kind == "add" and held == FLOAT and isinstance(rows[0], int) and rows[0] > 0:
        whole = concat(op, [op.const(np.arange(rows[0]), np.int32), op.cast(places, INT32)], 0)
        flat = op.emit("UnsortedSegmentSum", concat(op, [flat, new], 0), whole)
    else:
        flat = _combined(op, flat, places, new, _REDUCTIONS[kind])
    shaped = reshaped(op, flat, dim_parts(op, 0)) if op.dims() else resized(op, flat, shape_of(op, blob, op.rank()))
    return shaped if dtype in NUMBERS else op.cast(shaped, dtype)


def _held(op: Op, index: int) -> tuple[str, object]:
    """An operand in a type in which Caffe2 writes at indices, and that type."""
    if op.dtype(index) in (FLOAT16, *NUMBERS):
        return widened(op, index)
    return op.cast(op.input(index), INT32), INT32


def _combined(op: Op, flat: str, places: str, rows: str, combine: Combine) -> str:
    """Rows of a place that is named more than once are combined in turn: first all first ones, and so on."""
    numbers = places_along(op, op.emit("Shape", places))
    column = op.reshape(places, [-1, 1])
    same = op.emit("And", op.emit("EQ", column, places), op.emit("GT", op.reshape(numbers, [-1, 1]), numbers))
    turn_of = op.emit("ReduceSum", op.cast(same, INT64), axes=[1], keepdims=0)
    last = op.reshape(op.emit("ReduceMax", turn_of, axes=[0], keepdims=1), [1])

    def step(inside: Op, made: str, turn: str) -> tuple[str, str, str]:
        chosen = inside.emit("BooleanMask", numbers, inside.emit("EQ", turn_of, turn))
        place = inside.emit("Gather", places, chosen)
        new = combine(inside, inside.emit("Gather", made, place), inside.emit("Gather", rows, chosen))
        made = written(inside, inside.emit("Copy", made), place, new)
        following = inside.emit("Add", turn, inside.const([1], np.int64))
        return inside.reshape(inside.emit("LE", following, last), []), made, following

    first = op.const([0], np.int64)
    return repeated(op, op.emit("LE", first, last), [flat, first], step)[0]


@family.converts("TensorScatter")
def tensor_scatter(op: Op) -> str:
    """Rows of a cache from a place on that each item of the batch names; a circular one goes on at its start."""
    rank = op.rank()
    axis = op.axis(op.integer("axis", -2), rank)
    circular = op.text("mode", "linear") == "circular"
    if not axis:
        op.unsupported("the axis of the batch", code="invalid-argument")
    order = [0, axis, *(i for i in range(1, rank) if i != axis)]
    cache, update = ([dim_parts(op, k)[i] for i in order] for k in range(2))
    items, size = reshaped(op, places_along(op, cache[0]), [cache[0], 1]), joined(op, [cache[1]])
    steps = places_along(op, update[1])
    if op.has_input(2):
        steps = op.emit("Add", reshaped(op, indices(op, 2, axis), [cache[0], 1]), steps)
    if circular:
        steps = op.emit("Sub", steps, op.emit("Mul", op.emit("Div", steps, size), size))
    places = op.reshape(op.emit("Add", op.emit("Mul", items, size), steps), [-1])
    width = product(op, cache[2:])
    blob, dtype = _held(op, 0)[0], op.dtype()
    flat = reshaped(op, op.emit("Copy", moved(op, blob, order)), [product(op, cache[:2]), width])
    rows = reshaped(op, moved(op, _held(op, 1)[0], order), [-1, width])
    shaped = moved(op, reshaped(op, written(op, flat, places, rows), cache), [order.index(i) for i in range(rank)])
    return shaped if dtype in NUMBERS else op.cast(shaped, dtype)
