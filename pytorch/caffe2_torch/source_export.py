"""Export a net as a folder of PyTorch source, weights and a check."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from caffe2_bridge.diagnostics import BridgeError, ConversionError
from caffe2_bridge.diagnostics.log import log_diagnostics
from caffe2_bridge.files.model_argument import NetLike
from caffe2_bridge.files.replace import replace_files
from caffe2_bridge.files.saver import local_target
from caffe2_bridge.files.weights import write_safetensors
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.storage import Location
from caffe2_torch.evaluation.program import Program
from caffe2_torch.evaluation.values import value_of
from caffe2_torch.functions.int8 import Quantized
from caffe2_torch.module import NetModule
from caffe2_torch.parameter_names import reached_by_gradients
from caffe2_torch.pipeline import convert
from caffe2_torch.source.emission import Emission, missing_emitters
from caffe2_torch.source.library import FUNCTIONS
from caffe2_torch.source.module_state import ModuleState
from caffe2_torch.source.module_text import CHECK, module_text
from caffe2_torch.source.names import Identifiers, class_name
from caffe2_torch.source.record import record
from caffe2_torch.source.scope import NameScope, Scopes
from caffe2_torch.source.text import listed

_RESERVED = (
    "self", "torch", "nn", "F", "json", "math", "Path", "NamedTuple", "load", "read_safetensors", "BLOBS", "_",
    *FUNCTIONS,
)  # fmt: skip


def export_torch(
    predict_net: NetLike | Model,
    folder: Location,
    init_net: NetLike | None = None,
    *,
    examples: Mapping[str, Any],
    inputs: Mapping[str, Any] | Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
) -> tuple[Path, ...]:
    """Write a net as Python source that imports PyTorch alone, with its weights and a check.

    ``model.py`` has a class with the layers of the net, ``model.safetensors`` the weights, ``recorded.npz`` the
    examples with the outputs that :func:`to_torch` computes, and ``check.py`` compares the class with these. The four
    files are replaced when all are complete.

    Args:
        predict_net: a path, a loaded model, a NetDef, its bytes, or a PlanDef.
        folder: the folder, or its URL; it is created if it is missing.
        init_net: the net that fills the parameters, or its path; not with a loaded model, which has its own.
        examples: a tensor or array for each input, by blob name. Their ranks and dtypes decide between forms of the
            source, and their sizes are recorded alone.
        inputs: names of blobs that are inputs, also where the init net fills them.
        outputs: names of the blobs to return; default those of :func:`to_torch`.

    Returns:
        The files.

    Raises:
        ConversionError: operators have no source, or the net cannot be converted; holds every diagnostic.
        NetFormatError: an argument is not a net, or a file cannot be read.
        OptionError: an option names a blob that the net does not have.
        RunError: the net does not run on the examples; the message names the operator.
        BridgeError: an input, output or parameter is not a tensor, or a file cannot be written.
    """
    conversion = convert(predict_net, init_net, inputs=inputs or (), outputs=outputs)
    log_diagnostics(conversion.findings)
    program, net = conversion.program, conversion.model.predict_net
    assert program is not None
    _require_emitters(program)
    module = NetModule(conversion)
    given = {name: examples[name] for name in conversion.inputs if name in examples}
    found = record(module, program, given)
    fed = {name: _readable(name, value_of(value)) for name, value in given.items()}
    results = {name: _readable(name, value_of(found.outputs.get(name))) for name in conversion.outputs}

    name = class_name(net.name or "net")
    scopes, top = Scopes(), NameScope()
    scalings = {blob: (v.scale, v.zero_point) for blob, v in conversion.values.items() if isinstance(v, Quantized)}
    values = {blob: v.data if isinstance(v, Quantized) else v for blob, v in conversion.values.items()}
    state = ModuleState(values, reached_by_gradients(net), scalings)
    state.reads.update(conversion.outputs)
    state.count_uses(program, scopes, top)
    variables = Identifiers([*_RESERVED, name])
    parameters = {blob: (variables.of(blob), value) for blob, value in fed.items()}
    state.writes.update(conversion.inputs)
    emission = Emission(state, found, variables, scopes)
    if parameters:
        emission.device = f", device={next(iter(parameters.values()))[0]}.device"
    lines = emission.statements(program, top)
    # Parameters that operators write are variables, which start as what the init net fills.
    first = _begin(state, emission, top, parameters)
    returned = listed([f"{emission.read(top, blob)}{_part(value)}" for blob, value in results.items()])
    if emission.findings:
        raise ConversionError(emission.findings)
    text = module_text(
        net.name or "net", name, state, [*first, *lines, f"return {returned}"], emission.methods, parameters, results
    )
    weights = {key: _parameter(key, value) for key, value in state.weights.items()}
    arrays = {f"input_{i}": _array(value) for i, value in enumerate(fed.values())}
    arrays |= {f"output_{i}": _array(value) for i, value in enumerate(results.values())}
    archive = io.BytesIO()
    np.savez(archive, **arrays)  # type: ignore[arg-type] # names are not those of parameters
    with local_target(folder) as target:
        contents = {"model.py": text.encode(), "check.py": CHECK.encode(), "recorded.npz": archive.getvalue()}
        files = [(target / file, partial(_write, content)) for file, content in contents.items()]
        files.append((target / "model.safetensors", partial(write_safetensors, weights)))
        replace_files(files)
        return tuple(path for path, _ in files)


def _require_emitters(program: Program) -> None:
    findings = list(missing_emitters(program))
    if findings:
        raise ConversionError(findings)


def _write(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def _begin(
    state: ModuleState, emission: Emission, top: NameScope, inputs: Mapping[str, tuple[str, torch.Tensor | Quantized]]
) -> list[str]:
    """Return the statements that make Int8 tensors of inputs, and variables of parameters that operators write."""
    lines = [
        f"{variable} = {emission.quantized(variable, value[1:])}"
        for variable, value in inputs.values()
        if isinstance(value, Quantized)
    ]
    for blob, value in state.values.items():
        if blob in state.writes and isinstance(value, torch.Tensor) and state.reads[blob]:
            lines.append(f"{emission.read(top, blob)} = {emission.parameter(blob)}")
    return lines


def _part(value: torch.Tensor | Quantized) -> str:
    return ".data" if isinstance(value, Quantized) else ""


def _readable(name: str, value: Any) -> torch.Tensor | Quantized:
    if isinstance(value, Quantized):
        return value
    if not isinstance(value, torch.Tensor):
        raise BridgeError(f"blob {name!r} is not a tensor, and source has tensors alone as inputs and outputs")
    return value.detach()


def _array(value: torch.Tensor | Quantized) -> np.ndarray[Any, Any]:
    return (value.data if isinstance(value, Quantized) else value).numpy()


def _parameter(name: str, value: torch.Tensor) -> Parameter:
    array = value.detach().numpy()
    return Parameter(name, array.dtype, array.shape, lambda: array)
