"""Sizes that nodes compute: the numbers or dims in small integer tensors, followed back to the Shape nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import onnx_ir as ir

from caffe2_frontend.interop.types import Dim
from caffe2_frontend.lowering.dim_facts import as_dim

# Vectors of sizes are short, and so are the chains that compute them.
_MOST_ELEMENTS: Final = 16
_MOST_NODES: Final = 32
_INTEGERS: Final = frozenset({ir.DataType.INT64, ir.DataType.INT32})
_Operands: TypeAlias = Sequence[list[Dim] | None]
_KEEP: Final = frozenset({"Cast", "Identity", "Squeeze", "Unsqueeze"})


def sizes(value: ir.Value | None) -> list[Dim] | None:
    """Return the elements of a scalar or vector of integers, each a number, a dim's name, or None; None if unknown."""
    return _Sizes().of(value, _MOST_NODES)


class _Sizes:
    """Sizes that were followed. Each once: an operand that is read twice at each of n levels is reached in 2^n ways."""

    def __init__(self) -> None:
        self._found: dict[ir.Value, list[Dim] | None] = {}

    def of(self, value: ir.Value | None, depth: int) -> list[Dim] | None:
        """Return the elements of a value, which at most ``depth`` nodes compute one after another."""
        if value is None or not depth:
            return None
        if value not in self._found:
            found = self._followed(value, depth)
            self._found[value] = None if found is None or len(found) > _MOST_ELEMENTS else found
        return self._found[value]

    def _followed(self, value: ir.Value, depth: int) -> list[Dim] | None:
        if value.const_value is not None:
            return _constant(value)
        node = value.producer()
        if node is None or node.domain:
            return None
        if node.op_type == "Shape":
            return _shape(node)
        if node.op_type in _KEEP:
            return self.of(node.inputs[0], depth - 1)
        compute = _COMPUTED.get(node.op_type)
        return None if compute is None else compute([self.of(operand, depth - 1) for operand in node.inputs])


def _constant(value: ir.Value) -> list[Dim] | None:
    tensor = value.const_value
    if tensor is None or len(tensor.shape) > 1 or tensor.size > _MOST_ELEMENTS or tensor.dtype not in _INTEGERS:
        return None
    return [int(element) for element in tensor.numpy().reshape(-1)]


def _shape(node: ir.Node) -> list[Dim] | None:
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    if shape is None:
        return None
    start, end = node.attributes.get("start"), node.attributes.get("end")
    dims = [as_dim(dim) for dim in shape]
    return dims[None if start is None else start.as_int() : None if end is None else end.as_int()]


def _gather(operands: _Operands) -> list[Dim] | None:
    data, indices = operands if len(operands) == 2 else (None, None)
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


def _slice(operands: _Operands) -> list[Dim] | None:
    """Return a slice of a vector of sizes, with constant bounds."""
    if len(operands) < 3:
        return None
    data, *bounds = operands
    start, end = (bound[0] if bound else None for bound in bounds[:2])
    step = bounds[3][0] if len(bounds) > 3 and bounds[3] else 1
    if data is None or not isinstance(start, int) or not isinstance(end, int) or step != 1:
        return None
    return data[start:end]


def _concat(operands: _Operands) -> list[Dim] | None:
    if any(part is None for part in operands):
        return None
    return [dim for part in operands if part is not None for dim in part]


_COMPUTED: Final[Mapping[str, Callable[[_Operands], list[Dim] | None]]] = {
    "Concat": _concat,
    "Gather": _gather,
    "Slice": _slice,
}
