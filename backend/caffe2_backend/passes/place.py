"""Operators on the device that was asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from caffe2_backend.state import Import
from caffe2_bridge.devices import as_device, insert_copies
from caffe2_bridge.proto.caffe2_pb2 import NetDef


class PlaceOnDevice:
    """Give every operator and parameter the device, and copy what lives elsewhere: inputs come on the host."""

    requires: ClassVar[frozenset[str]] = frozenset({"net"})
    ensures: ClassVar[frozenset[str]] = frozenset({"placed"})

    def __call__(self, state: Import) -> Import:
        """The state with a new net, where a GPU was asked for. Raises BridgeError where there is no such device."""
        if state.device is None or state.net is None:
            return state
        device = as_device(state.device)
        if not device.is_gpu:
            return state
        option = device.option()
        net = NetDef()
        net.CopyFrom(state.net)
        for op in net.op:
            op.device_option.CopyFrom(option)
        placed, _ = insert_copies(net, dict.fromkeys(state.parameters, device))
        parameters = {name: replace(parameter, device=option) for name, parameter in state.parameters.items()}
        return replace(state, net=placed, parameters=parameters)
