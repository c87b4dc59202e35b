"""Elements of lists that are computed at run time, each as far as it is known: numbers, and distances from dims."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_backend.lowering.op import Op, index_type
from caffe2_backend.lowering.value import Array, Value
from caffe2_backend.state import WORKING_OPSET
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.inference.elements import Element, Evaluation
from caffe2_frontend.interop.types import INT64

_STEPS: Final = 8  # nodes that are followed: offsets are added in a few
_LONGEST: Final = 64


def known_elements(value: ir.Value) -> list[int | Element] | None:
    """Return the elements of a small integer tensor, each as far as it is known; None if not even their number is."""
    return Evaluation(WORKING_OPSET, _contents, partial=True).elements(value)


def _contents(value: ir.Value) -> Array | None:
    return None if value.const_value is None else value.const_value.numpy()


def elements_of(op: Op, index: int, count: int) -> list[Value] | None:
    """Return the elements of an operand, int64 [1] each; None unless they are known to be ``count``.

    A number that is known is a constant. Another is taken from the tensor that it was computed in, so that nothing
    needs to join it with others.
    """
    found = known_elements(op.operand(index))
    if found is None or len(found) != count:
        return None
    return [op.const([each], INT64) if isinstance(each, int) else _taken(op, each) for each in found]


def _taken(op: Op, element: Element) -> Value:
    value = Value(op, name=element.value.name, dtype=element.value.dtype or INT64, shape=element.value.shape)
    flat = index_type(op, value if op.rank(value) == 1 else value.reshape([-1]))
    if list(op.shape(value)) in ([], [1]):
        return flat
    return op.emit("Slice", flat, starts=[element.index], ends=[element.index + 1])


def distances_from_dim(op: Op, index: int, count: int, axes: list[int]) -> list[int | None]:
    """Return how far the elements of an operand are behind the sizes of operand 0 along axes; None where unknown."""
    found = known_elements(op.operand(index))
    if found is None or len(found) != count:
        return [None] * len(axes)
    measured = [(_source(op.operand(0)), axis) for axis in axes]
    return [_distance(element, dim) for element, dim in zip(found, measured, strict=True)]


def _distance(element: int | Element, dim: tuple[ir.Value, int]) -> int | None:
    """Return what is added to a dim of a tensor to give an element."""
    offset = 0
    for _ in range(_STEPS):
        if isinstance(element, int):
            size = None if dim[0].shape is None else dim[0].shape[dim[1]]
            return offset + element - size if isinstance(size, int) else None
        if element.measured is not None:
            measured, axis = element.measured
            return offset if (_source(measured), axis) == dim else None
        node = element.value.producer()
        if node is None or standard_type(node) not in ("Add", "Sub"):
            return None
        parts = [None if value is None else known_elements(value) for value in node.inputs]
        if any(part is None or len(part) != 1 for part in parts):
            return None
        (first,), (second,) = parts  # type: ignore[misc] # neither is None
        is_sum = node.op_type == "Add"
        if isinstance(first, int) and is_sum:
            first, second = second, first
        if not isinstance(second, int):
            return None
        offset += second if is_sum else -second
        element = first
    return None


def joined_numbers(value: ir.Value, depth: int = _STEPS) -> list[float | None] | None:
    """Return the elements of a list that is joined of constants and others, None each; None if not their number is."""
    if value.const_value is not None and value.const_value.size <= _LONGEST:
        return [float(number) for number in value.const_value.numpy().reshape(-1)]
    node = value.producer()
    if node is not None and standard_type(node) == "Concat" and depth:
        parts = [None if part is None else joined_numbers(part, depth - 1) for part in node.inputs]
        return None if None in parts else [number for part in parts for number in part or ()]
    count = None if value.shape is None or len(value.shape) != 1 else value.shape[0]
    return [None] * count if isinstance(count, int) and count <= _LONGEST else None


def _source(value: ir.Value) -> ir.Value:
    """Return the value that Identity nodes copy."""
    node = value.producer()
    while node is not None and standard_type(node) == "Identity" and node.inputs[0] is not None:
        value = node.inputs[0]
        node = value.producer()
    return value
