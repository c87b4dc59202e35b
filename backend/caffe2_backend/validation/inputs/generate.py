"""Cases that a model runs on: the free choice, else sizes that are searched for, else what a walk makes up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from caffe2_backend.validation.inputs.roles import find_roles
from caffe2_backend.validation.inputs.size_search import IMAGES, Trial, find_sizes
from caffe2_backend.validation.inputs.specs import IMAGE, Case, Size, given_case, make_cases
from caffe2_backend.validation.inputs.synthesize import Start, StuckError, Walked, walk
from caffe2_backend.validation.inputs.weights import CONVOLUTIONS, LAYERS, PER_CHANNEL, is_weight
from caffe2_backend.validation.sides import Described, Forms
from caffe2_bridge import construct_init_net_from_params
from caffe2_bridge.diagnostics import ConversionError, RunError, Severity
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import ExportOptions, TensorInfo, check, describe_inputs

_RANKS: Final = (1, 2, 3, 4)
_SECONDS: Final = 120.0
# In a small image most regions are clipped to the same box, and which of them comes first hangs on the last bit.
_DETECTION: Final = 160
_NAMED: Final = 3
Probe = Callable[[Case], str]
_HINT: Final = "give the init net (--init), or have them made up (--random-weights)"


@dataclass(frozen=True)
class Generated:
    """What a model is to run on.

    Attributes:
        forms: the model, with the weights that were made up.
        cases: the inputs.
        weights: names of the weights that were made up.
        notes: what a reader of the report should know.
    """

    forms: Forms
    cases: Sequence[Case]
    weights: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def missing_weights(model: Model) -> tuple[str, ...]:
    """Inputs of a net that its operators read as weights of convolutions, layers and normalizations."""
    inputs = set(model.inputs)
    found: dict[str, None] = {}
    for op in NetView(model.predict_net).ops:
        if op.type in CONVOLUTIONS | LAYERS | PER_CHANNEL:
            found.update(dict.fromkeys(n for i, n in enumerate(op.inputs) if n in inputs and is_weight(op, i)))
    return tuple(found)


def generate(
    forms: Forms,
    inputs: Mapping[str, Any] | None = None,
    *,
    seed: int,
    sizes: Sequence[Size],
    random_weights: bool = False,
    probe: Probe | None = None,
) -> Generated:
    """Inputs for a model, and weights where those are missing and may be made up.

    Args:
        forms: the model.
        inputs: the inputs, where they are given.
        seed: of everything that is drawn.
        sizes: what to try.
        random_weights: whether to make up weights that the model lacks.
        probe: why the reference does not run a case; empty where it does. It is asked where onnxruntime, which
            broadcasts what Caffe2 does not, runs it.

    Raises:
        ConversionError: the net does not convert.
        RunError: weights are missing and may not be made up, or nothing was found that the model runs on.
    """
    net = forms.model if isinstance(forms.model, Model) else None
    missing = () if net is None else missing_weights(net)
    if net is not None and random_weights and missing:
        _require_covered(net)
        return _walked(forms, net, inputs or {}, seed, sizes)
    if inputs is not None:
        return Generated(forms, [given_case(inputs)])
    try:
        cases = make_cases(forms.graph, net, seed=seed, sizes=sizes)
    except (ConversionError, RunError) as error:
        if net is None or missing or not (_is_about_shapes(error) or net.init.placeholders):
            raise
        try:
            return _walked(forms, net, {}, seed, sizes)
        except StuckError as stuck:
            raise RunError(f"no inputs were found that it runs on: {stuck}") from error
    return _tried(forms, net, cases, missing, seed, sizes, probe)


def _tried(
    forms: Forms,
    net: Model | None,
    cases: Sequence[Case],
    missing: Sequence[str],
    seed: int,
    sizes: Sequence[Size],
    probe: Probe | None,
) -> Generated:
    """The cases where they run; else others that do. Raises RunError where weights are missing."""
    try:
        trial = Trial(forms.graph)
    except RunError:  # onnxruntime is not here, or takes no such model: the runtimes that are asked for will say so
        return Generated(forms, cases)
    if not any(trial.run(case)[1] for case in cases):
        if probe is not None and net is not None and not missing and cases and probe(cases[-1]):
            return _accepted(forms, net, cases, seed, sizes, probe)
        return Generated(forms, cases)
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise RunError(f"weights are missing: {', '.join(map(repr, missing[:_NAMED]))}{more}: {_HINT}")
    return _searched(forms, net, trial, cases, seed, sizes)


def _accepted(
    forms: Forms, net: Model, cases: Sequence[Case], seed: int, sizes: Sequence[Size], probe: Probe
) -> Generated:
    """The cases of a walk, where the reference runs those; else the cases as they were."""
    try:
        made = _walked(forms, net, {}, seed, sizes)
    except StuckError:
        return Generated(forms, cases)
    return made if not probe(made.cases[0]) else Generated(forms, cases)


def _searched(
    forms: Forms, net: Model | None, trial: Trial, cases: Sequence[Case], seed: int, sizes: Sequence[Size]
) -> Generated:
    """Cases of sizes that run, where there are such; else the cases as they were."""
    if net is not None:
        try:
            return _walked(forms, net, {}, seed, sizes)
        except StuckError:
            pass
    for size in sizes[:2]:
        found = find_sizes(forms.graph, net, trial, seed=seed, size=size)
        if found.fixed is not None:
            made = make_cases(forms.graph, net, seed=seed, sizes=sizes, fixed=found.fixed)
            reasons = {case.name: trial.run(case)[1] for case in made}
            notes = [*_told(found.fixed), *(f"left out {name}: {reason}" for name, reason in reasons.items() if reason)]
            return Generated(forms, [case for case in made if not reasons[case.name]], notes=tuple(notes))
    return Generated(forms, cases, notes=(f"no sizes of the inputs were found that it runs with: {found.reason}",))


def _told(fixed: Mapping[str, int]) -> tuple[str, ...]:
    return (f"the model fixes sizes: {', '.join(f'{name}={size}' for name, size in fixed.items())}",) if fixed else ()


def _is_about_shapes(error: ConversionError | RunError) -> bool:
    """Whether nothing is wrong but that ranks or sizes are unknown."""
    if not isinstance(error, ConversionError):
        return True
    return all(finding.code == "needs-shape" for finding in error.findings if finding.severity is Severity.ERROR)


def _require_covered(net: Model) -> None:
    """Raises ConversionError where operators have no conversion: no weights help there."""
    findings = tuple(finding for finding in check(net).findings if finding.code == "unknown-operator")
    if findings:
        raise ConversionError(findings)


def _walked(forms: Forms, net: Model, given: Mapping[str, Any], seed: int, sizes: Sequence[Size]) -> Generated:
    """Cases that walks make, with the weights of the first. Raises StuckError where no walk gets to the end."""
    # What the init net fills inputs with may be of any shape; what no operator reads is not to be described.
    read = {name for op in net.predict_net.op for name in op.input}
    free = {name: (None, None) for name in net.init.placeholders if name in read}
    start = _start(net, free | dict(forms.described), given, seed, sizes[0])
    first, start = first_walk(net, start)
    whole = net if not first.weights else with_weights(net, first.weights)
    notes = [f"images are {start.image} by {start.image}"] if start.image != IMAGE else []
    if given:
        cases = [given_case(given)]
    else:
        cases = [Case(str(sizes[0]) if first.inputs else "no inputs", first.inputs, seed)]
        cases += _further(whole, start, cases[0], seed, sizes[1:], notes)
    made = Forms(whole, forms.described, cases[0].inputs, forms.recurrent)
    return Generated(made, cases[:1] if made.is_sized else cases, tuple(first.weights), tuple(notes))


def _further(
    whole: Model, start: Start, first: Case, seed: int, sizes: Sequence[Size], notes: list[str]
) -> Iterator[Case]:
    """Cases of other sizes, as far as the model takes them; the others are noted."""
    seen = [_shapes(first.inputs)]
    for index, size in enumerate(sizes, 1):
        try:
            made = walk(whole, replace(start, size=size, seed=seed + index)).inputs
        except StuckError as error:
            notes.append(f"left out {size}: {error}")
            continue
        if _shapes(made) not in seen:
            seen.append(_shapes(made))
            yield Case(str(size), made, seed)


def _shapes(inputs: Mapping[str, Any]) -> list[Any]:
    return [np.shape(value[0] if isinstance(value, tuple) else value) for value in inputs.values()]


def first_walk(net: Model, start: Start) -> tuple[Walked, Start]:
    """The first walk that gets to the end, over sides of images and over ranks that nothing says.

    Returns it with what it began with. Raises StuckError, that of the walk that got furthest.
    """
    open_ranks = [n for n in net.inputs if n not in {*start.given, *start.shapes, *start.ranks}]
    detects = any(role.kind in ("anchors", "boxes") for role in find_roles(None, net).values())
    images = list(dict.fromkeys([_DETECTION if detects else IMAGE, IMAGE, *IMAGES]))
    if not open_ranks and 4 not in start.ranks.values():
        images = images[:1]
    furthest, until = StuckError(-1, "nothing ran", Walked()), time.monotonic() + _SECONDS
    for rank in _RANKS if open_ranks else _RANKS[:1]:
        for image in images:
            begun = replace(start, image=image, rank=rank)
            try:
                return walk(net, begun), begun
            except StuckError as error:
                furthest = max(furthest, error, key=lambda e: e.place)
            if time.monotonic() > until:
                raise furthest
    raise furthest


def _start(net: Model, described: Described, given: Mapping[str, Any], seed: int, size: Size) -> Start:
    """What is known of the inputs before the walk: what the caller says, and what the net says."""
    dtypes, ranks, shapes = {}, {}, {}
    for name, info in _infos(net, described).items():
        if info.dtype is not None:
            text = info.dtype.name == "STRING"
            dtypes[name] = np.dtype(object) if text else info.dtype.numpy()
        if info.shape is not None:
            ranks[name] = len(info.shape)
            if all(isinstance(dim, int) for dim in info.shape):
                shapes[name] = tuple(dim for dim in info.shape if isinstance(dim, int))
    return Start(given, dtypes, shapes, ranks, size=size, seed=seed)


def _infos(net: Model, described: Described) -> Mapping[str, TensorInfo]:
    try:
        return describe_inputs(net, options=ExportOptions(inputs=described))
    except (ConversionError, ValueError):
        return {}


def with_weights(model: Model, weights: Mapping[str, Any]) -> Model:
    """The model with further parameters."""
    whole = NetDef()
    whole.CopyFrom(model.init_net)
    whole.op.extend(construct_init_net_from_params(weights).op)
    return Model.of(model.predict_net, whole, model.source)
