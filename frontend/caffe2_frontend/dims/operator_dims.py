"""Dims that ONNX operators require to be equal, and the usual names of the axes of their operands.

Only equalities without exception count: dims that may be broadcast are not among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import onnx_ir as ir

from caffe2_frontend.interop.operators import RECURRENT
from caffe2_frontend.interop.types import Dim
from caffe2_frontend.lowering.dim_facts import as_dim

Pairs: TypeAlias = Iterator[tuple[Dim, Dim]]

# The usual names of the axes of images and sequences by rank.
_IMAGE_AXES: Final = {3: "NCL", 4: "NCHW", 5: "NCDHW"}
_RECURRENT_AXES: Final = {3: "TNI"}


def has_equalities(node: ir.Node) -> bool:
    """Whether :func:`equalities` knows the operator of a node."""
    return node.op_type in _RULES and not node.domain


def equalities(node: ir.Node) -> Pairs:
    """Return the pairs of dims that are equal in every run of the node; None for a dim that is unknown."""
    rule = _RULES.get(node.op_type) if not node.domain else None
    return iter(()) if rule is None else rule(node)


def has_roles(node: ir.Node) -> bool:
    """Whether :func:`roles` knows the operator of a node."""
    return node.op_type in _AXES and not node.domain


def roles(node: ir.Node) -> Iterator[tuple[str, str]]:
    """Yield the symbolic dims of the node's data operand with their usual names."""
    if not has_roles(node) or not node.inputs:
        return
    first = node.inputs[0]
    shape = None if first is None else first.shape
    if shape is None:
        return
    for axis, name in enumerate(_AXES[node.op_type].get(len(shape), "")):
        dim = as_dim(shape[axis])
        if isinstance(dim, str):
            yield dim, name


def _dim(node: ir.Node, index: int, axis: int) -> Dim:
    """Return a dim of an operand; None where the operand or the dim is missing or unknown."""
    value = node.inputs[index] if index < len(node.inputs) else None
    shape = None if value is None else value.shape
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    return as_dim(shape[axis])


def _rank(node: ir.Node, index: int) -> int | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None or value.shape is None else len(value.shape)


def _flag(node: ir.Node, name: str, default: int = 0) -> int:
    attr = node.attributes.get(name)
    return default if attr is None else attr.as_int()


def _matmul(node: ir.Node) -> Pairs:
    yield _dim(node, 0, -1), _dim(node, 1, 0 if _rank(node, 1) == 1 else -2)


def _gemm(node: ir.Node) -> Pairs:
    yield _dim(node, 0, 0 if _flag(node, "transA") else 1), _dim(node, 1, 1 if _flag(node, "transB") else 0)


def _convolution(node: ir.Node) -> Pairs:
    per_group = _dim(node, 1, 1)
    if isinstance(per_group, int):
        yield _dim(node, 0, 1), per_group * _flag(node, "group", 1)


def _transposed_convolution(node: ir.Node) -> Pairs:
    yield _dim(node, 0, 1), _dim(node, 1, 0)


def _channels(node: ir.Node) -> Pairs:
    for index in range(1, len(node.inputs)):
        yield _dim(node, 0, 1), _dim(node, index, 0)


def _recurrent(node: ir.Node) -> Pairs:
    """X [T, N, I], W [1, gates * H, I], R [1, gates * H, H], B, lengths [N], initial states [1, N, H]."""
    batch = _dim(node, 0, 1)
    yield _dim(node, 0, 2), _dim(node, 1, 2)
    yield batch, _dim(node, 4, 0)
    for state in (5, 6):
        yield batch, _dim(node, state, 1)
        yield _dim(node, state, 2), _dim(node, 2, 2)


def _concat(node: ir.Node) -> Pairs:
    rank = _rank(node, 0)
    if rank is None or any(_rank(node, index) != rank for index in range(len(node.inputs))):
        return
    axis = _flag(node, "axis") % rank if rank else 0
    for index in range(1, len(node.inputs)):
        for other in range(rank):
            if other != axis:
                yield _dim(node, 0, other), _dim(node, index, other)


def _scan(node: ir.Node) -> Pairs:
    """Yield the lengths of sequences, and dims of states, in pairs. Other axes than 0 are never exported."""
    if "scan_input_axes" in node.attributes:
        return
    body = node.attributes["body"].as_graph()
    states = len(node.inputs) - _flag(node, "num_scan_inputs")
    for index in range(states + 1, len(node.inputs)):
        yield _dim(node, states, 0), _dim(node, index, 0)
    for value, after in zip(node.inputs[:states], body.outputs, strict=False):
        before, kept = None if value is None else value.shape, after.shape
        if before is not None and kept is not None and len(before) == len(kept):
            yield from zip(map(as_dim, before), map(as_dim, kept), strict=True)


_RULES: Final[Mapping[str, Callable[[ir.Node], Pairs]]] = {
    "BatchNormalization": _channels,
    "Concat": _concat,
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "Gemm": _gemm,
    "InstanceNormalization": _channels,
    "MatMul": _matmul,
    "Scan": _scan,
    **dict.fromkeys(RECURRENT, _recurrent),
}

_AXES: Final[Mapping[str, Mapping[int, str]]] = {
    **dict.fromkeys(
        [
            "AveragePool",
            "BatchNormalization",
            "Conv",
            "ConvTranspose",
            "GlobalAveragePool",
            "InstanceNormalization",
            "LRN",
            "MaxPool",
            "Resize",
        ],
        _IMAGE_AXES,
    ),
    **dict.fromkeys(RECURRENT, _RECURRENT_AXES),
    "Gemm": {2: "N"},
}
