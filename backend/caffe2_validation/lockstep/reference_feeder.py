"""The reference feeder of a lockstep: compares the candidate's values, and replaces them by the reference's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime import Int8Tensor
from caffe2_bridge.control import RecurrentNetwork, control_of
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView
from caffe2_validation.lockstep.onnx_steps import keep_own_node, onnx_points
from caffe2_validation.lockstep.steps import Point, Points, by_turn, net_points, writer_counts
from caffe2_validation.runtimes import Value
from caffe2_validation.sides import Side
from caffe2_validation.values import Difference, Tolerance, compare

# The depth at which one operator is compared: it may sum over thousands of elements.
ONE_OPERATOR: Final = 16


@dataclass(frozen=True)
class PointPair:
    """A value of the reference and its counterpart of the candidate."""

    expected: Point
    actual: Point
    difference: Difference = field(repr=False)


class ReferenceFeeder:
    """Feeds the reference's values to a run of the candidate.

    Each value that the candidate writes is paired with the reference's value and compared. The candidate goes on with
    the reference's value, so that every operator is compared on the same inputs, and the first pair that disagrees is
    the first operator at fault.

    Args:
        expected: all values of the reference.
        model: of the reference.
        candidate: the model to examine.
        tolerances: by dtype.

    Attributes:
        pairs: the pairs so far.
    """

    def __init__(self, expected: Points, model: Any, candidate: Any, tolerances: Mapping[str, Tolerance]) -> None:
        self._tolerances = tolerances
        self._by_turn = by_turn(expected)
        self._writers, self._own_writers = (
            writer_counts(side.predict_net) if isinstance(side, Model) else {} for side in (model, candidate)
        )
        self._by_name: dict[Any, Point] = {}
        self._by_location: dict[Any, Point] = {}
        self._from_net = isinstance(model, Model)
        for point in expected:
            known = self._by_name.get((point.iterations, point.name))
            if (
                self._from_net or known is None or not point.walked
            ):  # for a state of an ONNX loop, the node that computed it
                self._by_name[point.iterations, point.name] = point
            self._by_location[point.place, point.iterations, point.name] = point
        self._order = {id(point): i for i, point in enumerate(expected)}
        self._states = _state_blobs(model) if isinstance(model, Model) else {}
        self._outputs = frozenset(model.outputs) if isinstance(model, Model) else frozenset()
        self._last = {point.name: point for point in expected if not point.iterations}
        self.pairs: list[PointPair] = []

    def feed_blob(self, name: str, turn: int, value: Value) -> Value:
        """Feed a net, see BlobFeeder: the n-th write of a blob is paired with the n-th write of the reference."""
        point = self._of_turn(name, turn)
        if point is None:
            return value
        self.pairs.append(self._pair(point, replace(point, value=value, cut=None), point.value))
        return point.value if _alike(point.value, value) else value

    def _of_turn(self, name: str, turn: int) -> Point | None:
        """Return the reference's value for a write of the candidate.

        Where different numbers of operators write a blob, as in a net and the import of its export, which renames the
        values of operators in place, only the last writes of each iteration are the same value.
        """
        theirs, own = self._writers.get(name, 0), self._own_writers.get(name, 0)
        if theirs != own and theirs and own:
            iteration, index = divmod(turn, own)
            turn = (iteration + 1) * theirs - 1 if index == own - 1 else -1
        return self._by_turn.get((False, name, turn))

    def feed_node(self, point: Point, state: int | None) -> Any:
        """Feed an ONNX model, see Observer: values are paired by location and name."""
        expected = self._find(point, state)
        if expected is None:
            return point.value
        value = _shaped(expected.value, point.value)
        self.pairs.append(self._pair(expected, point, value))
        return value if _alike(value, point.value) else point.value

    def _find(self, point: Point, state: int | None) -> Point | None:
        if not self._from_net:
            return self._by_name.get((point.iterations, point.name))
        found = self._by_location.get((point.place, point.iterations, point.name))
        if found is None and state is not None:
            blobs = self._states.get(point.place, ())
            if state < len(blobs):
                found = self._by_name.get((point.iterations, blobs[state]))
        if found is None and not point.iterations and point.name in self._outputs:
            found = self._last.get(point.name)  # nodes of other tools have no recorded location
        return found

    def _pair(self, expected: Point, actual: Point, value: Any) -> PointPair:
        return PointPair(
            expected, actual, compare(value, actual.value, depth=ONE_OPERATOR, tolerances=self._tolerances)
        )

    def pair_with(self, actual: Points) -> None:
        """Pair anew after a net ran: its points have locations then, and include the results of bodies."""
        self.pairs.clear()
        for point in actual:
            if point.walked:
                expected = self._by_turn.get((True, point.name, point.turn))
            else:
                expected = self._of_turn(point.name, point.turn)
            if expected is not None and (not point.walked or expected.place == point.place):
                self.pairs.append(self._pair(expected, point, expected.value))

    def wrong(self) -> list[PointPair]:
        """Return the pairs that disagree, in the reference's order; results of bodies only if no operator disagrees."""
        wrong = [pair for pair in self.pairs if not pair.difference.agrees]
        direct = [pair for pair in wrong if not pair.expected.walked]
        return sorted(direct or wrong, key=lambda pair: self._order[id(pair.expected)])

    def first(self) -> PointPair | None:
        """Return the first pair that disagrees."""
        return next(iter(self.wrong()), None)


def points_of(side: Side, inputs: Mapping[str, Any], feeder: ReferenceFeeder | None = None) -> Points:
    """Run a side operator by operator, with the reference's values if there is a feeder: every value it writes."""
    if isinstance(side.model, Model):
        return net_points(side.runtime, side.model, inputs, *([feeder.feed_blob] if feeder else []))
    return onnx_points(side.runtime, side.model, dict(inputs), feeder.feed_node if feeder else keep_own_node)


def _alike(expected: Any, actual: Any) -> bool:
    """Whether one value can replace the other: the same kind, dtype and shape."""
    if isinstance(expected, Int8Tensor) or isinstance(actual, Int8Tensor):
        return isinstance(expected, Int8Tensor) and isinstance(actual, Int8Tensor)
    return bool(expected.dtype == actual.dtype and expected.shape == actual.shape)


def _shaped(expected: Any, actual: Any) -> Any:
    """Adapt a net's value to ONNX: a state [1,N,D] to a loop's [N,D], an Int8 tensor to its integers."""
    value = expected.data if isinstance(expected, Int8Tensor) else np.asarray(expected)
    squeezed = tuple(d for d in value.shape if d != 1) == tuple(d for d in actual.shape if d != 1)
    return value.reshape(actual.shape) if squeezed else value


def _state_blobs(model: Model) -> dict[str, tuple[str, ...]]:
    """Return the blobs that step nets write for each state, by the location of RecurrentNetwork in the outer net."""
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
