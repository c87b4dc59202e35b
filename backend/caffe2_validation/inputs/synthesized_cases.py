"""Cases from synthesis: a first one that runs, with weights, then further sizes with the same weights."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from caffe2_bridge import construct_init_net_from_params
from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import ExportOptions, TensorInfo, describe_inputs
from caffe2_validation.inputs.assumptions import Assumptions
from caffe2_validation.inputs.implied_sizes import implied_sizes
from caffe2_validation.inputs.size_search import IMAGES
from caffe2_validation.inputs.specs import FRAMES, IMAGE, Case, given_case
from caffe2_validation.inputs.synthesize import StuckError, Synthesized, synthesize_inputs
from caffe2_validation.options import Described, ValidationOptions
from caffe2_validation.roles import find_roles
from caffe2_validation.sizes import Size

_RANKS: Final = (1, 2, 3, 4)
_SECONDS: Final = 120.0
# In a small image most regions are clipped to the same box, and their order depends on the last bit of the scores.
_DETECTION: Final = 160


@dataclass(frozen=True)
class SynthesizedCases:
    """A net with synthesized weights, and cases on which it runs; ``weights`` are the names of the former."""

    net: Model
    cases: Sequence[Case]
    weights: tuple[str, ...]
    notes: tuple[str, ...]


def synthesize_cases(
    net: Model, described: Described, given: Mapping[str, Any], options: ValidationOptions
) -> SynthesizedCases:
    """Synthesize cases, of all sizes with which the net runs, and weights that are missing.

    Args:
        net: the net.
        described: what the caller knows of its inputs.
        given: the inputs, if they are given; the case is then this one, and only weights are synthesized.
        options: ``seed`` and ``sizes``.

    Raises StuckError if no attempt runs to the end.
    """
    # Placeholders of inputs in the init net may have any shape; inputs that no operator reads cannot be described.
    read = {name for op in net.predict_net.op for name in op.input}
    free = {name: (None, None) for name in net.init.placeholders if name in read}
    assumptions = _assumptions(net, free | dict(described), given, options)
    first, assumptions = first_synthesis(net, assumptions)
    whole = _with_parameters(net, first.weights) if first.weights else net
    height, width = assumptions.sides
    notes = [f"images are {height} by {width}"] if {height, width} != {IMAGE} else []
    notes += [f"videos have {assumptions.frames} frames"] if assumptions.frames != FRAMES else []
    if given:
        cases = [given_case(given)]
    else:
        cases = [Case(str(options.sizes[0]) if first.inputs else "no inputs", first.inputs, options.seed)]
        sizes = options.sizes[1:]
        if assumptions.fixes_batch:
            notes.append(f"the model fixes the batch at {assumptions.size.batch}")
            sizes = [replace(size, batch=assumptions.size.batch) for size in sizes]
        cases += _further_cases(whole, assumptions, cases[0], sizes, notes)
    return SynthesizedCases(whole, cases, tuple(first.weights), tuple(notes))


def first_synthesis(net: Model, assumptions: Assumptions) -> tuple[Synthesized, Assumptions]:
    """Synthesize, trying sizes of images, and ranks of inputs of unknown rank, until the net runs to the end.

    Sizes that the net implies come before usual ones.

    Returns the result with the assumptions that led to it. Raises StuckError, that of the attempt that got furthest.
    """
    known = {*assumptions.given, *assumptions.shapes, *assumptions.ranks}
    open_ranks = any(name not in known for name in net.inputs)
    detects = any(role.kind in ("anchors", "boxes") for role in find_roles(None, net).values())
    squares = [(side, side) for side in (_DETECTION if detects else IMAGE, IMAGE, *IMAGES)]
    implied = implied_sizes(net, IMAGES)
    if implied.batch is not None:
        assumptions = replace(assumptions, size=replace(assumptions.size, batch=implied.batch), fixes_batch=True)
    assumptions = replace(assumptions, frames=implied.frames)
    images = list(dict.fromkeys([*implied.images, *squares]))
    if not open_ranks and not {4, 5} & set(assumptions.ranks.values()):
        images = images[:1]
    furthest, until = StuckError(-1, "nothing ran", Synthesized()), time.monotonic() + _SECONDS
    for rank in _RANKS if open_ranks else _RANKS[:1]:
        for height, width in images:
            attempt = replace(assumptions, image=height, image_width=width, rank=rank)
            try:
                return synthesize_inputs(net, attempt), attempt
            except StuckError as error:
                furthest = max(furthest, error, key=lambda e: e.completed)
            if time.monotonic() > until:
                raise furthest
    raise furthest


def _further_cases(
    net: Model, assumptions: Assumptions, first: Case, sizes: Sequence[Size], notes: list[str]
) -> Iterator[Case]:
    """Yield cases of other sizes with which the net runs; ``notes`` gets those with which it does not."""
    seen = [_shapes(first.inputs)]
    for index, size in enumerate(sizes, 1):
        try:
            made = synthesize_inputs(net, replace(assumptions, size=size, seed=assumptions.seed + index)).inputs
        except StuckError as error:
            notes.append(f"left out {size}: {error}")
            continue
        if _shapes(made) not in seen:
            seen.append(_shapes(made))
            yield Case(str(size), made, assumptions.seed)


def _shapes(inputs: Mapping[str, Any]) -> list[Any]:
    return [np.shape(value[0] if isinstance(value, tuple) else value) for value in inputs.values()]


def _assumptions(net: Model, described: Described, given: Mapping[str, Any], options: ValidationOptions) -> Assumptions:
    """Return what the caller and the net declare of the inputs."""
    dtypes, ranks, shapes, dims = {}, {}, {}, {}
    for name, info in _infos(net, described).items():
        if info.dtype is not None:
            is_string = info.dtype.name == "STRING"
            dtypes[name] = np.dtype(object) if is_string else info.dtype.numpy()
        if info.shape is not None:
            ranks[name] = len(info.shape)
            if all(isinstance(dim, int) for dim in info.shape):
                shapes[name] = tuple(dim for dim in info.shape if isinstance(dim, int))
            elif name in described:
                dims[name] = tuple(dim if isinstance(dim, int) else None for dim in info.shape)
    return Assumptions(given, dtypes, shapes, ranks, dims, size=options.sizes[0], seed=options.seed)


def _infos(net: Model, described: Described) -> Mapping[str, TensorInfo]:
    try:
        return describe_inputs(net, options=ExportOptions(inputs=described))
    except (ConversionError, ValueError):
        return {}


def _with_parameters(model: Model, parameters: Mapping[str, Any]) -> Model:
    whole = NetDef()
    whole.CopyFrom(model.init_net)
    whole.op.extend(construct_init_net_from_params(parameters).op)
    return Model.of(model.predict_net, whole, model.source)
