"""Devices: the host, and GPUs by index."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CPU, PROTO_CUDA, DeviceOption
from caffe2_bridge.wire.messages import is_message

_TEXT: Final = re.compile(r"(cpu|cuda|gpu)(?::(\d+))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """The host (``cpu``, always index 0) or a GPU (``cuda``)."""

    kind: str
    index: int = 0

    @property
    def is_gpu(self) -> bool:
        """Whether this is a GPU."""
        return self.kind == "cuda"

    def option(self) -> DeviceOption:
        """Return Caffe2's DeviceOption of this device."""
        if not self.is_gpu:
            return DeviceOption(device_type=PROTO_CPU)
        return DeviceOption(device_type=PROTO_CUDA, device_id=self.index)

    def __str__(self) -> str:
        return f"cuda:{self.index}" if self.is_gpu else "cpu"


HOST: Final = Device("cpu")


def as_device(what: Any) -> Device:
    """Return the device of a value, or the device that a text or an option names.

    Args:
        what: a Device; a text, ``cpu``, ``cuda`` or ``cuda:1`` (``gpu`` means ``cuda``); Caffe2's
            DeviceOption; a numpy array or number, which is on the host; torch's device, or whatever has a ``device``
            that reads so, as torch's tensors have.

    Returns:
        The device; a GPU without an index is number 0. Raises BridgeError for anything else.
    """
    if isinstance(what, Device):
        return what
    if is_message(what, "DeviceOption"):
        return _of_option(DeviceOption.FromString(what.SerializeToString()))
    if isinstance(what, str):
        found = _TEXT.fullmatch(what.strip())
        if found is None:
            raise BridgeError(f"{what!r} is not a device: cpu, cuda or cuda:INDEX is expected")
        return HOST if found[1].lower() == "cpu" else Device("cuda", int(found[2] or 0))
    if isinstance(what, np.ndarray | np.generic | int | float | list | tuple):
        return HOST
    device = what if type(what).__name__ == "device" else getattr(what, "device", None)
    if device is None:
        raise BridgeError(f"a {type(what).__name__} does not determine a device")
    return as_device(str(device))


def _of_option(option: DeviceOption) -> Device:
    if option.device_type == PROTO_CPU:
        return HOST
    if option.device_type != PROTO_CUDA:
        raise BridgeError(f"device type {option.device_type} is neither the CPU nor CUDA")
    return Device("cuda", option.device_id)
