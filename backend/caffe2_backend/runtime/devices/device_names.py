"""Devices by name, ``cpu``, ``cuda:N`` and ``webgpu``, and the device options of nets."""

from __future__ import annotations

import re
from typing import Final

from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import (
    PROTO_CPU,
    PROTO_CUDA,
    PROTO_HIP,
    PROTO_IDEEP,
    PROTO_MKLDNN,
    DeviceOption,
    DeviceTypeProto,
    NetDef,
    OperatorDef,
)

CPU: Final = "cpu"
WEBGPU: Final = "webgpu"
_ON_HOST: Final = (PROTO_CPU, PROTO_MKLDNN, PROTO_IDEEP)
GPU_TYPES: Final = (PROTO_CUDA, PROTO_HIP)  # Caffe2 has one source for both, and nets differ in nothing else


def device_name(device: str) -> str:
    """Return the canonical name, ``cuda:0`` for ``cuda``. Raises RunError for what is no device."""
    match = re.fullmatch(r"cpu|webgpu|cuda(?::(\d+))?", device) if isinstance(device, str) else None
    if match is None:
        raise RunError(f"device {device!r} is neither 'cpu' nor 'cuda:N' nor 'webgpu'")
    return device if device in (CPU, WEBGPU) else f"cuda:{int(match[1] or 0)}"


def device_index(device: str) -> int:
    """Return the N of ``cuda:N``; 0 for others."""
    return int(device.partition(":")[2] or 0)


def device_kind(device: str) -> str:
    """Return ``cpu``, ``cuda`` or ``webgpu``, as onnxruntime names it."""
    return device.partition(":")[0]


def option_device(option: DeviceOption) -> str:
    """Return the device of an option. Raises RunError for a type of device that is neither CPU nor GPU."""
    if option.device_type in _ON_HOST:
        return CPU
    if option.device_type in GPU_TYPES:
        return f"cuda:{option.device_id}"
    names: dict[int, str] = {int(value): name for name, value in DeviceTypeProto.items()}
    kind = names.get(int(option.device_type), str(option.device_type)).removeprefix("PROTO_")
    raise RunError(f"device type {kind} is neither CPU nor CUDA: run the net with --device cpu, or device='cpu'")


def operator_device(op: OperatorDef, net: NetDef) -> str:
    """Return the device of an operator: its own option's, else the net's, else the CPU."""
    if op.HasField("device_option"):
        return option_device(op.device_option)
    return option_device(net.device_option) if net.HasField("device_option") else CPU


def with_net_device(op: OperatorDef, net: NetDef) -> OperatorDef:
    """Return the operator, with the device option of its net unless it has its own."""
    if op.HasField("device_option") or not net.HasField("device_option"):
        return op
    placed = OperatorDef()
    placed.CopyFrom(op)
    placed.device_option.CopyFrom(net.device_option)
    return placed


def names_gpu(net: NetDef) -> bool:
    """Whether any operator of the net, or the net itself, has a device option other than the host."""
    options = [op.device_option for op in net.op if op.HasField("device_option")]
    if net.HasField("device_option"):
        options.append(net.device_option)
    return any(option.device_type not in _ON_HOST for option in options)


def names_devices(net: NetDef) -> bool:
    """Whether any operator of the net, or the net itself, has a device option that says more than a note.

    Caffe2 notes in ``extra_info`` which sums of gradients it added.
    """
    options = [op.device_option for op in net.op if op.HasField("device_option")]
    if net.HasField("device_option"):
        options.append(net.device_option)
    return any([field.name for field, _ in option.ListFields()] != ["extra_info"] for option in options)
