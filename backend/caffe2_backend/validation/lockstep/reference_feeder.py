"""The teacher of a lock step: it compares what the candidate wrote, and gives what the reference wrote back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime import Int8Tensor
from caffe2_backend.validation.compare import Difference, Tolerance, compare
from caffe2_backend.validation.lockstep.onnx_steps import keep, onnx_points
from caffe2_backend.validation.lockstep.steps import Point, Points, by_turn, net_points
from caffe2_backend.validation.runtimes import Value
from caffe2_backend.validation.sides import Side
from caffe2_bridge.control import RecurrentNetwork, control_of
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView

# One operator may sum over some thousand elements: as much as sixteen roundings of the depth rule.
ONE_OPERATOR: Final = 16


@dataclass(frozen=True)
class Pair:
    """A value of the reference and what the candidate has in its place."""

    expected: Point
    actual: Point
    difference: Difference = field(repr=False)


class Taught:
    """The teacher, and the pairs that it saw."""

    def __init__(self, expected: Points, model: Any, tolerances: Mapping[str, Tolerance]) -> None:
        self._tolerances = tolerances
        self._turns = by_turn(expected)
        self._names: dict[Any, Point] = {}
        self._places: dict[Any, Point] = {}
        self._from_net = isinstance(model, Model)
        for point in expected:
            known = self._names.get((point.iterations, point.name))
            if self._from_net or known is None or not point.walked:  # of a state of ONNX's loops, the node that made it
                self._names[point.iterations, point.name] = point
            self._places[point.place, point.iterations, point.name] = point
        self._order = {id(point): i for i, point in enumerate(expected)}
        self._states = _state_blobs(model) if isinstance(model, Model) else {}
        self._outputs = frozenset(model.outputs) if isinstance(model, Model) else frozenset()
        self._last = {point.name: point for point in expected if not point.iterations}
        self.pairs: list[Pair] = []

    def net(self, name: str, turn: int, value: Value) -> Value:
        """See Teacher, for nets: of a blob's n-th write, the reference's n-th. Places are known after the run."""
        point = self._turns.get((False, name, turn))
        if point is None:
            return value
        self.pairs.append(self._pair(point, replace(point, value=value, cut=None), point.value))
        return point.value if _alike(point.value, value) else value

    def nodes(self, point: Point, state: int | None) -> Any:
        """See Watch, for ONNX nodes."""
        expected = self._find(point, state)
        if expected is None:
            return point.value
        value = _shaped(expected.value, point.value)
        self.pairs.append(self._pair(expected, point, value))
        return value if _alike(value, point.value) else point.value

    def _find(self, point: Point, state: int | None) -> Point | None:
        if not self._from_net:
            return self._names.get((point.iterations, point.name))
        found = self._places.get((point.place, point.iterations, point.name))
        if found is None and state is not None:
            blobs = self._states.get(point.place, ())
            if state < len(blobs):
                found = self._names.get((point.iterations, blobs[state]))
        if found is None and not point.iterations and point.name in self._outputs:
            found = self._last.get(point.name)  # the nodes of another tool do not say where they come from
        return found

    def _pair(self, expected: Point, actual: Point, value: Any) -> Pair:
        return Pair(expected, actual, compare(value, actual.value, depth=ONE_OPERATOR, tolerances=self._tolerances))

    def put_in_place(self, actual: Points) -> None:
        """For nets, once the run is over: the candidate's points with their places, and what bodies left."""
        self.pairs.clear()
        for point in actual:
            expected = self._turns.get((point.walked, point.name, point.turn))
            if expected is not None and (not point.walked or expected.place == point.place):
                self.pairs.append(self._pair(expected, point, expected.value))

    def wrong(self) -> list[Pair]:
        """The pairs that disagree, in the reference's order; of operators that were gone through only if no other."""
        wrong = [pair for pair in self.pairs if not pair.difference.agrees]
        direct = [pair for pair in wrong if not pair.expected.walked]
        return sorted(direct or wrong, key=lambda pair: self._order[id(pair.expected)])

    def first(self) -> Pair | None:
        """The first pair that disagrees."""
        return next(iter(self.wrong()), None)


def points_of(side: Side, inputs: Mapping[str, Any], taught: Taught | None = None) -> Points:
    """Every value that a side writes; taught, where there is a teacher."""
    if isinstance(side.model, Model):
        return net_points(side.runtime, side.model, inputs, *([taught.net] if taught else []))
    return onnx_points(side.runtime, side.model, dict(inputs), taught.nodes if taught else keep)


def _alike(expected: Any, actual: Any) -> bool:
    """Whether one value can stand for the other."""
    if isinstance(expected, Int8Tensor) or isinstance(actual, Int8Tensor):
        return isinstance(expected, Int8Tensor) and isinstance(actual, Int8Tensor)
    return bool(expected.dtype == actual.dtype and expected.shape == actual.shape)


def _shaped(expected: Any, actual: Any) -> Any:
    """A net's state is [1,N,D] where a loop may carry [N,D]; an Int8 tensor's integers are what ONNX has."""
    value = expected.data if isinstance(expected, Int8Tensor) else np.asarray(expected)
    squeezed = tuple(d for d in value.shape if d != 1) == tuple(d for d in actual.shape if d != 1)
    return value.reshape(actual.shape) if squeezed else value


def _state_blobs(model: Model) -> dict[str, tuple[str, ...]]:
    """By the place of a RecurrentNetwork of the outer net: what its step net writes for each state."""
    found = {}
    view = NetView(model.predict_net)
    for op in view.ops:
        control = control_of(op)
        if not isinstance(control, RecurrentNetwork):
            continue
        writers = {link.external: link.internal for link in reversed([*control.spec.writes()])}
        blobs = [writers.get(state, "") for state in control.states]
        found[f"{view.name}[{op.index}] {op.type}" + (f" ({op.name})" if op.name else "")] = tuple(blobs)
    return found
