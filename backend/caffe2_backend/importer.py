"""The import's front door."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import get_args

from caffe2_backend.admission import OnnxModel, load_ir
from caffe2_backend.pipeline import IMPORT
from caffe2_backend.state import Foreign, Import, Placement
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.diagnostics.log import log_diagnostics
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.model import Model
from caffe2_bridge.passes import run_passes


def to_netdef(
    onnx_model: OnnxModel,
    *,
    foreign: Foreign = "error",
    device: Placement = None,
    base_dir: str | os.PathLike[str] | None = None,
) -> Model:
    """Convert an ONNX model to a Caffe2 model whose external inputs and outputs are named as the graph's.

    Args:
        onnx_model: a ModelProto, its bytes, an onnx_ir model, or the path of a file (with its external data beside
            it). It is not changed; weights are read when they are asked for.
        foreign: ``error``: only operators that Caffe2 registers. ``carry``: an ONNX operator that no one operator of
            Caffe2 computes travels as it is, as an operator of domain ``ai.onnx``.
        device: ``cpu`` or ``cuda:N``: where every operator is to run that has a version for it; None says nothing. Or
            where single inputs and parameters are, by name: operators then run where their inputs are, inputs that are
            not named are on the host, and parameters that are not named where they are first read. Copies are put in
            where operands are elsewhere.
        base_dir: the folder of the model's external data; None: the folder of the file, where ``onnx_model`` is a
            path, and otherwise the model may have no external data (tensors of an onnx_ir model may have a folder
            themselves). Files outside of the folder are not read, nor links that leave it.

    Returns:
        The model. Element types and shapes of its inputs stand in the net argument ``onnx_types``, which Caffe2 does
        not read. Initializers are parameters, also those that the graph lists as inputs.

    Raises:
        ConversionError: the model cannot be converted; holds every finding, in the order of the nodes.
        NetFormatError: what is given is no ONNX model.
        OptionError: an option has a value that does not exist, or ``device`` a name that the model does not have.
    """
    return convert(onnx_model, foreign=foreign, device=device, base_dir=base_dir)[0]


def convert(
    onnx_model: OnnxModel,
    *,
    foreign: Foreign = "error",
    device: Placement = None,
    base_dir: str | os.PathLike[str] | None = None,
) -> tuple[Model, Mapping[str, int]]:
    """:func:`to_netdef`, and how many operators of Caffe2 came back as themselves, by type."""
    if foreign not in get_args(Foreign):
        raise OptionError(f"foreign must be one of {', '.join(get_args(Foreign))}, not {foreign!r}")
    state = run_passes(IMPORT, Import(load_ir(onnx_model, base_dir), foreign, device))
    assert state.net is not None  # LowerGraph makes it
    log_diagnostics(state.findings)
    parameters = state.parameters

    def serialized() -> Iterator[bytes]:
        return fill_net(parameters.values(), ())

    source = str(onnx_model) if isinstance(onnx_model, str | os.PathLike) else ""
    return Model(state.net, InitNet(parameters, serialized=serialized), source), state.restored
