"""Cases of a model: free sizes if the model runs with them, else sizes that are searched for, else synthesized inputs.

Three ways, from the fastest to the most thorough:

1. Shapes that the model declares, open dims chosen freely (``specs``).
2. Synthesis: the net runs operator by operator, and each operand that is missing is made with a shape that the operator
   accepts (``synthesize``).
3. Search: sizes are tried in onnxruntime, and those kept with which more nodes run (``size_search``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from caffe2_bridge.diagnostics import BridgeError, ConversionError, OptionError, RunError
from caffe2_bridge.diagnostics.listing import listed
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.parameters import Int8Tensor
from caffe2_bridge.netdef.views import NetView
from caffe2_frontend import check
from caffe2_frontend.interop.types import tensor_info
from caffe2_validation.forms import Forms
from caffe2_validation.inputs.implied_sizes import implied_sizes
from caffe2_validation.inputs.size_search import IMAGES, Trial, find_sizes
from caffe2_validation.inputs.specs import Case, Layout, given_case, make_cases
from caffe2_validation.inputs.synthesize import StuckError
from caffe2_validation.inputs.synthesized_cases import synthesize_cases
from caffe2_validation.inputs.weights import CONVOLUTIONS, LAYERS, PER_CHANNEL, is_weight
from caffe2_validation.options import DEFAULTS, Described, ValidationOptions

_LISTED: Final = 3
# Returns why the reference refuses a case; empty if it runs.
Probe = Callable[[Case], str]
_HINT: Final = "give the init net (--init), or synthesize the weights (--random-weights)"


@dataclass(frozen=True)
class Generated:
    """What a model is to run on.

    Attributes:
        forms: the model, with the weights that were synthesized.
        cases: the inputs.
        weights: names of the weights that were synthesized.
        notes: what a reader of the report should know.
    """

    forms: Forms
    cases: Sequence[Case]
    weights: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def missing_weights(model: Model) -> tuple[str, ...]:
    """Return the inputs of a net that its operators read as weights of convolutions, layers and normalizations."""
    inputs = set(model.inputs)
    found: dict[str, None] = {}
    for op in NetView(model.predict_net).ops:
        if op.type in CONVOLUTIONS | LAYERS | PER_CHANNEL:
            found.update(dict.fromkeys(n for i, n in enumerate(op.inputs) if n in inputs and is_weight(op, i)))
    return tuple(found)


def generate(
    forms: Forms,
    inputs: Mapping[str, Any] | None = None,
    options: ValidationOptions = DEFAULTS,
    probe: Probe | None = None,
) -> Generated:
    """Generate inputs for a model, and weights if those are missing and the options allow it.

    Args:
        forms: the model.
        inputs: the inputs, if they are given.
        options: ``seed``, ``sizes`` and ``random_weights``.
        probe: asked if the model runs in onnxruntime, which broadcasts operands that Caffe2 refuses.

    Raises:
        ConversionError: the net does not convert.
        OptionError: an input that is given is not as it is described.
        RunError: weights are missing, or no inputs were found with which the model runs.
    """
    _require_as_described(inputs or {}, options.described)
    net = forms.model if isinstance(forms.model, Model) else None
    missing = () if net is None else missing_weights(net)
    if net is not None and options.random_weights and missing:
        _require_covered(net)
        return _synthesized(forms, net, inputs or {}, options)
    if inputs is not None:
        return Generated(forms, [given_case(inputs)])
    return _without_inputs(forms, net, missing, options, probe)


def _without_inputs(
    forms: Forms, net: Model | None, missing: Sequence[str], options: ValidationOptions, probe: Probe | None
) -> Generated:
    try:
        cases = make_cases(forms.graph, net, seed=options.seed, sizes=options.sizes)
    except (ConversionError, RunError) as error:
        if net is None or missing or not (_is_about_shapes(error) or net.init.placeholders):
            raise
        try:
            return _synthesized(forms, net, {}, options)
        except StuckError as stuck:
            raise RunError(f"no inputs were found with which the model runs: {stuck}") from error
    try:
        trial = Trial(forms.graph)
    except RunError:  # onnxruntime is missing, or refuses the model: the runtimes of the validation will report it
        return Generated(forms, _of_implied_images(forms, net, options) or cases)
    if any(trial.run(case)[1] for case in cases):
        _require_weights(missing)
        return _searched(forms, net, trial, cases, options)
    if probe is not None and net is not None and not missing and cases and probe(cases[-1]):
        return _accepted(forms, net, cases, options, probe)
    return Generated(forms, cases)


def _accepted(forms: Forms, net: Model, cases: Sequence[Case], options: ValidationOptions, probe: Probe) -> Generated:
    """Return synthesized cases if the reference runs those, else the given cases."""
    try:
        made = _synthesized(forms, net, {}, options)
    except StuckError:
        return Generated(forms, cases)
    return Generated(forms, cases) if probe(made.cases[0]) else made


def _searched(
    forms: Forms, net: Model | None, trial: Trial, cases: Sequence[Case], options: ValidationOptions
) -> Generated:
    """Return synthesized cases, else cases of sizes that run, else the given cases."""
    if net is not None:
        try:
            return _synthesized(forms, net, {}, options)
        except StuckError:
            pass
    images = _implied_images(forms)
    for size in options.sizes[:2]:
        found = find_sizes(forms.graph, net, trial, seed=options.seed, size=size, images=images)
        if found.fixed is not None:
            made = make_cases(forms.graph, net, seed=options.seed, sizes=options.sizes, fixed=found.fixed)
            reasons = {case.name: trial.run(case)[1] for case in made}
            fixed = ", ".join(f"{name}={size}" for name, size in found.fixed.items())
            notes = [f"the model fixes sizes: {fixed}"] if fixed else []
            notes += [f"left out {name}: {reason}" for name, reason in reasons.items() if reason]
            return Generated(forms, [case for case in made if not reasons[case.name]], notes=tuple(notes))
    note = f"no sizes of the inputs were found with which the model runs: {found.reason}"
    return Generated(forms, cases, notes=(note,))


def _implied_images(forms: Forms) -> Sequence[tuple[int, int]]:
    """Return the sizes of images that the model implies, an ONNX model by its import; none if it cannot be imported."""
    try:
        return implied_sizes(forms.net, IMAGES).images
    except BridgeError:
        return ()


def _of_implied_images(forms: Forms, net: Model | None, options: ValidationOptions) -> Sequence[Case]:
    """Return cases with the likeliest size of images that the model implies; none if it implies none."""
    for image in _implied_images(forms)[:1]:
        fixed = Layout(forms.graph, net, {}).image_sides(*image)
        return make_cases(forms.graph, net, seed=options.seed, sizes=options.sizes, fixed=fixed)
    return ()


def _synthesized(forms: Forms, net: Model, given: Mapping[str, Any], options: ValidationOptions) -> Generated:
    made = synthesize_cases(net, forms.described, given, options)
    whole = Forms(made.net, forms.described, made.cases[0].inputs, forms.export)
    return Generated(whole, made.cases[:1] if whole.is_sized else made.cases, made.weights, made.notes)


def _require_covered(net: Model) -> None:
    """Raise ConversionError if operators have no conversion: weights would not help."""
    findings = tuple(finding for finding in check(net).findings if finding.code == "unknown-operator")
    if findings:
        raise ConversionError(findings)


def _require_as_described(inputs: Mapping[str, Any], described: Described) -> None:
    for name in inputs.keys() & described.keys():
        shape, dims = np.shape(inputs[name]), tensor_info(name, described[name]).shape
        if dims is None or isinstance(inputs[name], tuple | Int8Tensor):
            continue
        sizes = zip(dims, shape, strict=False)
        if len(dims) != len(shape) or any(isinstance(dim, int) and dim != size for dim, size in sizes):
            text = ",".join("?" if dim is None else str(dim) for dim in dims)
            raise OptionError(f"input {name!r} is given with the shape {list(shape)}, and described as [{text}]")


def _require_weights(missing: Sequence[str]) -> None:
    if missing:
        raise RunError(f"weights are missing: {listed(missing, _LISTED)}: {_HINT}")


def _is_about_shapes(error: ConversionError | RunError) -> bool:
    """Whether all errors are about unknown ranks, sizes or scales of inputs."""
    if not isinstance(error, ConversionError):
        return True
    return all(finding.code in ("needs-shape", "needs-quantization") for finding in error.errors)
