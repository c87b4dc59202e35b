"""Convert ONNX models to Caffe2 models."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from caffe2_backend.admission import OnnxModel, load_ir
from caffe2_backend.options import Foreign, ImportOptions, Placement
from caffe2_backend.pipeline import IMPORT
from caffe2_backend.state import Import
from caffe2_bridge.collector import CollectorPaused
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.diagnostics.log import log_diagnostics
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.passes import run_passes
from caffe2_bridge.storage import StorageError, locate
from caffe2_frontend.interop.input_defaults import SEPARATE_INITIALIZERS


def to_netdef(
    onnx_model: OnnxModel,
    *,
    foreign: Foreign = "error",
    device: Placement = None,
    base_dir: str | os.PathLike[str] | None = None,
    int8: bool = False,
    inputs: Mapping[str, Any] | None = None,
) -> Model:
    """Convert an ONNX model to a Caffe2 model whose external inputs and outputs are named as the graph's.

    Args:
        onnx_model: a ModelProto, its bytes, an onnx_ir model, or the path or URL of a file (with its external data in
            the same folder). It is not changed; weights are read when they are used.
        foreign: ``error``: only operators that Caffe2 registers; others are errors. ``carry``: an ONNX operator that
            no single operator of Caffe2 computes is carried unchanged, as an operator of domain ``ai.onnx``.
        device: ``cpu`` or ``cuda:N``, where every operator runs that has an implementation for it; None for no device.
            Or the devices of inputs and parameters, by name: operators then run where their inputs are. Inputs that
            are not named are on the host, parameters that are not named where they are first read. Copies between
            devices are inserted.
        base_dir: the folder of the model's external data; None: the folder of the file, where ``onnx_model`` is a
            path, and otherwise the model may have no external data (tensors of an onnx_ir model may have a folder
            themselves). Files outside of the folder are not read, nor links that leave it.
        int8: make Caffe2's Int8 operators of what lies between QuantizeLinear and DequantizeLinear, where their results
            differ from ONNX's by one step of the scale at most; by default such parts are computed in float.
        inputs: ``(dtype, shape)`` of inputs of which more is known than the model declares: sizes of dims, as in
            ``{"x": ("float32", [1, 512])}``. A dim is an integer, a name, or None for that of the model; a symbolic dim
            that gets a size gets it everywhere.

    Returns:
        The model. The net argument ``onnx_types``, which Caffe2 ignores, holds element types and shapes of its inputs.
        Initializers are parameters. Those that the graph lists as inputs stay inputs with defaults for an export,
        unless they are constants of the net, as a note says, or the format of the model demands that all are listed.

    Raises:
        ConversionError: the model cannot be converted; holds every diagnostic, in the order of the nodes.
        NetFormatError: ``onnx_model`` is not an ONNX model, or cannot be read.
        OptionError: ``foreign`` is not one of its values, ``device`` or ``inputs`` has a name that the model does not
            have, or an input is not as described.
        InputSpecError: the description of an input has another form.
    """
    options = ImportOptions(foreign, device, base_dir, int8, inputs=inputs or {})
    try:
        return import_model(onnx_model, options).model
    except StorageError:
        raise
    except OSError as error:
        raise NetFormatError(f"cannot be read: {error.strerror or error}", str(error.filename or "")) from None


@dataclass(frozen=True)
class ImportedModel:
    """The result of an import.

    Attributes:
        model: the Caffe2 model.
        restored: the number of restored operators of Caffe2, by type.
        inputs: the inputs of the ONNX graph, in order, with those that have a default.
    """

    model: Model
    restored: Mapping[str, int]
    inputs: tuple[str, ...]


def import_model(onnx_model: OnnxModel, options: ImportOptions) -> ImportedModel:
    """Convert as :func:`to_netdef`, with its options as one object, and count restored operators.

    Raises as it does, but OSError where the model cannot be read.
    """
    with CollectorPaused():
        loaded = load_ir(onnx_model, options.base_dir)
        inputs = tuple(str(value.name) for value in loaded.graph.inputs)
        state = run_passes(IMPORT, _begin(loaded, options))
    assert state.net is not None  # LowerGraph makes it
    log_diagnostics(state.findings)
    source = str(locate(onnx_model)) if isinstance(onnx_model, str | os.PathLike) else ""
    return ImportedModel(Model(state.net, _init_net(state.parameters), source), state.restored, inputs)


def _begin(model: ir.Model, options: ImportOptions) -> Import:
    """Return the state before the first pass, which owns the model."""
    for value in model.graph.inputs:
        if value.name in options.required and value.is_initializer():
            del model.graph.initializers[value.name]
            value.const_value = None
    defaults = [value for value in model.graph.inputs if value.is_initializer()]
    read = tuple(str(value.name) for value in defaults if value.uses() or value.is_graph_output())
    demands_inputs = model.ir_version is not None and model.ir_version < SEPARATE_INITIALIZERS
    return Import(model, options, read, demands_inputs)


def _init_net(parameters: Mapping[str, Parameter]) -> InitNet:
    def serialized() -> Iterator[bytes | memoryview]:
        return fill_net(parameters.values(), ())

    return InitNet(parameters, serialized=serialized)
