"""The validation's front door."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import onnx

from caffe2_backend.validation.compare import TOLERANCES, Difference, Tolerance, compare, same_kind
from caffe2_backend.validation.diagnose.optimizations import OptimizationFault, find_optimization
from caffe2_backend.validation.inputs.generate import generate
from caffe2_backend.validation.inputs.specs import SIZES, Case, Size
from caffe2_backend.validation.report import BlobResult, Divergence, Failure, Pair, ValidationReport
from caffe2_backend.validation.runtimes import RUNTIMES, Loaded, Runtime, Value, find_runtime
from caffe2_backend.validation.sides import (
    Described,
    Forms,
    ModelLike,
    Side,
    depths,
    every_value,
    random_values,
    read_model,
)
from caffe2_bridge.diagnostics import BridgeError, RunError
from caffe2_bridge.diagnostics.log import muted
from caffe2_bridge.model import Model

DEFAULT_RUNTIMES: Final = ("caffe2", "onnxruntime-cpu", "onnx-reference")


@muted()  # the report's notes hold the diagnostics
def validate(
    model: ModelLike,
    inputs: Mapping[str, Any] | None = None,
    runtimes: Sequence[str | Runtime] | None = None,
    *,
    other: ModelLike | None = None,
    described: Described | None = None,
    every_blob: bool = False,
    matrix: bool = False,
    lockstep: bool = False,
    repro: str | None = None,
    seed: int = 2018,
    sizes: Sequence[Size] = SIZES,
    tolerances: Mapping[str, Tolerance] = TOLERANCES,
    recurrent: Any = "auto",
    random_weights: bool = False,
    caffe2_python: str | None = None,
) -> ValidationReport:
    """Run a model in several runtimes, or two models, and compare what they give with what the first one gives.

    Args:
        model: a model of Caffe2 or ONNX, in memory or the path of one. Runtimes of the other form run its conversion.
        inputs: arrays by name; None generates them from what the model says, in several sizes.
        runtimes: names in ``RUNTIMES``, or objects of that interface; the first is the reference. None takes
            ``DEFAULT_RUNTIMES`` as far as they are here, those of the model's own form first. With ``other``, ``model``
            runs in the first of those of its own form, and ``other`` in the first of its own.
        other: a second model to compare with the first: its export, another version of it.
        described: what is known of the inputs, as :func:`caffe2_frontend.to_onnx` takes it.
        every_blob: compare every blob in between that both sides have under one name.
        matrix: compare every pair of sides, not only each with the reference.
        lockstep: where sides disagree, find the first operator and step that do.
        repro: a folder in which to put what the lock step found, ready to run.
        seed: of generated inputs.
        sizes: what to generate.
        tolerances: by dtype; what is not in it is compared exactly.
        recurrent: the form of recurrent nets in exports.
        random_weights: make up the weights that a net lacks, from ``seed``.
        caffe2_python: the Python that has real Caffe2, where it is not to be found.

    Raises:
        RunError: a runtime that is named is not here, weights are missing, or no inputs can be generated.
        ConversionError: the model's inputs cannot be told from the model, or a reference needs a conversion that fails.
        NetFormatError, OSError: a model cannot be read.
    """
    start = time.perf_counter()
    chosen, absent = _runtimes(runtimes, caffe2_python)
    first = Forms(read_model(model), described, inputs, recurrent)
    if runtimes is None and not isinstance(first.model, Model):
        chosen.sort(key=lambda runtime: runtime.form != "onnx")  # the reference runs the model itself, not its import
    second = None if other is None else Forms(read_model(other), described, inputs, recurrent)
    probe = _probe(chosen[0], first) if chosen and second is None else None
    made = generate(first, inputs, seed=seed, sizes=sizes, random_weights=random_weights, probe=probe)
    first, cases = made.forms, made.cases
    sides, failures = _sides(first, second, chosen)
    outputs = _outputs(first)
    run = _Run(sides, cases, outputs, every_blob=every_blob, tolerances=tolerances)
    run.everything()
    failures += run.failures
    divergences: list[Divergence] = []
    optimizations: list[OptimizationFault] = []
    if lockstep:
        from caffe2_backend.validation.lockstep.lockstep import find_divergences

        wrong = run.wrong_pairs()
        try:
            divergences = find_divergences(sides, cases, wrong, tolerances=tolerances, repro=repro)
            told = {(found.case, found.side) for found in divergences}
            optimizations = run.optimizations([pair for pair in wrong if pair not in told])
        except BridgeError as error:  # an operator that the reference cannot run by itself: the outputs still tell
            failures.append(Failure("*", "lock step", str(error)))
    return ValidationReport(
        model=_name(model, first), reference=sides[0].label, sides=tuple(side.label for side in sides),
        results=tuple(run.results), failures=tuple(failures), absent=absent, versions=_versions(sides),
        seed=seed if inputs is None or made.weights else None, random_weights=made.weights,
        notes=(*made.notes, *_diagnostics(first, second), *run.notes()),
        cases=tuple(case.name for case in cases), guessed=first.guessed,
        pairs=run.pairs() if matrix else {}, divergences=tuple(divergences),
        optimizations=tuple(optimizations), seconds=time.perf_counter() - start,
    )  # fmt: skip


def _diagnostics(*forms: Forms | None) -> Iterator[str]:
    """The warnings and notes of the conversions of the models that are compared."""
    for form in forms:
        yield from map(str, () if form is None else form.diagnostics)


def _runtimes(named: Sequence[str | Runtime] | None, python: str | None) -> tuple[list[Runtime], dict[str, str]]:
    if named is not None:
        return [find_runtime(r, caffe2_python=python) if isinstance(r, str) else r for r in named], {}
    found, absent = [], {}
    for name in DEFAULT_RUNTIMES:
        try:
            found.append(find_runtime(name, caffe2_python=python))
        except RunError as error:
            absent[name] = str(error)
    return found, absent


def _probe(reference: Runtime, forms: Forms) -> Callable[[Case], str] | None:
    """Why the reference does not run a case of the net; None where the reference runs no nets."""
    model = forms.model
    if reference.form != "caffe2" or not isinstance(model, Model):
        return None

    def refusal(case: Case) -> str:
        try:
            reference.load(model).run(case.inputs)
        except BridgeError as error:
            return str(error)
        return ""

    return refusal


def _sides(first: Forms, second: Forms | None, runtimes: Sequence[Runtime]) -> tuple[list[Side], list[Failure]]:
    if not runtimes:
        raise RunError(f"no runtime to compare: there are {', '.join(RUNTIMES)}")
    if second is not None:
        one, two = _own_runtime(first, runtimes), _own_runtime(second, runtimes)
        return [
            Side(f"model in {one.name}", one, first.take(one)),
            Side(f"other in {two.name}", two, second.take(two)),
        ], []
    sides: list[Side] = []
    failures: list[Failure] = []
    for index, runtime in enumerate(runtimes):
        try:
            taken = sum(side.runtime.name == runtime.name for side in sides)
            label = f"{runtime.name} {taken + 1}" if taken else runtime.name
            sides.append(Side(label, runtime, first.take(runtime)))
        except BridgeError as error:
            if index == 0:
                raise
            failures.append(Failure("*", runtime.name, str(error)))
    return sides, failures


def _own_runtime(forms: Forms, runtimes: Sequence[Runtime]) -> Runtime:
    form = "caffe2" if isinstance(forms.model, Model) else "onnx"
    return next((runtime for runtime in runtimes if runtime.form == form), runtimes[0])


def _outputs(forms: Forms) -> tuple[str, ...]:
    """The names of the model's outputs: those declared, else what its export gives."""
    model = forms.model
    if isinstance(model, Model) and model.outputs:
        return model.outputs
    return tuple(value.name for value in forms.graph.graph.output)


def _name(given: ModelLike, forms: Forms) -> str:
    model = forms.model
    if isinstance(model, Model):
        return model.source or model.predict_net.name or "net"
    return model.graph.name if isinstance(given, onnx.ModelProto) else str(given)


def _versions(sides: Sequence[Side]) -> dict[str, str]:
    found: dict[str, str] = {}
    for side in sides:
        try:
            found.update(side.runtime.versions())
        except RunError as error:
            found[side.runtime.name] = str(error)
    return found


class _Run:
    """Every case on every side, and the comparisons."""

    def __init__(
        self,
        sides: Sequence[Side],
        cases: Sequence[Case],
        outputs: Sequence[str],
        *,
        every_blob: bool,
        tolerances: Mapping[str, Tolerance],
    ) -> None:
        self._sides, self._cases, self._outputs = sides, cases, list(outputs)
        self._every, self._tolerances = every_blob, tolerances
        self._found: dict[tuple[str, str], dict[str, Value]] = {}
        self._depths = depths(sides[0].model)
        self._drawn = random_values(sides[0].model)
        self.results: list[BlobResult] = []
        self.failures: list[Failure] = []

    def notes(self) -> Iterator[str]:
        """What a reader should know of the comparisons."""
        drawn = [name for name in self._outputs if name in self._drawn]
        if drawn:
            yield f"drawn at random, compared by shape and dtype alone: {', '.join(drawn)}"

    def everything(self) -> None:
        """Run, then compare with the reference."""
        for side in self._sides:
            self._run_side(side)
        reference = self._sides[0].label
        for case in self._cases:
            expected = self._found.get((reference, case.name))
            for side in self._sides[1:]:
                actual = self._found.get((side.label, case.name))
                if expected is not None and actual is not None:
                    self._compare(case, side, expected, actual)

    def _run_side(self, side: Side) -> None:
        model, wanted = side.model, self._outputs
        if self._every and isinstance(model, Model):
            written = (name for op in model.predict_net.op for name in op.output)
            wanted = list(dict.fromkeys([*self._outputs, *written]))
        elif self._every and not isinstance(model, Model):
            model = every_value(model)
            wanted = [value.name for value in model.graph.output]
        try:
            loaded: Loaded = side.runtime.load(model)
        except BridgeError as error:
            self.failures.append(Failure("*", side.label, str(error)))
            return
        for case in self._cases:
            try:
                self._found[side.label, case.name] = loaded.run(case.inputs, wanted)
            except BridgeError as error:
                self.failures.append(Failure(case.name, side.label, str(error)))

    def _compare(self, case: Case, side: Side, expected: Mapping[str, Value], actual: Mapping[str, Value]) -> None:
        for name, value in expected.items():
            is_output = name in self._outputs
            if name not in actual:
                if is_output:
                    self.failures.append(Failure(case.name, side.label, f"gives no output {name!r}"))
                continue
            depth = self._depths.get(name, 0)
            difference = self._difference(name, value, actual[name])
            self.results.append(BlobResult(case.name, side.label, name, depth, is_output, difference))
        for name in self._outputs:
            if name not in expected and name in actual:
                self.failures.append(Failure(case.name, self._sides[0].label, f"gives no output {name!r}"))

    def _difference(self, name: str, expected: Value, actual: Value) -> Difference:
        if name in self._drawn:
            return same_kind(expected, actual)
        return compare(expected, actual, depth=self._depths.get(name, 0), tolerances=self._tolerances)

    def wrong_pairs(self) -> list[tuple[str, str]]:
        """The cases and sides whose outputs disagree with the reference's, each side with its first such case."""
        pairs: dict[str, str] = {}
        for result in self.results:
            if not result.difference.agrees:
                pairs.setdefault(result.side, result.case)
        return [(case, side) for side, case in pairs.items()]

    def optimizations(self, pairs: Sequence[tuple[str, str]]) -> list[OptimizationFault]:
        """Of cases and sides that disagree: what onnxruntime's optimizations have to do with it, on either side."""
        found = []
        for case in self._cases:
            for side in self._sides[1:]:
                if (case.name, side.label) not in pairs:
                    continue
                for one, other in ((side, self._sides[0]), (self._sides[0], side)):
                    right = self._found[other.label, case.name]
                    fault = find_optimization(one, case, partial(self._agree, right))
                    found += [fault] if fault is not None else []
        return found

    def _agree(self, right: Mapping[str, Value], values: Mapping[str, Value]) -> bool:
        shared = [name for name in self._outputs if name in right and name in values]
        return all(self._difference(name, right[name], values[name]).agrees for name in shared)

    def pairs(self) -> dict[tuple[str, str], Pair]:
        """How far the outputs of any case are apart, for each pair of sides."""
        labels = [side.label for side in self._sides]
        return {(one, other): self._pair(one, other) for one in labels for other in labels}

    def _pair(self, one: str, other: str) -> Pair:
        worst, agrees, ran = 0.0, True, False
        for case in self._cases:
            a, b = self._found.get((one, case.name)), self._found.get((other, case.name))
            if a is None or b is None:
                continue
            ran = True
            for name in self._outputs:
                if name not in a and name not in b:
                    continue
                if name not in a or name not in b:
                    return Pair(None, agrees=False)
                difference = self._difference(name, a[name], b[name])
                if not difference.agrees and not difference.max_abs:
                    return Pair(None, agrees=False)
                agrees = agrees and difference.agrees
                worst = max(worst, difference.max_abs)
        return Pair(worst, agrees) if ran else Pair()
