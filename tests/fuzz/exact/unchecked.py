"""Operands that kernels of Caffe2 do not compare with each other, so that they read or write other memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from conformance.corpus import Array

from caffe2_bridge.control import all_operators
from caffe2_bridge.netdef.views import NetView, OpView
from fuzz.exact.causes import Arrays
from fuzz.exact.drawn import Drawn

# By operator type: the operand with the indices, the one that they are for, and along which axis. Of all of these only
# a build for debugging checks the indices (DCHECK, or CAFFE_ENFORCE unless NDEBUG); BatchBucketize checks them against
# an upper bound that is one too high, and BatchPermutation and CopyRowsToTensor do not check them at all.
INDEXED: Final = {
    "BatchBucketize": (1, 0, 1),
    "BatchPermutation": (1, 0, 0),
    "CopyRowsToTensor": (1, 0, 0),
    "MultiClassAccuracy": (1, 0, 1),
    "RowWiseSparseAdam": (3, 0, 0),
    "ScatterWeightedSum": (2, 0, 0),
    "SparseAdadelta": (3, 0, 0),
    "SparseAdam": (3, 0, 0),
    "SparseFtrl": (2, 0, 0),
    "SparseStorm": (4, 0, 0),
    "SparseWngrad": (2, 0, 0),
    "SwapBestPath": (1, 0, 1),
}


def _operators(drawn: Drawn, *types: str) -> Iterator[tuple[OpView, list[Array | None]]]:
    """The operators of some types, with those of their operands that are fed."""
    for op in all_operators(NetView(drawn.net)):
        if op.type in types:
            yield op, [drawn.inputs.get(name, drawn.inputs.get(f"{name}/raw")) for name in op.inputs]


def has_foreign_index(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an index is negative, or not below the size that it is for."""
    for op, operands in _operators(drawn, *INDEXED):
        index, table, axis = INDEXED[op.type]
        indices, indexed = operands[index], operands[table]
        if indices is None or indexed is None or not indices.size or indexed.ndim <= axis:
            continue
        if indices.min() < 0 or indices.max() >= indexed.shape[axis]:
            return True
    return False


def has_another_state(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the state of SparseFtrl does not have two numbers per weight, or its gradient not a row per index."""
    for _op, (weights, state, indices, grad, *_rest) in _operators(drawn, "SparseFtrl"):
        if weights is None or state is None or indices is None or grad is None or not weights.ndim:
            continue
        if state.size != 2 * weights.size or grad.size != indices.size * prod(weights.shape[1:]):
            return True
    return False


def has_too_few_bytes(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether ByteWeightDequant has fewer bytes than its argument ``shape`` has elements."""
    return any(
        x is not None and x.size < prod(op.args.integers("shape", default=()))
        for op, (x, *_) in _operators(drawn, "ByteWeightDequant")
    )


def is_resized_to_another_size(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the third operand of MatMul, like which the product is resized, has another number of elements."""
    for op, operands in _operators(drawn, "MatMul"):
        if len(operands) < 3 or any(operand is None for operand in operands):
            continue
        sizes = []
        for operand, axis, trans, outer in zip(operands, "ab", "ab", (True, False), strict=False):
            assert operand is not None
            cut = op.args.integer(f"axis_{axis}", default=1)
            dims = prod(operand.shape[:cut]), prod(operand.shape[cut:])
            sizes.append(dims[outer == bool(op.args.integer(f"trans_{trans}", default=0))])
        assert operands[2] is not None
        if prod(sizes) != operands[2].size:
            return True
    return False
