"""The comparison: every case on every side, and every value against the reference's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import Model
from caffe2_validation.comparison.outvoting import outvoted, weaker, witnesses
from caffe2_validation.comparison.random_operators import random_values
from caffe2_validation.comparison.structure import depths, every_value
from caffe2_validation.comparison.update_difference import update_difference
from caffe2_validation.inputs.specs import Case
from caffe2_validation.options import ValidationOptions
from caffe2_validation.progress import Progress, silent
from caffe2_validation.report import BlobResult, Failure, PairDifference
from caffe2_validation.runtimes import Loaded, Value
from caffe2_validation.runtimes.time_budget import OutOfTimeError
from caffe2_validation.sides import Side
from caffe2_validation.values import Difference, compare, same_kind


@dataclass
class Comparison:
    """The values of all sides and cases, and their differences.

    Attributes:
        sides: the sides, the reference first.
        cases: the inputs.
        outputs: names of the model's outputs.
        options: of the validation.
        updates: the outputs that are updated inputs of a training step, with the names of the inputs.
        values: by side and case, those that ran.
        results: the differences from the reference.
        failures: what could not run.
        absent: the optional sides that cannot load the model, with the reason; they are no longer in ``sides``.
    """

    sides: Sequence[Side]
    cases: Sequence[Case]
    outputs: Sequence[str]
    options: ValidationOptions
    updates: Mapping[str, str] = field(default_factory=dict)
    values: dict[tuple[str, str], dict[str, Value]] = field(default_factory=dict)
    results: list[BlobResult] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._depths = depths(self.sides[0].model)
        # A side may draw what another one computes: a value is random if it is so on any side.
        self._random = frozenset[str]().union(*(random_values(side.model) for side in self.sides))
        self._one_sided: dict[tuple[str, str], dict[str, None]] = {}
        self._left_out: list[str] = []

    @property
    def reference(self) -> Side:
        """The side that the others are compared with."""
        return self.sides[0]

    def run(self, progress: Progress = silent) -> None:
        """Run every case on every side, and compare with the reference."""
        for side in self.sides:
            progress(f"running {side.label}")
            self._run_side(side)
        self.sides = [side for side in self.sides if side.label not in self.absent]
        progress("comparing")
        for case in self.cases:
            expected = self.values.get((self.reference.label, case.name))
            for side in self.sides[1:]:
                actual = self.values.get((side.label, case.name))
                if expected is not None and actual is not None:
                    self._compare(case, side, expected, actual)
        pair = witnesses(self.sides)
        if pair is not None:
            self._outvote(pair)

    def _run_side(self, side: Side) -> None:
        model, wanted = side.model, list(self.outputs)
        if self.options.every_blob and isinstance(model, Model):
            written = (name for op in model.predict_net.op for name in op.output)
            wanted = list(dict.fromkeys([*self.outputs, *written]))
        elif self.options.every_blob and not isinstance(model, Model):
            model = every_value(model)
            wanted = [value.name for value in model.graph.output]
        if not isinstance(model, Model):
            known = {value.name for value in model.graph.output}
            wanted = [name for name in wanted if name in known]
        try:
            loaded: Loaded = side.runtime.load(model)
        except BridgeError as error:
            if side.is_optional:
                self.absent[side.label] = _first_line(error)
            else:
                self.failures.append(Failure("*", side.label, str(error)))
            return
        for case in self.cases:
            try:
                self.values[side.label, case.name] = loaded.run(case.inputs, wanted or None)
            except BridgeError as error:
                if side.is_optional or isinstance(error, OutOfTimeError):
                    self._left_out.append(f"{side.label}, from case {case.name} on: {_first_line(error)}")
                    return
                self.failures.append(Failure(case.name, side.label, str(error)))

    def _outvote(self, pair: tuple[str, str]) -> None:
        """Let weaker sides not count where the ``pair`` of sides agrees."""
        weak = weaker(self.sides, pair)
        for i, result in enumerate(self.results):
            if not result.difference.agrees and weak.intersection((result.side, self.reference.label)):
                case = next(case for case in self.cases if case.name == result.case)
                if self._agree(pair, case, [result.name]):
                    self.results[i] = outvoted(result, pair)
        for failure in [each for each in self.failures if each.side in weak - {self.reference.label}]:
            cases = [case for case in self.cases if failure.case in ("*", case.name)]
            if all(self._agree(pair, case, self.outputs) for case in cases):
                self.failures.remove(failure)
                self._left_out.append(f"{failure.side}, {failure.case}: {failure.reason}")

    def _agree(self, pair: tuple[str, str], case: Case, names: Sequence[str]) -> bool:
        """Whether two sides ran a case and agree on values, of which each has at least one."""
        one, other = (self.values.get((label, case.name), {}) for label in pair)
        shared = [name for name in names if name in one and name in other]
        return bool(shared) and all(self._judged(case, name, one, other).agrees for name in shared)

    def _compare(self, case: Case, side: Side, expected: Mapping[str, Value], actual: Mapping[str, Value]) -> None:
        compared = 0
        for name in expected:
            is_output = name in self.outputs
            if name in actual:
                difference = self._judged(case, name, expected, actual)
                depth = self._depths.get(name, 0)
                self.results.append(BlobResult(case.name, side.label, name, depth, is_output, difference))
                compared += is_output
            elif is_output:
                self._one_sided.setdefault((self.reference.label, side.label), {})[name] = None
        missing = [name for name in self.outputs if name not in expected and name in actual]
        if missing:
            self._one_sided.setdefault((side.label, self.reference.label), {}).update(dict.fromkeys(missing))
        if not compared:
            reason = f"it and {self.reference.label} have no output in common"
            self.failures.append(Failure(case.name, side.label, reason))

    def _judged(self, case: Case, name: str, expected: Mapping[str, Value], actual: Mapping[str, Value]) -> Difference:
        plain = self.difference(name, expected[name], actual[name])
        return self._of_update(case, name, plain, expected, actual) if name in self.updates else plain

    def _of_update(
        self, case: Case, name: str, plain: Difference, expected: Mapping[str, Value], actual: Mapping[str, Value]
    ) -> Difference:
        """Return the verdict on the change of an updated blob, unless the caller chose the tolerances."""
        blob = self.updates[name]
        if name in self._random or self.options.rtol is not None or self.options.atol is not None:
            return plain
        gradient = expected.get(f"{blob}_grad")
        return update_difference(plain, case.inputs[blob], expected[name], actual[name], gradient)

    def difference(self, name: str, expected: Value, actual: Value) -> Difference:
        """Return how a value differs; random values are compared by shape and dtype."""
        if name in self._random:
            return same_kind(expected, actual)
        return compare(expected, actual, depth=self._depths.get(name, 0), tolerances=self.options.tolerances)

    def agrees(self, expected: Mapping[str, Value], actual: Mapping[str, Value]) -> bool:
        """Whether all outputs that both have agree."""
        shared = [name for name in self.outputs if name in expected and name in actual]
        return all(self.difference(name, expected[name], actual[name]).agrees for name in shared)

    def disagreements(self) -> list[tuple[str, str]]:
        """Return the first (case, side) of each side that disagrees with the reference."""
        first: dict[str, str] = {}
        for result in self.results:
            if not result.difference.agrees and not result.outvoted:
                first.setdefault(result.side, result.case)
        return [(case, side) for side, case in first.items()]

    def compared_sides(self) -> list[Side]:
        """Return the sides whose output values were compared: the reference, and those that were compared with it."""
        compared = {result.side for result in self.results if result.is_output and result.difference.compared}
        return [side for side in self.sides if side.label in compared or (compared and side is self.reference)]

    def matrix(self) -> dict[tuple[str, str], PairDifference]:
        """Return the largest difference of any output, for every pair of sides."""
        labels = [side.label for side in self.sides]
        return {(one, other): self._pair(one, other) for one in labels for other in labels}

    def _pair(self, one: str, other: str) -> PairDifference:
        worst, agrees, compared = 0.0, True, False
        for case in self.cases:
            a, b = self.values.get((one, case.name)), self.values.get((other, case.name))
            if a is None or b is None:
                continue
            for name in self.outputs:
                if name not in a or name not in b:
                    continue
                difference = self.difference(name, a[name], b[name])
                compared = compared or difference.compared
                if not difference.agrees and not difference.max_abs:
                    return PairDifference(None, agrees=False)
                agrees = agrees and difference.agrees
                worst = max(worst, difference.max_abs)
        return PairDifference(worst, agrees) if compared else PairDifference()

    def notes(self) -> list[str]:
        """Return what a reader should know about the comparison."""
        left_out = (f"left out of the comparison: {what}" for what in self._left_out)
        return [*self._random_notes(), *self._hollow_notes(), *left_out, *self._one_sided_notes(), *self._step_notes()]

    def _random_notes(self) -> Iterator[str]:
        random = [name for name in self.outputs if name in self._random]
        if random:
            yield f"random values, of which only shape and dtype are compared: {_listed(random)}"

    def _hollow_notes(self) -> Iterator[str]:
        compared = {result.name for result in self.results if result.difference.compared}
        outputs = dict.fromkeys(result.name for result in self.results if result.is_output)
        hollow = [name for name in outputs if name not in compared and name not in self._random]
        if hollow:
            yield f"without a number to compare, because none is finite or there are no elements: {_listed(hollow)}"

    def _one_sided_notes(self) -> Iterator[str]:
        for (one, other), names in self._one_sided.items():
            yield f"left out of the comparison: {one} returns {_listed(names)}, and {other} does not"
        returned = {name for values in self.values.values() for name in values}
        nowhere = [name for name in self.outputs if name not in returned]
        if nowhere and self.values:
            yield f"left out of the comparison: no side returns {_listed(nowhere)}"

    def _step_notes(self) -> Iterator[str]:
        noted = {(r.side, r.name): r.difference.note for r in self.results if r.is_output and r.difference.note}
        for (side, name), note in noted.items():
            yield f"{name!r} agrees within one quantization step ({side}): {note}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _first_line(error: Exception) -> str:
    """Return the first finding of an error that lists several."""
    return str(error).partition("\n")[0]
