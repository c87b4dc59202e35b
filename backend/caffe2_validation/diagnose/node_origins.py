"""Origins of an export's nodes in the net, by the values that they compute."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from caffe2_backend.runtime import Int8Tensor
from caffe2_validation.lockstep.reference_feeder import ONE_OPERATOR
from caffe2_validation.lockstep.steps import Point, Points
from caffe2_validation.values import Tolerance, first_row


def is_inside(place: str, outer: str) -> bool:
    """Whether a location is within a body of another."""
    return place.startswith(f"{outer} > ")


def find_place(expected: Points, points: Points, node: Point) -> str:
    """Return the operator that a node originates from.

    Nodes record the location of their operator; those of a fused RecurrentNetwork only that of the whole. Then it is
    the operator in its body that writes the first value equal to the node's, or to one computed from the node's.

    Args:
        expected: every value of the net.
        points: every value of its export.
        node: one of ``points``.
    """
    inner = _values_inside(expected, node.place)
    if not inner:
        return node.place
    start = next(i for i, point in enumerate(points) if point is node)
    reached = {node.name}
    for point in points[start:]:
        if point is not node and not (point.cut is not None and reached.intersection(point.cut.inputs)):
            continue
        if point.iterations[: len(node.iterations)] != node.iterations:
            continue
        reached.add(point.name)
        if is_inside(point.place, node.place):
            return point.place
        found = inner.get(_key(point.value, point.iterations), ())
        for place, value in found:
            if np.allclose(value, point.value.reshape(-1), rtol=1e-5, atol=1e-6, equal_nan=True):  # type: ignore[union-attr] # ONNX has arrays
                return place
    return node.place


def first_step(
    expected: Points, place: str, pairs: Iterable[tuple[Any, Any]], tolerances: Mapping[str, Tolerance]
) -> int | None:
    """Return the first step in which values with a row for each step differ.

    Args:
        expected: every value of the net, from which the number of steps follows.
        place: location of the operator with the loop, or of one in its body.
        pairs: right and wrong values.
        tolerances: by dtype.
    """
    loop = place.rpartition(" > ")[0] or place
    steps = 1 + max((p.iterations[-1] for p in expected if p.iterations and is_inside(p.place, loop)), default=-1)
    rows = (
        first_row(right, wrong, depth=ONE_OPERATOR, tolerances=tolerances)
        for right, wrong in pairs
        if np.ndim(right) and len(right) == steps
    )
    return min((row for row in rows if row is not None), default=None)


def _values_inside(expected: Points, place: str) -> dict[Any, list[tuple[str, Any]]]:
    """Return the values of the operators in a body, as flat arrays: of each step, and of all steps stacked."""
    found = defaultdict(list)
    steps = defaultdict(list)
    for point in expected:
        if isinstance(point.value, Int8Tensor) or point.walked or not is_inside(point.place, place):
            continue
        if _is_significant(point.value):
            found[_key(point.value, point.iterations)].append((point.place, point.value.reshape(-1)))
        if point.iterations:
            steps[point.place, point.name, point.iterations[:-1]].append(point.value)
    for (inner, _, outer), values in steps.items():
        if _is_significant(values[-1]):
            found[_key(values[-1], outer)].append((inner, values[-1].reshape(-1)))
        if len({value.shape for value in values}) == 1 and _is_significant(whole := np.stack(values)):
            found[_key(whole, outer)].append((inner, whole.reshape(-1)))
    return found


def _is_significant(value: Any) -> bool:
    """Whether equality with a value is significant: floats that are not all equal."""
    return bool(value.dtype.kind == "f" and value.size > 1 and np.ptp(value))


def _key(value: Any, iterations: tuple[int, ...]) -> tuple[Any, ...]:
    return (*iterations, "of", *(d for d in value.shape if d != 1))
