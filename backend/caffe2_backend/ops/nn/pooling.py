"""Pooling over windows and over whole images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from caffe2_backend.emit.conversion import cast_back, computable
from caffe2_backend.emit.fill import full
from caffe2_backend.emit.selection import append_element, element, gather, scatter_rows
from caffe2_backend.emit.shapes import arange, as_value, dims_of, product, reshape
from caffe2_backend.emit.window import CAFFE_POOLING, Window, image_sizes, read_window
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import NARROW, NUMBERS
from caffe2_backend.lowering.value import Value
from caffe2_backend.ops.nn.sliding_window import (
    max_of_windows,
    max_with_indices,
    mean_of_windows,
    slide,
    sum_of_windows,
)
from caffe2_frontend.interop.types import DOUBLE, FLOAT, FLOAT16

family = Family("pooling")


def _window(op: Op) -> Window:
    return read_window(op, op.input(0), op.args.integers("kernel_shape", default=()))


@family.converts("MaxPool", "AveragePool")
def pool(op: Op) -> Value | tuple[Value, Value]:
    """``MaxPool(X; kernel_shape, ceil_mode=0, dilations, ...) -> Y, indices``, ``AveragePool(X; ...) -> Y``.

    They become MaxPool and AveragePool where Caffe2's compute the same, else Gather and a reduction along one axis
    after the other. Windows that begin in the image and end behind it (``ceil_mode``) are additional pads of a MaxPool.
    """
    window = _window(op)
    column_major = op.args.flag("storage_order", default=False)
    include = op.args.flag("count_include_pad", default=False) and op.type == "AveragePool"
    ceil = op.args.flag("ceil_mode", default=False)
    if op.wants(1):
        op.require(op.input(0), *NUMBERS)
        return max_with_indices(op, slide(op, window, ceil=ceil), column_major=column_major)
    dtype = op.dtype(op.input(0))
    arguments = _own_arguments(op, window, ceil=ceil, include=include)
    narrow = op.type == "MaxPool" and dtype in NARROW
    if arguments is not None and (narrow or dtype in (FLOAT, FLOAT16)):
        image = computable(op, op.input(0), (FLOAT,))
        return cast_back(op, op.emit(op.type, image, outputs=1, **arguments, order="NCHW"), op.input(0))
    if op.type == "MaxPool":
        return max_of_windows(op, op.require(op.input(0), *NUMBERS), slide(op, window, ceil=ceil))
    image = op.require(op.input(0), FLOAT, DOUBLE)
    return mean_of_windows(op, image, slide(op, window, ceil=ceil), include_pads=include)


def _own_arguments(op: Op, window: Window, *, ceil: bool, include: bool) -> dict[str, Any] | None:
    """Return the arguments with which Caffe2's own pool computes the same, None where it does not."""
    pads = window.known_pads
    if any(dilation != 1 for dilation in window.dilations) or window.rank > 3:
        return None
    if pads is None:
        own = window.same_arguments
        return None if ceil or include else own
    if not all(0 <= pad < size for pad, size in zip(pads, [*window.kernel, *window.kernel], strict=True)):
        return None
    if ceil and op.static_shape(op.input(0)) is None:
        return None if include else _caffe_arguments(window, pads)
    grown = _pads_for_ceil(op, window, pads) if ceil else pads
    if not all(pad < size for pad, size in zip(grown[window.rank :], window.kernel, strict=True)) or (
        include and grown != pads
    ):
        return None
    return window.arguments(grown) | ({"count_include_pad": 1} if include else {})


def _caffe_arguments(window: Window, pads: Sequence[int]) -> dict[str, Any] | None:
    """Return the arguments of Caffe's pooling, which rounds up; None where the last window may begin behind the image.

    Caffe looks at that only where there are pads, and has the same ones on both sides.
    """
    sides = zip(pads[: window.rank], pads[window.rank :], window.kernel, window.strides, strict=True)
    fits = all(low == high and (low or stride <= size) for low, high, size, stride in sides)
    return window.arguments(pads) | {"legacy_pad": CAFFE_POOLING} if fits else None


def _pads_for_ceil(op: Op, window: Window, pads: list[int]) -> list[int]:
    """Return the pads with which there are as many windows as with ``ceil_mode``."""
    rank = window.rank
    after = list(pads[rank:])
    for axis, size in enumerate(image_sizes(op, op.input(0))):
        low, high, k, stride = pads[axis], pads[rank + axis], window.kernel[axis], window.strides[axis]
        windows = -(-(size + low + high - k) // stride) + 1
        if (windows - 1) * stride >= size + low:
            windows -= 1  # the last window would begin behind the image
        after[axis] = high + max((windows - 1) * stride + k - size - low - high, 0)
    return [*pads[:rank], *after]


@family.converts("LpPool")
def lp_pool(op: Op) -> Value:
    """``LpPool(X; kernel_shape, p=2, ceil_mode=0, ...) -> Y``: the p-th root of the windows' sums of |x|^p."""
    window = _window(op)
    ceil, p = op.args.flag("ceil_mode", default=False), _order(op)
    powers = _power(op, op.require(op.input(0), FLOAT), p)
    return _root(op, sum_of_windows(op, powers, slide(op, window, ceil=ceil)), p)


@family.converts("GlobalLpPool")
def global_lp_pool(op: Op) -> Value:
    """``GlobalLpPool(X; p=2) -> Y``: the p-th root of ReduceSum of |x|^p."""
    p, x = _order(op), op.require(op.input(0), FLOAT)
    total = op.emit("ReduceSum", _power(op, x, p), axes=list(range(2, op.rank(x))), keepdims=1)
    return _root(op, total, p)


def _order(op: Op) -> int:
    p = op.args.integer("p", default=2)
    if p < 1:
        op.unsupported(f"p must be at least 1, not {p}", code="invalid-argument")
    return p


def _power(op: Op, value: Value, p: int) -> Value:
    if p == 2:
        return op.emit("Sqr", value)
    size = value.absolute()
    return size if p == 1 else op.emit("Pow", size, exponent=float(p))


def _root(op: Op, value: Value, p: int) -> Value:
    if p == 2:
        return op.emit("Sqrt", value)
    return value if p == 1 else op.emit("Pow", value, exponent=1 / p)


@family.converts("MaxUnpool")
def max_unpool(op: Op) -> Value:
    """``MaxUnpool(X, I, output_shape=None; kernel_shape, strides, pads) -> Y``: ScatterAssign into zeros.

    Indices count the elements of the image whose size the window gives; ``output_shape`` crops it or adds zeros.
    """
    window = _window(op)
    x = op.require(op.input(0), *NUMBERS)
    dims = dims_of(op, x)
    sizes = [
        (size - 1) * window.strides[i] + (as_value(op, k) - window.pads[i] - window.pads[window.rank + i])
        for i, (size, k) in enumerate(zip(dims[2:], window.kernel, strict=True))
    ]
    shape = [*dims[:2], *sizes]
    count = product(op, shape)
    flat = full(op, [count], x.dtype, 0)
    image = reshape(op, scatter_rows(op, flat, [count], op.input(1).reshape([-1]), x.reshape([-1])), shape)
    wanted = op.optional(2)
    if wanted is None:
        return image
    for i, size in enumerate(sizes):
        indices = arange(op, element(op, wanted, i + 2)).minimum(size)
        image = gather(op, append_element(op, image, i + 2, 0), i + 2, indices)
    return image


@family.converts("GlobalAveragePool", "GlobalMaxPool")
def global_pool(op: Op) -> Value:
    """``GlobalAveragePool(X) -> Y``, ``GlobalMaxPool(X) -> Y``: a pool with ``global_pooling``, or a reduction."""
    x = op.require(op.input(0), FLOAT)
    rank = op.rank(x) - 2
    kind = "Average" if op.type == "GlobalAveragePool" else "Max"
    if not 1 <= rank <= 3:
        reduced = "ReduceMean" if kind == "Average" else "ReduceMax"
        return op.emit(reduced, x, axes=list(range(2, rank + 2)), keepdims=1)
    return op.emit(f"{kind}Pool", x, global_pooling=1, order="NCHW")
