"""Pools."""

from __future__ import annotations

from typing import Any

from caffe2_backend.emit.shapes import (
    NARROW,
    NUMBERS,
    Part,
    dim_parts,
    extended,
    narrowed,
    product,
    reshaped,
    widened,
    written,
)
from caffe2_backend.emit.value import as_part, count, entry, gathered, steps
from caffe2_backend.emit.window import Window, image_dims, read_window
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import DOUBLE, FLOAT, FLOAT16, INT64, Op
from caffe2_backend.ops.nn.sliding_window import averages, greatest, greatest_with_places, reaches, totals
from caffe2_backend.ops.tensor.shape import full

family = Family("pooling")


@family.converts("MaxPool", "AveragePool")
def pool(op: Op) -> str | tuple[str, str]:
    """Caffe2's own pools where they are; else each axis after the other, from the entries of its windows.

    Windows that begin in the image and run over its end (``ceil_mode``) are further pads of a MaxPool.
    """
    window = read_window(op, op.integers("kernel_shape") or [])
    by_column = bool(op.integer("storage_order", 0))
    include = bool(op.integer("count_include_pad", 0)) and op.type == "AveragePool"
    ceil = bool(op.integer("ceil_mode", 0))
    if op.wants(1):
        op.require(0, *NUMBERS)
        return greatest_with_places(op, reaches(op, window, ceil=ceil), by_column=by_column)
    own = _own_pads(op, window, ceil=ceil, include=include)
    narrow = op.type == "MaxPool" and op.dtype() in NARROW
    if own is not None and (narrow or op.dtype() in (FLOAT, FLOAT16)):
        blob, _ = widened(op, 0, (FLOAT,))
        arguments: dict[str, Any] = window.arguments(own) | ({"count_include_pad": 1} if include else {})
        made: str = op.emit(op.type, blob, **arguments, order="NCHW")
        return narrowed(op, made, op.dtype())
    if op.type == "MaxPool":
        op.require(0, *NUMBERS)
        return greatest(op, op.input(0), reaches(op, window, ceil=ceil))
    op.require(0, FLOAT, DOUBLE)
    return averages(op, op.input(0), reaches(op, window, ceil=ceil), include=include)


def _own_pads(op: Op, window: Window, *, ceil: bool, include: bool) -> list[int] | None:
    """The pads with which Caffe2's own pool computes the same, None where it does not."""
    pads = window.fixed_pads
    if pads is None or any(dilation != 1 for dilation in window.dilations) or window.rank > 3:
        return None
    if ceil:
        if op.dims() is None:
            return None
        grown = _ceiled(op, window, pads)
        if include and grown != pads:
            return None
        pads = grown
    return pads if all(0 <= pad < size for pad, size in zip(pads, window.kernel * 2, strict=True)) else None


def _ceiled(op: Op, window: Window, pads: list[int]) -> list[int]:
    rank = window.rank
    after = list(pads[rank:])
    for axis, size in enumerate(image_dims(op)):
        low, high, k, stride = pads[axis], pads[rank + axis], window.kernel[axis], window.strides[axis]
        windows = -(-(size + low + high - k) // stride) + 1
        if (windows - 1) * stride >= size + low:
            windows -= 1  # the last window would begin behind the image
        after[axis] = high + max((windows - 1) * stride + k - size - low - high, 0)
    return [*pads[:rank], *after]


@family.converts("LpPool")
def lp_pool(op: Op) -> str:
    """The root of the windows' sums of powers; pads count nothing."""
    window = read_window(op, op.integers("kernel_shape") or [])
    ceil, p = bool(op.integer("ceil_mode", 0)), op.integer("p", 2)
    op.require(0, FLOAT)
    return _root(op, totals(op, _power(op, op.input(0), p), reaches(op, window, ceil=ceil)), p)


@family.converts("GlobalLpPool")
def global_lp_pool(op: Op) -> str:
    p = op.integer("p", 2)
    op.require(0, FLOAT)
    axes = list(range(2, op.rank()))
    return _root(op, op.emit("ReduceSum", _power(op, op.input(0), p), axes=axes, keepdims=1), p)


def _power(op: Op, blob: str, p: int) -> str:
    if p == 2:
        return op.emit("Sqr", blob)
    size = op.emit("Abs", blob)
    return size if p == 1 else op.emit("Pow", size, exponent=float(p))


def _root(op: Op, blob: str, p: int) -> str:
    if p == 2:
        return op.emit("Sqrt", blob)
    return blob if p == 1 else op.emit("Pow", blob, exponent=1 / p)


@family.converts("MaxUnpool")
def max_unpool(op: Op) -> str:
    """Zeros, with each entry where its index says, counted through the size that the window gives."""
    window = read_window(op, op.integers("kernel_shape") or [])
    op.require(0, *NUMBERS)
    parts = dim_parts(op, 0)
    sizes = [
        as_part((count(op, part) - 1) * window.strides[i] + (k - window.pads[i] - window.pads[window.rank + i]))
        for i, (part, k) in enumerate(zip(parts[2:], window.kernel, strict=True))
    ]
    shape: list[Part] = [*parts[:2], *sizes]
    flat = full(op, [product(op, shape)], op.dtype(), 0)
    made = reshaped(op, written(op, flat, op.reshape(op.input(1), [-1]), op.reshape(op.input(0), [-1])), shape)
    if not op.has_input(2):
        return made
    for i, size in enumerate(sizes):
        wanted = entry(op, 2, i + 2, INT64)
        places = steps(op, wanted).at_most(count(op, size))
        made = gathered(op, extended(op, made, op.dtype(), i + 2, 0), i + 2, places)
    return made


@family.converts("GlobalAveragePool", "GlobalMaxPool")
def global_pool(op: Op) -> str:
    op.require(0, FLOAT)
    rank = op.rank() - 2
    kind = "Average" if op.type == "GlobalAveragePool" else "Max"
    if not 1 <= rank <= 3:
        reduced = "ReduceMean" if kind == "Average" else "ReduceMax"
        return op.emit(reduced, op.input(0), axes=list(range(2, rank + 2)), keepdims=1)
    return op.emit(f"{kind}Pool", op.input(0), global_pooling=1, order="NCHW")
