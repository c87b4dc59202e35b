"""Assign operators and parameters to devices, and insert copies between devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import onnx_ir as ir

from caffe2_backend.state import Import
from caffe2_bridge.devices import HOST, Device, as_device, follow_inputs, insert_copies
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.passes import FunctionalPass
from caffe2_bridge.proto.caffe2_pb2 import NetDef


class AssignDevices(FunctionalPass[Import]):
    """Assign devices to operators and parameters, and insert copies of operands that are on another device.

    With one GPU for the whole net, every operator with a CUDA kernel runs there, and inputs are on the host. With
    devices by input, operators run where their inputs are. Parameters without a device of their own are where they are
    first read.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"net"})
    ensures: ClassVar[frozenset[str]] = frozenset({"placed"})

    def __call__(self, state: Import) -> Import:
        """Return the state with a new net, if a GPU was asked for. Raises OptionError for an unknown name."""
        if state.options.device is None or state.net is None:
            return state
        if isinstance(state.options.device, Mapping):
            everywhere = None
            named = {name: as_device(where) for name, where in state.options.device.items()}
            _refuse_unknown(named, state.model, state.net)
            named = {name: where for name, where in named.items() if name in state.net.external_input}
        else:
            everywhere, named = as_device(state.options.device), {}
        if not any(device.is_gpu for device in (everywhere or HOST, *named.values())):
            return state
        net, inputs = follow_inputs(state.net, named, state.parameters, everywhere=everywhere)
        placed, _ = insert_copies(net, inputs)
        parameters = {name: _placed(parameter, inputs[name]) for name, parameter in state.parameters.items()}
        return replace(state, net=placed, parameters=parameters)


def _refuse_unknown(named: Mapping[str, Device], model: ir.Model, net: NetDef) -> None:
    """Refuse names that the model does not have. Its initializers that became parts of others are not in the net."""
    known = {*net.external_input, *model.graph.initializers}
    unknown = [name for name in named if name not in known]
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise OptionError(f"device names {names}, and the model has no such input or parameter")


def _placed(parameter: Parameter, device: Device) -> Parameter:
    return replace(parameter, device=device.option()) if device.is_gpu else parameter
