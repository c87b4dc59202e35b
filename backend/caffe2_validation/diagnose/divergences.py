"""Lockstep: both sides run operator by operator on the same values, to find the first operator that disagrees.

Three runs: the reference with its own values; the candidate with the reference's values fed to it, in which each
operator is judged alone; the candidate with its own values, which shows how the error grows. The order of values
differs between a net and an ONNX model, as operators are fused and split: values are paired by location (see
ReferenceFeeder), and nodes without a counterpart before the first disagreement are suspects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model
from caffe2_bridge.storage import AnyPath
from caffe2_frontend.interop.operators import LOOPS, RECURRENT
from caffe2_validation.diagnose.node_origins import first_step
from caffe2_validation.inputs.specs import Case
from caffe2_validation.lockstep.reference_feeder import PointPair, ReferenceFeeder, points_of
from caffe2_validation.lockstep.steps import Point, Points
from caffe2_validation.options import ValidationOptions
from caffe2_validation.report import Divergence
from caffe2_validation.sides import Side
from caffe2_validation.values import TOLERANCES, Difference, Tolerance

_MOST_GROWTH: Final = 400
_SEQUENCES: Final = LOOPS.union(RECURRENT, {"RecurrentNetwork", "Recurrent"})


def find_divergences(
    sides: Sequence[Side],
    cases: Sequence[Case],
    wrong: Sequence[tuple[str, str]],
    options: ValidationOptions,
) -> list[Divergence]:
    """Find the first operators at which sides disagree with the reference, the first of ``sides``.

    Args:
        sides: the sides.
        cases: what they ran on.
        wrong: (case, side) to examine.
        options: ``tolerances``, and ``repro``, a folder for the operators.

    Raises RunError if an operator of the reference cannot be run on its own.
    """
    known = {case.name: case for case in cases}
    labels = {side.label: side for side in sides}
    found = []
    for index, (case, label) in enumerate(wrong):
        folder = None if options.repro is None else options.repro / f"{index}-{label.replace(' ', '-')}"
        divergence = lock_step(sides[0], labels[label], known[case], tolerances=options.tolerances, repro=folder)
        if divergence is not None:
            found.append(divergence)
    return found


def lock_step(
    reference: Side,
    candidate: Side,
    case: Case,
    *,
    tolerances: Mapping[str, Tolerance] = TOLERANCES,
    repro: AnyPath | None = None,
) -> Divergence | None:
    """Return the first operator of ``candidate`` whose results differ from ``reference`` for equal inputs, or None.

    If one side is a net and the other an ONNX model, a second stage finds the operator of the net and the cause (see
    explain).

    Args:
        reference: the side that is right.
        candidate: the side to examine.
        case: the inputs.
        tolerances: by dtype.
        repro: folder to write the operator to, ready to run.

    Raises RunError if an operator of the reference cannot be run on its own.
    """
    if isinstance(candidate.model, Model) and not isinstance(reference.model, Model):
        # Nodes record the operators that they come from, and not vice versa: the net must be the reference.
        reference, candidate = candidate, reference
    expected = points_of(reference, case.inputs)
    feeder = ReferenceFeeder(expected, reference.model, candidate.model, tolerances)
    try:
        actual = points_of(candidate, case.inputs, feeder)
    except RunError as error:
        early = feeder.first()
        found = _divergence(early, case, candidate, expected, tolerances) if early else _refused(error, case, candidate)
        return _explained(reference, candidate, case, expected, found, tolerances)[0]
    if isinstance(candidate.model, Model):
        feeder.pair_with(actual)
    wrong = feeder.first()
    if wrong is None:
        return None
    divergence = _divergence(wrong, case, candidate, expected, tolerances)
    growth = _growth(reference, candidate, case, expected, tolerances)
    divergence = replace(divergence, suspects=_suspects(wrong, actual, feeder))
    places = [place for place, _ in growth]
    start = places.index(wrong.expected.place) if wrong.expected.place in places else 0
    divergence = replace(divergence, growth=tuple(growth[start : start + _MOST_GROWTH]))
    runtimes = reference.runtime.name, candidate.runtime.name
    divergence, nodes = _explained(reference, candidate, case, expected, divergence, tolerances)
    if nodes is not None:
        wrong, runtimes = nodes, (candidate.runtime.name, candidate.runtime.name)
    if repro is not None and wrong.expected.cut and wrong.actual.cut:
        from caffe2_validation.lockstep.repro import write_repro

        write_repro(repro, (runtimes[0], wrong.expected), (runtimes[1], wrong.actual))
        divergence = replace(divergence, folder=str(repro))
    return divergence


def _explained(
    reference: Side,
    candidate: Side,
    case: Case,
    expected: Points,
    found: Divergence,
    tolerances: Mapping[str, Tolerance],
) -> tuple[Divergence, PointPair | None]:
    """See explain, for a net and an ONNX model; other divergences are returned as they are."""
    if not isinstance(reference.model, Model) or isinstance(candidate.model, Model):
        return found, None
    from caffe2_validation.diagnose.explain import explain

    return explain(reference, candidate, case, expected, found, tolerances)


def _suspects(wrong: PointPair, actual: Points, feeder: ReferenceFeeder) -> tuple[str, ...]:
    """Return the locations of the ONNX nodes that the value depends on, back to values that agree.

    A backwards search over what the cuts read; it ends at values that were compared and agree.
    """
    if wrong.actual.cut is not None and isinstance(wrong.actual.cut.model, Model):
        return ()
    good = {id(pair.actual) for pair in feeder.pairs if pair.difference.agrees}
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
            continue  # of an earlier iteration, whose results were compared there
        assert point.cut is not None
        if point.cut.model is not None:
            places[point.place] = None
        waiting += [(read, made - 1) for read in point.cut.inputs]
    return tuple(reversed(places))


def _growth(
    reference: Side, candidate: Side, case: Case, expected: Points, tolerances: Mapping[str, Tolerance]
) -> list[tuple[str, float]]:
    """Return the largest difference after each operator, each side with its own values."""
    table = ReferenceFeeder(expected, reference.model, candidate.model, tolerances)
    try:
        own = points_of(candidate, case.inputs)
    except RunError:
        return []  # with its own values the candidate does not run to the end
    if isinstance(candidate.model, Model):
        table.pair_with(own)
    else:
        for point in own:
            table.feed_node(point, None)
    return [(pair.expected.place, pair.difference.max_abs) for pair in table.pairs]


def _divergence(
    pair: PointPair, case: Case, side: Side, points: Points, tolerances: Mapping[str, Tolerance]
) -> Divergence:  # fmt: skip
    expected, actual = pair.expected, pair.actual
    place, op_type = _common(expected, actual)
    timestep: int | None = expected.iterations[-1] if expected.iterations else None
    if timestep is None and op_type in _SEQUENCES:
        timestep = first_step(points, place, [(expected.value, actual.value)], tolerances)
    return Divergence(
        place, op_type, expected.name, expected.iterations, timestep, case.name, side.label, pair.difference
    )


def _common(expected: Point, actual: Point) -> tuple[str, str]:
    """Return the operator; if the sides are in different bodies of one operator, that one: it took another branch."""
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
