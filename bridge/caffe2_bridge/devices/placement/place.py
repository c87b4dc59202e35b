"""The cheapest placement of operators that may run on the host or on GPUs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message

from caffe2_bridge.control import parsed_bodies
from caffe2_bridge.devices.device import Device, as_device
from caffe2_bridge.devices.flow import build_flow
from caffe2_bridge.devices.infer import write_option
from caffe2_bridge.devices.placement.assignment import CostModel, Pins, choose_devices
from caffe2_bridge.diagnostics import BridgeError, Location
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef

_PREDICT: Final = Location("predict")


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
    """Find a placement of the operators on the host and on GPUs with minimum cost.

    It is a minimum cut: each operator is on one side, a value that is read on the side where it was not made costs one
    transfer. Operands that are always on the host, operators that only run bodies, and copies between devices are on a
    fixed side; what branches or iterations leave is on one device.

    Several GPUs are alike: the operators of their side are divided in net order, a part for each, at the places where
    copies cost least. A GPU has memory for all blobs that its operators read or write, as Caffe2 keeps them; where they
    do not fit, operators move to the host, those first that gain least on a GPU for the memory that they need. The
    placement is then good, but need not be that of minimum cost.

    Args:
        net: the net. Its own device options do not matter.
        cost_model: the costs. With bounds it must have a method ``memory``, the bytes of a blob by name.
        gpu: the GPU; or several GPUs, as a list, or as a mapping to the bytes that each has (None: enough).
        inputs: where external inputs are; those left out, such as parameters, are where it is cheapest.
        outputs: where external outputs must be; those left out may be anywhere.

    Returns:
        The placement. Raises ConversionError where an operator can run on neither side, or must run on both, and
        BridgeError where operators that can run on GPUs alone do not fit, or an argument is wrong.
    """
    gpus = _gpus(gpu)
    result = NetDef()
    result.CopyFrom(as_net_def(net))
    with parsed_bodies(result):
        flow = build_flow(result, _PREDICT)
        pins = Pins(
            {_known(flow.versioned.get((name, 0)), name): _pin(where, gpus) for name, where in (inputs or {}).items()},
            {_known(flow.last.get(name), name): _pin(where, gpus) for name, where in (outputs or {}).items()},
        )
        chosen, cost = choose_devices(flow, cost_model, gpus, pins)
        devices = {}
        for step, at in zip(flow.steps, chosen, strict=True):
            if step.proto is not None:
                devices[step.location] = at
                write_option(step.proto, at, result.device_option)
    return Placement(result, devices, cost)


def _gpus(given: Any) -> dict[Device, float]:
    """Return the GPUs and the bytes of each."""
    if isinstance(given, Mapping):
        gpus = {as_device(gpu): math.inf if limit is None else limit for gpu, limit in given.items()}
    else:
        gpus = dict.fromkeys(map(as_device, given if isinstance(given, list | tuple) else [given]), math.inf)
    for gpu, limit in gpus.items():
        if not gpu.is_gpu:
            raise BridgeError(f"gpu must be a CUDA device, not {gpu}")
        if not isinstance(limit, int | float) or not limit >= 0:
            raise BridgeError(f"gpu must give the bytes of {gpu} as a number that is not negative, not {limit!r}")
    if not gpus:
        raise BridgeError("gpu must name at least one CUDA device")
    return gpus


def _pin(where: Any, gpus: Mapping[Device, float]) -> Device:
    device = as_device(where)
    if device.is_gpu and device not in gpus:
        names = ", ".join(map(str, gpus))
        raise BridgeError(f"{device} is neither the host nor {names}, the GPUs of this placement")
    return device


def _known(value: int | None, name: str) -> int:
    if value is None:
        raise BridgeError(f"the net has no blob {name!r}")
    return value
