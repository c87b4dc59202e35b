"""The suite's cases with more and with less known: inputs stored as initializers, and dims without sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import onnx
from onnx import numpy_helper

from onnx_suite.cases import Case


def variants(cases: Iterable[Case], *, stored: bool, symbolic: bool) -> Iterator[Case]:
    """Yield each case without sizes of dims, with inputs stored, or both: one variant for each form of the latter."""
    for case in cases:
        open_ = replace(case, name=f"{case.name}[symbolic]", model=_without_sizes(case.model)) if symbolic else case
        yield from (_stored(open_, names) for names in _forms(case)) if stored else [open_]


def _without_sizes(given: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with a name of its own for each dim of its inputs and outputs."""
    model = onnx.ModelProto.FromString(given.SerializeToString())
    infos = [info for info in (*model.graph.input, *model.graph.output) if info.type.HasField("tensor_type")]
    for number, dim in enumerate(dim for info in infos for dim in info.type.tensor_type.shape.dim):
        dim.dim_param = f"dim_{number}"
    del model.graph.value_info[:]
    return model


def input_names(model: onnx.ModelProto) -> list[str]:
    """Return the inputs that are fed."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in constants]


def _forms(case: Case) -> Iterator[tuple[str, ...]]:
    """Yield inputs of the first data set to store together: each alone, and all but the first. One is left to feed."""
    if not case.data:
        return
    names = input_names(case.model)
    tensors = [name for name, value in zip(names, case.data[0][0], strict=False) if _is_plain(value)]
    forms = [*((name,) for name in tensors), tuple(tensors[1:])]
    yield from (form for form in dict.fromkeys(forms) if 0 < len(form) < len(names))


def _is_plain(value: object) -> bool:
    return isinstance(value, np.ndarray | np.generic) and np.asarray(value).dtype.kind in "biufOSU"


def _stored(case: Case, names: tuple[str, ...]) -> Case:
    """Return the case with inputs as initializers, which hold what the first data set has."""
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    inputs, outputs = case.data[0]
    fed = list(zip(input_names(model), inputs, strict=False))
    kept = [info for info in model.graph.input if info.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name) for name, value in fed if name in names
    )
    data = ([value for name, value in fed if name not in names], outputs)
    return replace(case, name=f"{case.name}[stored: {', '.join(names)}]", model=model, data=(data,))
