"""Say what was assumed of the inputs of a net, and what to type to confirm or to correct it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Final

import numpy as np

from caffe2_bridge.control import all_operators
from caffe2_bridge.diagnostics import Diagnostic, Location, Severity
from caffe2_bridge.diagnostics.listing import listed
from caffe2_bridge.init.parameter_blobs import parameter_blobs
from caffe2_bridge.model import PLACEHOLDER_SHAPES
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.operators.parameters import is_weight_operand
from caffe2_bridge.passes import FunctionalPass
from caffe2_frontend.input_checks.contradicted_types import contradicted_types
from caffe2_frontend.interop.input_hint import inputs_hint
from caffe2_frontend.interop.types import INT32, INT64, Dim, TensorInfo, example_dtype
from caffe2_frontend.state import Export

_INDICES: Final = frozenset({INT32, INT64})
_NAMED: Final = 3


class ExplainInputs(FunctionalPass[Export]):
    """Report fills of inputs, assumed ranks and assumed element types, all inputs of a kind in one diagnostic.

    Described types that an operator cannot read are errors (:mod:`caffe2_frontend.input_checks.contradicted_types`).

    The hints describe the inputs as the model has them: typed, they give the same model.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inputs", "graph"})

    def __call__(self, state: Export) -> Export:
        """Return the state with the diagnostics: those of inputs ahead of those of operators."""
        return replace(state, findings=(*_explained(state), *state.findings, *contradicted_types(state)))


def _explained(state: Export) -> Iterator[Diagnostic]:
    fills = {name: fill for name, fill in state.fills.items() if name in state.inputs}
    samples = [name for name, fill in fills.items() if not _is_exporters(fill)]
    empty = [name for name in fills if name not in samples and fills[name].shape in PLACEHOLDER_SHAPES]
    left_out = parameter_blobs(state.net, empty, is_weight_operand)
    zeros = [name for name in fills if name not in samples and name not in left_out]
    ranks = [name for name in state.inputs if name in state.assumed_ranks]
    types = [name for name in state.inputs if name in state.inferred_types and _either_index(state, name)]
    if not (fills or ranks or types):
        return
    from caffe2_frontend.dims.naming import named_inputs  # of the second half of the export, which few checks need

    shapes = named_inputs(state) if state.model is not None and not state.foreign else {}
    here = Location(state.net.name)

    def typed(names: Iterable[str]) -> str:
        return inputs_hint({name: _known(state, name, shapes.get(name)) for name in names})

    if left_out:
        yield _left_out(state, left_out, here, typed(left_out))
    if samples:
        yield _sample(samples, here, typed(samples))
    if zeros:
        yield _exporters_fill(zeros, here, typed(zeros))
    if ranks:
        yield _assumed_rank(state, ranks, here, typed(ranks))
    for dtype in (INT32, INT64):
        names = [name for name in types if state.inputs[name].dtype is dtype]
        if names:
            yield _assumed_type(state, names, here, typed(names))


def _either_index(state: Export, name: str) -> bool:
    """Whether all operators that read an input take both int32 and int64."""
    reads = [(op.type, index) for op in state.net.ops for index, read in enumerate(op.inputs) if read == name]
    return bool(reads) and all(_INDICES.issubset(state.accepted.get(read, ())) for read in reads)


def _is_exporters(fill: Parameter) -> bool:
    """Whether a fill is one that Caffe2's exporters write for inputs: zeros, as float32 whatever the input's type."""
    return fill.dtype == np.float32 and fill.scale is None and not fill.load().any()


def _known(state: Export, name: str, shape: tuple[Dim, ...] | None) -> TensorInfo:
    info = state.inputs[name].merged(TensorInfo(quantization=state.wanted_scales.get(name)))
    return info if shape is None else replace(info, shape=shape)


def _left_out(state: Export, names: Sequence[str], here: Location, typed: str) -> Diagnostic:
    readers = dict.fromkeys(op.type for op in all_operators(state.net) if not set(names).isdisjoint(op.inputs))
    what = "statistics" if [*readers] == ["SpatialBN"] else "parameters"
    shown = listed(names, _NAMED)
    reason = f"the exporter left out {what} of {', '.join(readers)}: the init net has zeros for {shown} instead"
    hint = (
        "save the model again with them: mobile_exporter.Export(workspace, model.net, model.GetAllParams()); "
        f"or describe them, to feed them in each run: {typed}"
    )
    return Diagnostic("left-out-parameters", reason, here, hint=hint)


def _sample(names: Sequence[str], here: Location, typed: str) -> Diagnostic:
    reason = f"the init net also fills {_listed(names)}, with a sample: the values are ignored"
    hint = f"remove the fill from the init net, or describe the input, such as {typed}"
    return Diagnostic("placeholder", reason, here, Severity.WARNING, hint)


def _exporters_fill(names: Sequence[str], here: Location, typed: str) -> Diagnostic:
    reason = f"the init net fills {_listed(names)} with zeros, as Caffe2's exporters do: the values are ignored"
    return Diagnostic("exporter-fill", reason, here, Severity.NOTE, f"inferred from the operators: {typed}")


def _assumed_rank(state: Export, names: Sequence[str], here: Location, typed: str) -> Diagnostic:
    ranks = {name: len(state.inputs[name].shape or ()) for name in names}
    first, *others = names
    reason = f"input {first!r} is assumed to have rank {ranks[first]}, as {state.assumed_ranks[first]} most often has"
    if others:
        more = listed(others, _NAMED, lambda name: f"{name!r} (rank {ranks[name]}, {state.assumed_ranks[name]})")
        reason += f"; so are {more}"
    hint = f"to confirm or to change it, describe the input, such as {typed}"
    return Diagnostic("assumed-rank", reason, here, Severity.NOTE, hint)


def _assumed_type(state: Export, names: Sequence[str], here: Location, typed: str) -> Diagnostic:
    first = names[0]
    readers = list(dict.fromkeys(op.type for op in state.net.ops if first in op.inputs))
    assumed = example_dtype(state.inputs[first])
    reason = (
        f"{_listed(names)} {'is' if len(names) == 1 else 'are'} assumed to be {assumed}, "
        f"because {readers[0]} takes int32 and int64, and the net does not say which"
    )
    hint = f"to confirm or to change it, describe the input, such as {typed}"
    return Diagnostic("assumed-type", reason, here, Severity.NOTE, hint)


def _listed(names: Sequence[str]) -> str:
    return f"input{'s' * (len(names) > 1)} {listed(names, _NAMED)}"
