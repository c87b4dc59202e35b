"""The cheapest placement of operators that may run on the host or on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from google.protobuf.message import Message

from caffe2_bridge.control import parsed_bodies
from caffe2_bridge.devices.device import HOST, Device, as_device
from caffe2_bridge.devices.flow import build_flow
from caffe2_bridge.devices.infer import write_option
from caffe2_bridge.devices.sides import GPU_SIDE, HOST_SIDE, Sides
from caffe2_bridge.diagnostics import BridgeError, Location
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

_PREDICT: Final = Location("predict")


class CostModel(Protocol):
    """The costs of running operators and copying blobs, in one unit of any kind; costs must not be negative."""

    def operator(self, op: OperatorDef, device: Device, /) -> float | None:
        """The cost of an operator on a device; None where it cannot run there."""

    def transfer(self, blob: str, /) -> float:
        """The cost of copying a blob to the other side, once, however many operators read it there."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A placement: ``net`` has the device options of operators, ``cost`` is its cost in the cost model.

    ``devices`` holds every operator's device by its place, in net order, those of bodies included. Copies are not in
    the net yet: :func:`insert_copies` puts them in.
    """

    net: NetDef
    devices: Mapping[Location, Device]
    cost: float


def place(
    net: Message | bytes,
    cost_model: CostModel,
    *,
    gpu: Any = "cuda:0",
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
) -> Placement:
    """Find a placement of the operators on the host and one GPU with minimum cost.

    It is a minimum cut: each operator is on one side, a value that is read on the side where it was not made costs one
    transfer. Operands that are always on the host, operators that only run bodies, and copies between devices are on a
    fixed side; what branches or iterations leave is on one device.

    Args:
        net: the net. Its own device options do not matter.
        cost_model: the costs.
        gpu: the GPU.
        inputs: where external inputs are; those left out, such as parameters, are where it is cheapest.
        outputs: where external outputs must be; those left out may be anywhere.

    Returns:
        The placement. Raises ConversionError where an operator can run on neither side, or must run on both.
    """
    device = as_device(gpu)
    if not device.is_gpu:
        raise BridgeError(f"gpu must be a CUDA device, not {device}")
    result = NetDef()
    result.CopyFrom(as_net_def(net))
    with parsed_bodies(result):
        flow = build_flow(result, _PREDICT)
        sides = Sides(flow, device, cost_model.operator, cost_model.transfer)
        sides.add_steps()
        for name, where in (inputs or {}).items():
            sides.pin_input(_known(flow.versioned.get((name, 0)), name), _side(where, device))
        for name, where in (outputs or {}).items():
            sides.pin_output(_known(flow.last.get(name), name), _side(where, device))
        cost, on_host = sides.solve()
        devices = {}
        for step, is_on_host in zip(flow.steps, on_host, strict=True):
            if step.proto is not None:
                at = HOST if step.is_dispatch or is_on_host else device
                devices[step.location] = at
                write_option(step.proto, at, result.device_option)
    return Placement(result, devices, cost)


def _side(where: Any, gpu: Device) -> int:
    device = as_device(where)
    if device.is_gpu and device != gpu:
        raise BridgeError(f"{device} is neither the host nor {gpu}, the one GPU of this placement")
    return GPU_SIDE if device.is_gpu else HOST_SIDE


def _known(value: int | None, name: str) -> int:
    if value is None:
        raise BridgeError(f"the net has no blob {name!r}")
    return value
