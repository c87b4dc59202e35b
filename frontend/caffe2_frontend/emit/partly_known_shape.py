"""Reshaping to a shape of which single dims are known, as torch's ``x.view(x.size(0), -1, 4)`` computes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod

import onnx_ir as ir

from caffe2_frontend.emit.constant_evaluation import is_size
from caffe2_frontend.emit.shapes import Size, cast, reshape, size, slice_axis, squeeze, unsqueeze, vector
from caffe2_frontend.interop.inference.elements import Element
from caffe2_frontend.lowering.op import Op, Value

Dim = int | ir.SymbolicDim


def fits_elements(op: Op, x: Value, elements: Sequence[int | Element]) -> bool:
    """Whether :func:`reshape_to_elements` takes a shape: what is not known of it are sizes, which no rule replaces."""
    numbers = [each for each in elements if isinstance(each, int)]
    return (
        numbers.count(-1) <= 1
        and min(numbers, default=0) >= -1
        and 0 not in elements[op.rank(x) :]
        and all(is_size(op, each) for each in elements if isinstance(each, Element))
    )


def reshape_to_elements(op: Op, x: Value, elements: Sequence[int | Element]) -> Value:
    """Reshape ``x`` to integers, 0 for the dim of ``x`` at its position and -1 for the rest, and to computed sizes.

    A size that is the dim of ``x`` at its position becomes ONNX's 0, and the rest becomes its size where the other dims
    determine it; what only inserts and removes dims of 1 becomes Unsqueeze and Squeeze. Where it stays -1, and another
    dim is 0 when the model runs, onnxruntime reports an error, as PyTorch does.
    """
    own = list(op.shape(x))
    dims = [_dim(each, own[axis] if axis < len(own) else None) for axis, each in enumerate(elements)]
    rest = _rest(own, dims)
    dims = [rest if dim == -1 and rest is not None else dim for dim in dims]
    shape = [None if dim == -1 else dim for dim in dims]
    if _moves_dims(own, dims):
        x = squeeze(op, x, [axis for axis, dim in enumerate(own) if dim == 1])
        return unsqueeze(op, x, [axis for axis, dim in enumerate(dims) if dim == 1])
    if all(isinstance(dim, int) for dim in dims):
        return reshape(op, x, [dim for dim in dims if isinstance(dim, int)])
    target = [*_targets(op, elements, dims, own)]
    return op.emit("Reshape", x, vector(op, target), shape=shape)


def _dim(element: int | Element, own: Dim | None) -> Dim:
    """Return a dim of the result: -1 for the rest, and a symbolic dim, perhaps without a name, for a size."""
    if isinstance(element, int):
        return own if element == 0 and own is not None else element
    measured = element.measured
    if measured is None or measured[0].shape is None:
        return ir.SymbolicDim(None)
    return measured[0].shape[measured[1]]


def _rest(own: Sequence[Dim], dims: Sequence[Dim]) -> Dim | None:
    """Return the dim for -1: the product of all dims, divided by the others. None if neither known nor one dim."""
    before, after = (Counter(dim for dim in shape if not isinstance(dim, int)) for shape in (own, dims))
    divisor = prod(dim for dim in dims if isinstance(dim, int) and dim != -1)
    if after - before or any(dim.value is None for dim in before) or divisor == 0:
        return None
    total, symbols = prod(dim for dim in own if isinstance(dim, int)), [*(before - after).elements()]
    if not symbols:
        return None if total % divisor else total // divisor
    return symbols[0] if len(symbols) == 1 and total == divisor else None


def _moves_dims(own: Sequence[Dim], dims: Sequence[Dim]) -> bool:
    """Whether a dim without a size is at another position, and only dims of 1 were inserted or removed.

    onnxruntime 1.32: it makes a -1 of the one size that is computed, with which it takes no tensor without elements.
    """
    before, after = ([dim for dim in shape if dim != 1] for shape in (own, dims))
    symbols = [(axis, dim) for axis, dim in enumerate(dims) if isinstance(dim, ir.SymbolicDim)]
    if before != after or any(dim.value is None for _, dim in symbols):
        return False
    return any(axis >= len(own) or own[axis] != dim for axis, dim in symbols)


def _targets(op: Op, elements: Sequence[int | Element], dims: Sequence[Dim], own: Sequence[Dim]) -> Iterator[Size]:
    """Yield the operand of Reshape: integers, 0 for the dim of ``x`` at its position, and sizes that are computed."""
    for axis, (element, dim) in enumerate(zip(elements, dims, strict=True)):
        if isinstance(dim, int):
            yield dim
        elif element == 0 or (axis < len(own) and dim.value is not None and dim == own[axis]):
            yield 0
        else:
            yield element if isinstance(element, int) else _computed(op, element)


def _computed(op: Op, element: Element) -> Value | int:
    """Return the size as an int64 vector [1]."""
    if element.measured is not None:
        return size(op, *element.measured)
    value = cast(op, element.value, ir.DataType.INT64)
    if op.rank(value) == 0:
        return unsqueeze(op, value, [0])
    whole = op.shape(value) == ir.Shape([1])
    return value if whole else slice_axis(op, reshape(op, value, [-1]), 0, element.index, element.index + 1)
