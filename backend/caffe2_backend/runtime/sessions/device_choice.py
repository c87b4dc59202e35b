"""Choice of the device for a net: its own device options, the caller's device, and what this machine has."""

from __future__ import annotations

from caffe2_backend.runtime.devices.device_names import CPU, device_name, names_gpu, option_device
from caffe2_backend.runtime.sessions.onnxruntime_library import missing_cuda
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef

_IGNORED = "device options are ignored, all operators run on the CPU"


def choose_device(net: NetDef, device: str | None, options: SessionOptions, what: str) -> tuple[str | None, str]:
    """Return the device to run a net on, and a warning if its device options are ignored; empty if they are not.

    Args:
        net: the net.
        device: the canonical name of the device that the caller asks for; None follows the net's device options, or
            ignores them on a machine without a GPU, so that a net that was trained on one runs.
        options: of sessions; a stand-in for a GPU counts as one.
        what: the net, for the warning.
    """
    if not names_gpu(net):
        return device, ""
    if device == CPU:
        return CPU, f"{what} asks for GPUs: its {_IGNORED}"
    reason = "" if device is not None or options.stand_in else missing_cuda()
    return (CPU, f"{what} asks for GPUs, but {reason}: its {_IGNORED}") if reason else (device, "")


def option_target(option: DeviceOption, device: str | None, options: SessionOptions) -> str:
    """Return where a value with a device option goes: as an operator of a net would, see :func:`choose_device`.

    Raises RunError for a type of device that is neither CPU nor GPU.
    """
    asked = option_device(option)
    if CPU in (asked, device):
        return CPU
    if device is not None:
        return device_name(device)
    return CPU if not options.stand_in and missing_cuda() else asked
