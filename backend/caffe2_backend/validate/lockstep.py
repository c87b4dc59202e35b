"""Lock step: both sides operator by operator on the same values, to find the first that does not compute the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime import Int8Tensor
from caffe2_backend.validate.compare import TOLERANCES, Difference, Tolerance, compare, first_row
from caffe2_backend.validate.inputs import Case
from caffe2_backend.validate.onnx_steps import keep, onnx_points
from caffe2_backend.validate.report import Divergence
from caffe2_backend.validate.runtimes import Value
from caffe2_backend.validate.sides import Side
from caffe2_backend.validate.steps import Point, Points, by_turn, net_points
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model
from caffe2_bridge.net import NetView

# One operator may sum over some thousand elements: as much as sixteen roundings of the depth rule.
_ONE_OPERATOR: Final = 16
_MOST_GROWTH: Final = 400
_SEQUENCES: Final = frozenset(["RecurrentNetwork", "Recurrent", "LSTM", "GRU", "RNN", "Scan", "Loop"])


@dataclass(frozen=True)
class Pair:
    """A value of the reference and what the candidate has in its place."""

    expected: Point
    actual: Point
    difference: Difference = field(repr=False)


def find_divergences(
    sides: Sequence[Side],
    cases: Sequence[Case],
    wrong: Sequence[tuple[str, str]],
    *,
    tolerances: Mapping[str, Tolerance] = TOLERANCES,
    repro: str | None = None,
) -> list[Divergence]:
    """Where each side that disagrees parts from the reference, the first of ``sides``.

    Args:
        sides: the sides.
        cases: what they ran on.
        wrong: (case, side) to look into.
        tolerances: by dtype.
        repro: a folder for what is found.

    Raises RunError where an operator of the reference cannot be run by itself.
    """
    known = {case.name: case for case in cases}
    labels = {side.label: side for side in sides}
    found = []
    for index, (case, label) in enumerate(wrong):
        folder = None if repro is None else Path(repro) / f"{index}-{label.replace(' ', '-')}"
        divergence = lock_step(sides[0], labels[label], known[case], tolerances=tolerances, repro=folder)
        if divergence is not None:
            found.append(divergence)
    return found


def lock_step(
    reference: Side,
    candidate: Side,
    case: Case,
    *,
    tolerances: Mapping[str, Tolerance] = TOLERANCES,
    repro: Path | None = None,
) -> Divergence | None:
    """The first operator of ``candidate`` that does not give what ``reference`` gives for the same inputs; or None.

    The reference runs first, with its own values. The candidate then runs with the reference's values: what an
    operator wrote is compared, and replaced. A third run, in which the candidate keeps its own values, tells how the
    error grows.
    """
    if isinstance(candidate.model, Model) and not isinstance(reference.model, Model):
        # Nodes know the operators that they come from, operators no nodes: the net is the one to be followed.
        reference, candidate = candidate, reference
    expected = _points(reference, case.inputs)
    taught = _Taught(expected, reference.model, tolerances)
    try:
        actual = _points(candidate, case.inputs, taught)
    except RunError as error:
        early = taught.first()
        return _divergence(early, case, candidate) if early else _refused(error, case, candidate)
    if isinstance(candidate.model, Model):
        taught.put_in_place(actual)
    wrong = taught.first()
    if wrong is None:
        return None
    divergence = _divergence(wrong, case, candidate, tolerances)
    growth = _growth(reference, candidate, case, expected, tolerances)
    divergence = replace(divergence, suspects=_suspects(wrong, actual, taught))
    places = [place for place, _ in growth]
    start = places.index(wrong.expected.place) if wrong.expected.place in places else 0
    divergence = replace(divergence, growth=tuple(growth[start : start + _MOST_GROWTH]))
    if repro is not None and wrong.expected.cut and wrong.actual.cut:
        from caffe2_backend.validate.repro import write_repro

        write_repro(repro, (reference.runtime.name, wrong.expected), (candidate.runtime.name, wrong.actual))
        divergence = replace(divergence, folder=str(repro))
    return divergence


class _Taught:
    """The teacher: compares what the candidate wrote with the reference's, and gives the reference's back."""

    def __init__(self, expected: Points, model: Any, tolerances: Mapping[str, Tolerance]) -> None:
        self._tolerances = tolerances
        self._turns = by_turn(expected)
        self._names: dict[Any, Point] = {}
        self._places: dict[Any, Point] = {}
        for point in expected:
            self._names[point.iterations, point.name] = point
            self._places[point.place, point.iterations, point.name] = point
        self._order = {id(point): i for i, point in enumerate(expected)}
        self._from_net = isinstance(model, Model)
        self._states = _state_blobs(model) if isinstance(model, Model) else {}
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
        return found

    def _pair(self, expected: Point, actual: Point, value: Any) -> Pair:
        return Pair(expected, actual, compare(value, actual.value, depth=_ONE_OPERATOR, tolerances=self._tolerances))

    def put_in_place(self, actual: Points) -> None:
        """For nets, once the run is over: the candidate's points with their places, and what bodies left."""
        self.pairs.clear()
        for point in actual:
            expected = self._turns.get((point.walked, point.name, point.turn))
            if expected is not None and (not point.walked or expected.place == point.place):
                self.pairs.append(self._pair(expected, point, expected.value))

    def first(self) -> Pair | None:
        """The first pair, in the order of the reference, that disagrees; operators that were gone through come last."""
        wrong = [pair for pair in self.pairs if not pair.difference.agrees]
        direct = [pair for pair in wrong if not pair.expected.walked]
        ordered = sorted(direct or wrong, key=lambda pair: self._order[id(pair.expected)])
        return ordered[0] if ordered else None


def _points(side: Side, inputs: Mapping[str, Any], taught: _Taught | None = None) -> Points:
    if isinstance(side.model, Model):
        return net_points(side.runtime, side.model, inputs, *([taught.net] if taught else []))
    return onnx_points(side.runtime, side.model, dict(inputs), taught.nodes if taught else keep)


def _suspects(wrong: Pair, actual: Points, taught: _Taught) -> tuple[str, ...]:
    """Places of the ONNX nodes that the value depends on, back to values that were compared and agree."""
    if wrong.actual.cut is not None and isinstance(wrong.actual.cut.model, Model):
        return ()
    good = {id(pair.actual) for pair in taught.pairs if pair.difference.agrees}
    end = next((i for i, point in enumerate(actual) if point is wrong.actual), 0)
    waiting, seen, places = [(wrong.actual.name, end)], set(), dict[str, None]()
    while waiting:
        name, before = waiting.pop(0)
        made = next((i for i in range(before, -1, -1) if actual[i].name == name and actual[i].cut is not None), None)
        if made is None or made in seen or id(actual[made]) in good:
            continue
        seen.add(made)
        point = actual[made]
        if point.iterations != wrong.actual.iterations[: len(point.iterations)]:
            continue  # of an iteration before: what came of it was compared there
        assert point.cut is not None
        if point.cut.model is not None:
            places[point.place] = None
        waiting += [(read, made - 1) for read in point.cut.inputs]
    return tuple(reversed(places))


def _growth(
    reference: Side, candidate: Side, case: Case, expected: Points, tolerances: Mapping[str, Tolerance]
) -> list[tuple[str, float]]:
    """The largest difference after each operator, each side with its own values."""
    table = _Taught(expected, reference.model, tolerances)
    try:
        own = _points(candidate, case.inputs)
    except RunError:
        return []  # with its own values the candidate does not come to the end
    if isinstance(candidate.model, Model):
        table.put_in_place(own)
    else:
        for point in own:
            table.nodes(point, None)
    return [(pair.expected.place, pair.difference.max_abs) for pair in table.pairs]


def _divergence(pair: Pair, case: Case, side: Side, tolerances: Mapping[str, Tolerance] = TOLERANCES) -> Divergence:
    expected, actual = pair.expected, pair.actual
    place, op_type = _common(expected, actual)
    timestep: int | None = expected.iterations[-1] if expected.iterations else None
    if timestep is None and op_type in _SEQUENCES:
        timestep = first_row(expected.value, actual.value, depth=_ONE_OPERATOR, tolerances=tolerances)
    return Divergence(
        place, op_type, expected.name, expected.iterations, timestep, case.name, side.label, pair.difference
    )


def _common(expected: Point, actual: Point) -> tuple[str, str]:
    """The operator; where the sides are in different bodies of one operator, that one: it took another branch."""
    one, other = expected.place.split(" > "), actual.place.split(" > ")
    for depth in range(1, min(len(one), len(other))):
        if one[:depth] == other[:depth] and _body_of(one[depth]) != _body_of(other[depth]):
            outer = one[depth - 1]
            return " > ".join(one[:depth]), outer.partition("] ")[2].partition(" (")[0]
    return expected.place, expected.op_type


def _body_of(part: str) -> str:
    return part.partition("[")[0]


def _refused(error: RunError, case: Case, side: Side) -> Divergence:
    difference = Difference(agrees=False, reason=f"cannot be run: {error}")
    operator = str(error).partition(": ")[0]
    return Divergence(operator, operator.partition(" ")[0], "", (), None, case.name, side.label, difference)


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
        if op.type != "RecurrentNetwork":
            continue
        net = op.args.net("step_net")
        written = {name for inner in net.op for name in inner.output} if net else set()
        links = list(zip(op.args.texts("link_internal"), op.args.texts("link_external"), strict=True))
        states = op.args.texts("recurrent_states")
        blobs = [next((i for i, e in links if e == state and i in written), "") for state in states]
        found[f"{view.name}[{op.index}] {op.type}" + (f" ({op.name})" if op.name else "")] = tuple(blobs)
    return found
