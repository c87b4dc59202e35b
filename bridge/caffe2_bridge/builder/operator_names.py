"""The operator types that Caffe2 has, and those whose names are close to a misspelled one."""

from __future__ import annotations

from functools import cache
from typing import Final

from caffe2_bridge.devices.cuda import cuda_operators
from caffe2_bridge.schemas import operator_schemas

_MAX_DISTANCE: Final = 3  # Caffe2's


@cache
def operator_types() -> frozenset[str]:
    """Return the types of Caffe2's operators, on the CPU or on GPUs, without engines."""
    return frozenset(name for name in {*operator_schemas(), *cuda_operators()} if "_ENGINE_" not in name)


def nearby_operator_types(name: str) -> list[str]:
    """Return the types whose edit distance to ``name`` is at most 3, the closest first."""
    distances = ((_edit_distance(name, other), other) for other in operator_types())
    return [other for distance, other in sorted(distances) if distance <= _MAX_DISTANCE]


def _edit_distance(one: str, other: str) -> int:
    """Return Levenshtein's distance; beyond the limit only a lower bound that exceeds it."""
    if abs(len(one) - len(other)) > _MAX_DISTANCE:
        return _MAX_DISTANCE + 1
    # row[j] is the distance between the first i letters of ``one`` and the first j of ``other``.
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        diagonal, row[0] = row[0], i
        for j, another in enumerate(other, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (letter != another))
        if min(row) > _MAX_DISTANCE:
            return _MAX_DISTANCE + 1
    return row[-1]
