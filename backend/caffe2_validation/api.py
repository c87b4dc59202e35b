"""Public function of the validation: ``validate``; :func:`run_validation` is its outline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import onnx

from caffe2_backend.described_inputs import describe_proto
from caffe2_backend.runtime.blobs.feeding import as_value
from caffe2_backend.runtime.sessions.missing_inputs import require_inputs, require_mapping
from caffe2_backend.runtime.values import Array, DeviceTensor, Int8Tensor
from caffe2_bridge.diagnostics import BridgeError, RunError
from caffe2_bridge.diagnostics.log import muted
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.outputs import omitted_outputs
from caffe2_bridge.storage import Location, locate
from caffe2_frontend.interop.types import tensor_info
from caffe2_validation.comparison.cases import Comparison
from caffe2_validation.comparison.random_operators import draw_fills
from caffe2_validation.comparison.training_steps import (
    TrainingStep,
    given_batches,
    step_cases,
    step_options,
    training_notes,
    training_step,
)
from caffe2_validation.diagnose.diagnosis import diagnose_comparison
from caffe2_validation.forms import Forms, ModelLike, known_inputs, read_model, with_inputs, with_outputs
from caffe2_validation.inputs.find_weights import find_weights
from caffe2_validation.inputs.generate import Generated, generate
from caffe2_validation.inputs.specs import Case
from caffe2_validation.options import DEFAULTS, Described, ValidationOptions
from caffe2_validation.progress import Progress, silent
from caffe2_validation.report import ValidationReport
from caffe2_validation.runtimes import AnyModel, Runtime
from caffe2_validation.selection import select_runtimes
from caffe2_validation.sides import make_sides, versions_of
from caffe2_validation.sizes import SIZES, Size
from caffe2_validation.values import TOLERANCES, Tolerance
from caffe2_validation.versions import package_versions

_LISTED: Final = 3


def validate(
    model: ModelLike,
    inputs: Mapping[str, Any] | None = None,
    runtimes: Sequence[str | Runtime] | None = None,
    *,
    other: ModelLike | None = None,
    described: Described | None = None,
    outputs: Sequence[str] | None = None,
    every_blob: bool = False,
    matrix: bool = False,
    lockstep: bool = False,
    find_nan: bool = False,
    repro: Location | None = None,
    seed: int = 2018,
    sizes: Sequence[Size] = SIZES,
    tolerances: Mapping[str, Tolerance] = TOLERANCES,
    rtol: float | None = None,
    atol: float | None = None,
    recurrent: Any = "auto",
    target: str = "onnxruntime",
    random_weights: bool = False,
    steps: int = 3,
    caffe2_python: str | None = None,
    device: str | None = None,
) -> ValidationReport:
    """Run a model in several runtimes, or two models, and compare what each computes with what the first one computes.

    Args:
        model: a Caffe2 or ONNX model, in memory or its path. Runtimes of the other form run its conversion.
        inputs: arrays by name, or what a Predictor takes for them; None generates them from what the model declares, in
            several sizes.
        runtimes: names in ``RUNTIMES``, or objects of that interface; the first is the reference. None takes those of
            ``DEFAULT_RUNTIMES`` that are installed, the ones of the model's own form first. With ``other``, ``model``
            runs in the first of its own form, and ``other`` in the first of its own.
        other: a second model to compare with the first: its export, another version of it.
        described: what is known of the inputs, as :func:`caffe2_frontend.to_onnx` takes it.
        outputs: the outputs to compare, instead of the model's own.
        every_blob: compare every intermediate blob that both sides have under one name.
        matrix: compare every pair of sides, and not only each with the reference.
        lockstep: where sides disagree, find the first operator and step that do.
        find_nan: find the first value on the reference side that is NaN or infinite, and the operator that writes it.
        repro: a folder to write that operator to, ready to run.
        seed: of generated inputs and weights.
        sizes: of generated inputs.
        tolerances: by dtype; values of any other dtype are compared exactly.
        rtol: relative tolerance of every float dtype, at any depth; None for that of ``tolerances``.
        atol: absolute tolerance of every float dtype, at any depth; None for that of ``tolerances``.
        recurrent: the form of recurrent nets in exports.
        target: the runtime that exports are for, as :func:`caffe2_frontend.to_onnx` takes it.
        random_weights: synthesize the weights that a net lacks.
        steps: how many steps of a training net are compared, each from the reference's parameters. ``inputs`` may then
            hold arrays named ``STEP/INPUT``.
        caffe2_python: the Python that has real Caffe2; None finds it.
        device: where onnxruntime and the workspace run, ``cpu`` or ``cuda:N``; default the CPU.

    Raises:
        RunError: a named runtime is not installed, an input is not a tensor or not one of the model's, weights are
            missing, no inputs can be generated, or the results do not fit in memory.
        ConversionError: the inputs cannot be inferred from the model, or the reference needs a conversion that fails.
        OptionError: an option has a value that does not exist.
        NetFormatError, OSError: a model cannot be read.
    """
    options = ValidationOptions(
        runtimes=runtimes, described=described or {}, outputs=outputs, every_blob=every_blob, matrix=matrix,
        lockstep=lockstep, find_nan=find_nan, repro=None if repro is None else locate(repro), seed=seed, sizes=sizes,
        tolerances=tolerances, rtol=rtol, atol=atol, recurrent=recurrent, target=target, random_weights=random_weights,
        steps=steps, caffe2_python=caffe2_python, device=device,
    )  # fmt: skip
    return run_validation(model, inputs, other, options)


@muted()  # the report's notes contain the diagnostics of conversions
def run_validation(
    model: ModelLike,
    inputs: Mapping[str, Any] | None = None,
    other: ModelLike | None = None,
    options: ValidationOptions = DEFAULTS,
    progress: Progress = silent,
) -> ValidationReport:
    """Do as :func:`validate` with its options in one object; call ``progress`` with the name of each stage."""
    start = time.perf_counter()
    own, own_notes = _read(model, options)
    if inputs is not None:
        require_mapping(inputs, known_inputs(own)[0], dict)
        inputs = {name: _given(name, value) for name, value in inputs.items()}
    runtimes, missing = select_runtimes(options, "caffe2" if isinstance(own, Model) else "onnx")
    start_step = training_step(own) if options.outputs is None else None
    given = given_batches(own, inputs) if start_step is not None and inputs is not None else []
    inputs = given[0] if given else inputs
    two, second_notes = (None, []) if other is None else _read(other, options)
    _require_known(given or [inputs or {}], own, two)
    replaced = set(inputs or {}).difference(start_step.updated if start_step is not None else ())
    first, second = (
        None if model is None else Forms(with_inputs(model, replaced), options.described, inputs, options.export)
        for model in (own, two)
    )
    assert first is not None
    probe = _probe(runtimes[0], first) if runtimes and second is None else None

    progress("generating inputs" if inputs is None else "converting")
    generated = generate(first, inputs, options, probe)
    step = None if start_step is None else training_step(generated.forms.model)
    forms, cases = generated.forms, generated.cases
    if step is not None:
        step = step.starting_with(given[0] if given else {})
        forms, second = _step_forms(step, generated), _other_step(second)
        options = step_options(options)
    sides, failures, unconverted = make_sides(forms, second, runtimes, defaults=options.runtimes is None)
    steps_notes: list[str] = []
    if step is not None:
        batches = given or [case.inputs for case in generated.cases]
        cases = step_cases(step, sides[0], batches, options.steps)
        steps_notes = training_notes(step, sides, batches, cases)
    updates = {} if step is None else {output: name for name, output in step.updated.items()}
    comparison = Comparison(sides, cases, _outputs(forms), options, updates)
    try:
        comparison.run(progress)
    except MemoryError as error:
        raise RunError(f"there is not enough memory to compare the results: {error}") from None
    if options.lockstep and comparison.disagreements():
        progress("finding the first operator that disagrees")
    if options.find_nan:
        progress("finding the first NaN or infinity")
    diagnosis = diagnose_comparison(comparison)
    compared = comparison.compared_sides()
    subjects = tuple(dict.fromkeys(side.subject for side in compared))

    return ValidationReport(
        model=_name(model, generated.forms),
        reference=sides[0].label,
        sides=tuple(side.label for side in comparison.sides),
        results=tuple(comparison.results),
        failures=(*failures, *comparison.failures, *diagnosis.failures),
        absent=missing | unconverted | comparison.absent,
        versions=package_versions() | versions_of(comparison.sides),
        tolerances=options.tolerances,
        seed=options.seed if inputs is None or generated.weights else None,
        cases=tuple(case.name for case in cases),
        guessed=generated.forms.guessed,
        random_weights=generated.weights,
        notes=(
            *own_notes,
            *second_notes,
            *generated.notes,
            *steps_notes,
            *_diagnostics(forms, second),
            *comparison.notes(),
        ),
        pairs=comparison.matrix() if options.matrix else {},
        divergences=diagnosis.divergences,
        optimizations=diagnosis.optimizations,
        nonfinite=diagnosis.nonfinite,
        seconds=time.perf_counter() - start,
        subjects=subjects,
        compared_with_caffe2=any(side.is_caffe2 for side in compared),
        compared_with_net_evaluator=len(subjects) > 1 and any(side.is_evaluator for side in compared),
    )


def synthesize(model: ModelLike, options: ValidationOptions = DEFAULTS) -> Generated:
    """Synthesize inputs with which a model runs, and weights that it lacks, as a validation does.

    Raises as :func:`validate`.
    """
    read, notes = _read(model, options)
    made = generate(Forms(read, options.described), None, options)
    return replace(made, notes=(*notes, *made.notes))


def _read(model: ModelLike, options: ValidationOptions) -> tuple[AnyModel, list[str]]:
    """Return a model with the chosen outputs, an init net found by content and random fills drawn; and notes."""
    found = with_outputs(read_model(model), options.outputs)
    if not isinstance(found, Model):
        return describe_proto(found, {name: tensor_info(name, spec) for name, spec in options.described.items()}), []
    found, notes = find_weights(found, required=not options.random_weights)
    found, drawn = draw_fills(found)
    if drawn:
        listed = ", ".join(map(repr, drawn[:_LISTED])) + (", ..." if len(drawn) > _LISTED else "")
        notes.append(f"random fills of the init net, drawn once for all runtimes: {len(drawn)} ({listed})")
    return found, notes


def _given(name: str, value: Any) -> Array | Int8Tensor:
    """Return a given input on the host. Raises RunError if it is not a tensor."""
    held = as_value(name, value, copy=False)
    if isinstance(held, DeviceTensor):
        return held.numpy()
    if isinstance(held, np.ndarray | Int8Tensor):
        return held
    raise RunError(f"input {name!r} is not a tensor")


def _require_known(batches: Sequence[Mapping[str, Any]], *models: AnyModel | None) -> None:
    """Raise RunError for a name that is not an input or parameter of one of the models."""
    known = [known_inputs(model) for model in models if model is not None]
    inputs = dict.fromkeys(name for own, _ in known for name in own)
    parameters = {name for _, own in known for name in own}
    require_inputs(dict.fromkeys(name for batch in batches for name in batch), inputs, parameters)


def _step_forms(step: TrainingStep, generated: Generated) -> Forms:
    """Return one training step in both forms, exported for inputs like the generated ones."""
    before = generated.forms
    made = {**generated.cases[0].inputs, **step.initial}
    return Forms(step.model, {**before.described, **step.described}, made, before.export)


def _other_step(other: Forms | None) -> Forms | None:
    """Return the same for the second model, if it trains too."""
    step = None if other is None else training_step(other.model)
    if other is None or step is None:
        return other
    return Forms(step.model, {**other.described, **step.described}, step.initial, other.export)


def _diagnostics(*models: Forms | None) -> Iterator[str]:
    """Yield warnings and notes of the conversions of the compared models, and of the nets that are not converted."""
    for forms in models:
        if forms is not None:
            net = forms.model.predict_net if isinstance(forms.model, Model) else NetDef()
            yield from map(str, forms.diagnostics or omitted_outputs(net))


def _probe(reference: Runtime, forms: Forms) -> Callable[[Case], str] | None:
    """Return a function that tells why the reference refuses a case of the net; None if it does not run nets."""
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


def _outputs(forms: Forms) -> tuple[str, ...]:
    """Return the names of the model's outputs: the declared ones, else those of its export."""
    model = forms.model
    if isinstance(model, Model) and model.outputs:
        return model.outputs
    return tuple(value.name for value in forms.graph.graph.output)


def _name(given: ModelLike, forms: Forms) -> str:
    model = forms.model
    if isinstance(model, Model):
        return model.source or model.predict_net.name or "net"
    return model.graph.name if isinstance(given, onnx.ModelProto) else str(given)
