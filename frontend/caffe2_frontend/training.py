"""Find the blobs that become inputs and outputs in an export of a training net."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import onnx_ir as ir

from caffe2_bridge.diagnostics import Diagnostic, Location, OptionError, Severity
from caffe2_bridge.diagnostics.listing import listed
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.training import training_net, training_outputs
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.options import ExportOptions

_NAMED: Final = 3


@dataclass(frozen=True)
class Training:
    """What an export of a training net adds to the interface of the model; empty for other exports.

    Attributes:
        updated: the blobs that the net reads and overwrites.
        losses: the blobs that gradients start from.
        outputs: the outputs without ``updated``, where the caller does not choose them.
        initial: the values of updated blobs before the first step.
        findings: a note that the export is one of training.
    """

    updated: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    initial: Mapping[str, Parameter] = field(default_factory=dict)
    findings: tuple[Diagnostic, ...] = ()

    @property
    def inputs(self) -> dict[str, TensorInfo]:
        """Types and shapes of the updated blobs whose initial values are known."""
        return {
            name: TensorInfo(ir.DataType.from_numpy(parameter.dtype), parameter.shape)
            for name, parameter in self.initial.items()
        }


def find_training(model: Model, options: ExportOptions) -> Training:
    """Return what a training net updates, if the options ask for it; empty otherwise.

    Raises OptionError if ``training`` is asked for and the net does not compute gradients, or updates nothing.
    """
    if options.training is False or (options.training is None and (options.outputs is not None or options.fp16)):
        return Training()
    init = model.init
    filled = {*init.parameters, *(name for op in init.rest for name in op.outputs)}
    found = training_net(model.predict_net, filled or None)
    if found is None:
        if options.training:
            raise OptionError("training: the net has no gradient operators, or does not update what the init net fills")
        return Training()
    initial = {name: init.parameters[name] for name in found.updated if name in init.parameters}
    findings = () if options.training else (_note(model, found.updated),)
    return Training(found.updated, found.losses, training_outputs(model.predict_net, found), initial, findings)


def _note(model: Model, updated: tuple[str, ...]) -> Diagnostic:
    shown = listed(updated, _NAMED)
    reason = f"the net trains: {len(updated)} blobs that it updates are inputs and outputs of the model ({shown})"
    hint = "for other outputs without updates: --no-training, or training=False"
    return Diagnostic("training-net", reason, Location(model.predict_net.name or "net"), Severity.NOTE, hint)
