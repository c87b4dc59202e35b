"""Sizes that nodes compute: the numbers or dims in small integer tensors, followed back to the Shape nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import onnx_ir as ir

from caffe2_frontend.interop.types import Dim
from caffe2_frontend.lowering.dim_facts import as_dim

# Vectors of sizes are short, and so are the chains that compute them.
_MOST_ELEMENTS: Final = 16
_MOST_NODES: Final = 32
_INTEGERS: Final = frozenset({ir.DataType.INT64, ir.DataType.INT32})
_KEEP: Final = frozenset({"Cast", "Identity", "Squeeze", "Unsqueeze"})


def sizes(value: ir.Value | None, depth: int = _MOST_NODES) -> list[Dim] | None:
    """The elements of a scalar or vector of integers, each a number, the name of a dim, or None; None if unknown."""
    if value is None or not depth:
        return None
    if value.const_value is not None:
        return _constant(value)
    node = value.producer()
    if node is None or node.domain:
        return None
    if node.op_type in _KEEP:
        return sizes(node.inputs[0], depth - 1)
    follow = _FOLLOWED.get(node.op_type)
    return None if follow is None else follow(node, depth - 1)


def _constant(value: ir.Value) -> list[Dim] | None:
    tensor = value.const_value
    if tensor is None or len(tensor.shape) > 1 or tensor.size > _MOST_ELEMENTS or tensor.dtype not in _INTEGERS:
        return None
    return [int(element) for element in tensor.numpy().reshape(-1)]


def _shape(node: ir.Node, _: int) -> list[Dim] | None:
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    if shape is None:
        return None
    start, end = node.attributes.get("start"), node.attributes.get("end")
    dims = [as_dim(dim) for dim in shape]
    return dims[None if start is None else start.as_int() : None if end is None else end.as_int()]


def _gather(node: ir.Node, depth: int) -> list[Dim] | None:
    data, indices = sizes(node.inputs[0], depth), sizes(node.inputs[1], depth)
    if data is None or indices is None:
        return None
    return _picked(data, indices)


def _picked(data: Sequence[Dim], indices: Sequence[Dim]) -> list[Dim] | None:
    picked: list[Dim] = []
    for index in indices:
        if not isinstance(index, int) or not -len(data) <= index < len(data):
            return None
        picked.append(data[index])
    return picked


def _slice(node: ir.Node, depth: int) -> list[Dim] | None:
    """A slice of a vector of sizes, with constant bounds."""
    if len(node.inputs) < 3:
        return None
    data, *bounds = (sizes(value, depth) for value in node.inputs)
    start, end = (bound[0] if bound else None for bound in bounds[:2])
    step = bounds[3][0] if len(bounds) > 3 and bounds[3] else 1
    if data is None or not isinstance(start, int) or not isinstance(end, int) or step != 1:
        return None
    return data[start:end]


def _concat(node: ir.Node, depth: int) -> list[Dim] | None:
    parts = [sizes(value, depth) for value in node.inputs]
    if any(part is None for part in parts):
        return None
    return [dim for part in parts if part is not None for dim in part]


_FOLLOWED: Final[Mapping[str, Callable[[ir.Node, int], list[Dim] | None]]] = {
    "Concat": _concat,
    "Gather": _gather,
    "Shape": _shape,
    "Slice": _slice,
}
